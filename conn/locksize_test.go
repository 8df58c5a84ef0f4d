package conn

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A lock that is handed on is one allocation, of which the collector's work is a part of the cost of a turn: a
// few bytes more than that make it 640.
func TestALockFitsIntoTheAllocatorsSizeClass(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Lock{}), uintptr(576))
}
