package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// An Admin is the admin port of Apache ZooKeeper 3.9 or later, which streams a snapshot. The port gives no logs, so
// changes that are made while the server writes the snapshot may be in it or not, each for itself.
type Admin struct {
	URL         string // scheme, host and port
	Credentials string // USER:PASSWORD of an identity with all permissions on the root; empty for none
	Client      *http.Client
}

func (a Admin) String() string { return a.URL }

// host returns this machine if the URL means it on every machine. Other URLs name their machine.
func (a Admin) host() (string, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
		return os.Hostname()
	}
	return "", nil
}

// answerBytesMax limits what is quoted of an answer that is no snapshot.
const answerBytesMax = 300

// ErrNotPermitted is returned when the server does not give snapshots to these credentials.
var ErrNotPermitted = errors.New("the server refuses these credentials")

// copyTo asks for a snapshot and writes it.
func (a Admin) copyTo(ctx context.Context, dir string) ([]File, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/commands/snapshot?streaming=true", nil)
	if err != nil {
		return nil, err
	}
	if a.Credentials != "" {
		r.Header.Set("Authorization", "digest "+a.Credentials)
	}
	answer, err := a.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	zxid, err := a.accept(answer)
	if err != nil {
		return nil, err
	}
	body := bufio.NewReader(answer.Body)
	announced, limited := int64(0), false
	if size := answer.Header.Get("snapshot_size"); size != "" {
		if announced, err = strconv.ParseInt(size, 10, 62); err != nil || announced < 0 {
			return nil, fmt.Errorf("%s: %q is no size of a snapshot", a.URL, size)
		}
		limited, body = true, bufio.NewReader(io.LimitReader(answer.Body, announced+1)) // one more shows that there is more
	}
	name := fmt.Sprintf("snapshot.%x", zxid)
	switch magic, err := body.Peek(4); {
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("%s: the snapshot broke off: %w", a.URL, err)
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // snapshot.compression.method=gz
		name += ".gz"
	case string(magic) != "ZKSN":
		return nil, fmt.Errorf("%s: what it sends is no snapshot: it begins with %q", a.URL, magic)
	}
	if err := os.Mkdir(filepath.Join(dir, versionDir), dirPerm); err != nil {
		return nil, err
	}
	f, err := writeFile(filepath.Join(dir, versionDir, name), body)
	if err != nil {
		return nil, fmt.Errorf("%s: the snapshot broke off after %d bytes: %w", a.URL, f.Bytes, err)
	}
	if limited && f.Bytes != announced {
		return nil, fmt.Errorf("%s: the server announced a snapshot of %d bytes, and sent %s", a.URL, announced, sentText(f.Bytes, announced))
	}
	f.Path = versionDir + "/" + name
	return []File{f}, nil
}

// sentText says how much was sent where another size was announced.
func sentText(bytes, announced int64) string {
	if bytes > announced {
		return "more"
	}
	return strconv.FormatInt(bytes, 10)
}

// accept looks at the head of an answer and returns the zxid of the snapshot that follows.
func (a Admin) accept(answer *http.Response) (zxid int64, err error) {
	advice := ""
	switch answer.StatusCode {
	case http.StatusOK:
		text := strings.TrimPrefix(answer.Header.Get("last_zxid"), "0x")
		if zxid, err = strconv.ParseInt(text, 16, 64); err == nil && zxid >= 0 {
			return zxid, nil
		}
		advice = "no snapshot: Apache ZooKeeper has this command since 3.9 (name the data directory instead)"
	case http.StatusTooManyRequests:
		advice = "the server gives one snapshot in a while (admin.rateLimiterIntervalInMS): try again later"
	case http.StatusServiceUnavailable:
		advice = "the command is disabled (admin.snapshot.enabled=true)"
	case http.StatusInternalServerError:
		advice = "its snapshots have no last zxid (serializeLastProcessedZxid.enabled=true)"
	case http.StatusUnauthorized, http.StatusForbidden:
		return 0, fmt.Errorf("%s: %s: %w (an identity with all permissions on / is needed)", a.URL, answer.Status, ErrNotPermitted)
	case http.StatusNotFound:
		advice = "the command is missing: Apache ZooKeeper has it since 3.9 (name the data directory instead)"
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax)) // what could be read of it
	text := strings.Join(strings.Fields(string(said)), " ")
	if advice == "" {
		return 0, fmt.Errorf("%s: %s: %q", a.URL, answer.Status, text)
	}
	return 0, fmt.Errorf("%s: %s: %s; it says %q", a.URL, answer.Status, advice, text)
}
