package lockkey

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// MaxBytes is the length of the longest key.
const MaxBytes = 64 << 10

// The reasons why a key is refused, before anything is sent to a server.
var (
	// ErrEmpty occurs on the empty key: MySQL refuses it as a name, and it is
	// nearly always a variable that was not set.
	ErrEmpty = errors.New("lockdb: the lock's key is empty: give the lock a name")
	// ErrTooLong occurs on a key of more than MaxBytes bytes.
	ErrTooLong = fmt.Errorf("lockdb: the lock's key is longer than %d bytes: use a shorter name, or a hash of the data", MaxBytes)
)

func check(namespace, key string) error {
	if key == "" {
		return ErrEmpty
	}
	if len(key) > MaxBytes {
		return fmt.Errorf("%w (it has %d bytes and begins with %.40q)", ErrTooLong, len(key), key[:40])
	}
	return CheckNamespace(namespace)
}

// sum hashes on the stack where the key has a usual length.
func sum(namespace, key string) [sha256.Size]byte {
	var room [192]byte
	text := room[:0]
	if namespace != "" {
		text = append(text, namespace...)
		text = append(text, 0)
	}
	return sha256.Sum256(append(text, key...))
}
