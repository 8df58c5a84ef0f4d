package conn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The time of all waits only grows.
func TestWhoCameAsTheLockWasHandedOnHasNotWaitedForLessThanNothing(t *testing.T) {
	granted := time.Now()
	l := &Lock{since: granted}
	require.Zero(t, waited(granted.Add(time.Microsecond), l))
	require.Equal(t, time.Second, waited(granted.Add(-time.Second), l))
}
