package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// readingCall is a call that has returned with a result set.
func readingCall(ctx context.Context) *call {
	c := newCall(ctx, true)
	c.forRows()
	c.finish()
	return c
}

func isOpen(c *call) bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

func TestACallGoesOnWhileItsResultSetIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := readingCall(ctx)
		require.NoError(t, c.resume())
		c.finish()
		require.NoError(t, c.resume())
		cancel()
		<-c.Done()
		require.ErrorIs(t, c.Err(), context.Canceled)
		c.finish()
		require.ErrorIs(t, c.ended(), context.Canceled)
		require.ErrorIs(t, c.resume(), context.Canceled)
		c.detach()
	})
}

func TestACallWhoseContextEndsWhileNobodyReadsStaysOpenAndIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := readingCall(ctx)
		cancel()
		synctest.Wait()
		require.True(t, isOpen(c), "the driver would close its connection")
		require.NoError(t, c.Err())
		require.ErrorIs(t, c.ended(), context.Canceled)
		require.ErrorIs(t, c.resume(), context.Canceled)
		require.True(t, isOpen(c))
		c.detach()
	})
}

func TestACallIsDetachedWithItsResultSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := readingCall(ctx)
		c.detach()
		cancel()
		synctest.Wait()
		require.NoError(t, c.resume())
	})
}

func TestAStatementWhoseContextEndedInTheQueueIsNotBegun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newTestRows(&scriptedRows{sets: make([]scriptedSet, 1)})
	r.sess.rows = nil
	err := r.sc.call(ctx, func(context.Context, *session) error {
		t.Fatal("pgx's BeginTx would close the connection")
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, r.sess.io.tryLock(), "io is free")
}

func TestAStatementThatWaitsForIOWhileItsLockIsClosedIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRows(&scriptedRows{sets: make([]scriptedSet, 1)})
		l, s := r.sc.lock, r.sess
		s.rows = nil
		require.True(t, s.io.tryLock())
		statement := make(chan error, 1)
		go func() {
			statement <- r.sc.run(t.Context(), "a statement", false, func(context.Context, *session) error {
				return errors.New("it would run under the session's next lock")
			})
		}()
		synctest.Wait() // past the gate
		gone := fault("key", "", ErrReleased)
		require.True(t, l.to(stateClosing, gone))
		l.closeGates(gone)
		s.io.unlock()
		require.ErrorIs(t, <-statement, ErrReleased)
	})
}
