package interop

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/peer"
)

func TestMain(m *testing.M) { os.Exit(peer.Main(m)) }
