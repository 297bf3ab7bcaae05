package queue

import (
	"encoding/json"
	"fmt"
)

// PermitsMax is the largest number of permits of a semaphore. A waiter watches that many znodes.
const PermitsMax = 500

// storedPermits is the data of the directory.
type storedPermits struct {
	Permits int `json:"permits"`
}

// EncodePermits returns the data of a semaphore's directory.
func EncodePermits(n int) []byte {
	b, _ := json.Marshal(storedPermits{n}) // nothing in it can fail
	return b
}

// ParsePermits reads the data of a directory; 0 is no data. Data that is not ours is an error.
func ParsePermits(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	var r storedPermits
	if err := json.Unmarshal(data, &r); err != nil || r.Permits < 1 || r.Permits > PermitsMax {
		return 0, fmt.Errorf("the directory's data is not a number of permits, such as {\"permits\":2}: %.40q", data)
	}
	return r.Permits, nil
}
