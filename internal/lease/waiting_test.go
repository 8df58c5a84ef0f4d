package lease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		require.Fail(t, "it does not end")
	}
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestAWaitEndsWithItsCallerAndWithAllWaits(t *testing.T) {
	for _, look := range []bool{false, true} {
		for _, first := range []string{"caller", "waits", "done"} {
			caller, cancelCaller := context.WithCancel(t.Context())
			waits, cancelWaits := context.WithCancel(t.Context())
			m := &Manager{cfg: Config{Waits: waits}}
			w, done := m.Waiting(caller)
			child := w
			if look {
				var stop func()
				child, stop = context.WithCancel(w) // it is a goroutine that looks at w
				defer stop()
			}
			require.NoError(t, w.Err())
			switch first {
			case "caller":
				cancelCaller()
				ended(t, child)
			case "waits":
				cancelWaits()
				ended(t, child)
			case "done":
				done()
				if look { // package context panics if there is an end without an error
					ended(t, child)
				} else {
					require.NoError(t, w.Err())
				}
			}
			done()
			cancelCaller()
			cancelWaits()
		}
	}
}
