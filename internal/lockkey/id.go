package lockkey

import "encoding/binary"

// ID returns the bigint of the PostgreSQL advisory lock for key. The error is
// ErrEmpty, ErrTooLong, or that of CheckNamespace.
func ID(namespace, key string) (int64, error) {
	if err := check(namespace, key); err != nil {
		return 0, err
	}
	digest := sum(namespace, key)
	eight := digest[:8]
	if namespace != "" {
		eight = digest[8:16]
	}
	return int64(binary.BigEndian.Uint64(eight)), nil // two's complement, never modulo
}
