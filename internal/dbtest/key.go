package dbtest

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

// Key returns a lock key that no other test has, on a shared server too. It begins with the test's
// name and has only characters of [a-z0-9_.:/-].
func Key(tb testing.TB) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '/':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, strings.TrimPrefix(tb.Name(), "Test"))
	var b [4]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return name[:min(len(name), 20)] + ":" + hex.EncodeToString(b[:])
}
