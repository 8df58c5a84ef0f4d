package conn

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipeSession is a session whose socket tells whether it was closed.
func pipeSession(t *testing.T) (s *session, cut func() bool) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = theirs.Read(make([]byte, 1))
	}()
	return &session{sock: ours, closed: true}, func() bool {
		synctest.Wait()
		select {
		case <-closed:
			return true
		default:
			return false
		}
	}
}

func TestBoundCutsACleanupThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cut := pipeSession(t)
		defer s.bound(cleanupBound)()
		time.Sleep(cleanupBound - time.Millisecond)
		require.False(t, cut())
		time.Sleep(2 * time.Millisecond)
		require.True(t, cut())
	})
}

func TestBoundGivesEachCleanupItsWholeTime(t *testing.T) {
	for name, pause := range map[string]time.Duration{
		"while the timer of the one before runs": cleanupBound / 2,
		"when it has fired":                      10 * cleanupBound,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, cut := pipeSession(t)
				s.bound(cleanupBound)()
				time.Sleep(pause)
				require.False(t, cut(), "nothing was bounded")
				defer s.bound(cleanupBound)()
				time.Sleep(cleanupBound - time.Millisecond)
				require.False(t, cut())
				time.Sleep(2 * time.Millisecond)
				require.True(t, cut())
			})
		})
	}
}

func TestBoundLetsALongerUseHaveItsTimeUnlessItIsHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cut := pipeSession(t)
		stop := s.bound(7 * cleanupBound)
		time.Sleep(7*cleanupBound - time.Millisecond)
		require.False(t, cut())
		stop()
		s.bounded.hurry(s.bounded.now(), time.Millisecond)
		time.Sleep(10 * cleanupBound)
		require.False(t, cut(), "it was over before")

		old := s.bounded.now()
		defer s.bound(7 * cleanupBound)()
		s.bounded.hurry(old, time.Millisecond)
		time.Sleep(time.Second)
		require.False(t, cut(), "another one was hurried")
		s.bounded.hurry(s.bounded.now(), time.Second)
		time.Sleep(time.Second - time.Millisecond)
		require.False(t, cut())
		time.Sleep(2 * time.Millisecond)
		require.True(t, cut())
	})
}

func TestBoundAfterBeginsWithTheEndOfTheContext(t *testing.T) {
	const d = 2 * cleanupBound
	for name, c := range map[string]struct {
		ctx func(context.Context) (context.Context, context.CancelFunc)
		cut time.Duration
	}{
		"which is long over": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, cleanupBound + d},
		"at its deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 101*time.Second)
		}, 101*time.Second + d},
		"before its deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			time.AfterFunc(101*time.Second, cancel)
			return ctx, cancel
		}, 105*time.Second + d},
		"of a lock's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, 101*time.Second)
			l := &Lock{}
			l.opens(ctx)
			l.ctx.endWith(fault("", "", ErrReleased)) // which does not count
			return &l.ctx, cancel
		}, 101*time.Second + d},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, cut := pipeSession(t)
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				defer s.boundAfter(ctx, d)()
				time.Sleep(c.cut - time.Millisecond)
				require.False(t, cut())
				time.Sleep(2 * time.Millisecond)
				require.True(t, cut())
			})
		})
	}
}

func TestBoundAfterIsOverWithItsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cut := pipeSession(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.boundAfter(ctx, cleanupBound)()
		s.boundAfter(context.Background(), cleanupBound)()
		defer s.boundAfter(context.Background(), cleanupBound)()
		time.Sleep(time.Hour)
		require.False(t, cut())
	})
}

func TestTheBeginningOfAnExchangeIsNeverTakenTooLate(t *testing.T) {
	var c clock
	now := time.Now()
	first := c.at(now)
	time.Sleep(time.Millisecond)
	require.Equal(t, first, c.at(now.Add(clockStep)), "an exchange may count as begun earlier")
	again := c.at(now.Add(clockStep + 1))
	require.GreaterOrEqual(t, again-first, time.Millisecond)
	require.LessOrEqual(t, again-first, time.Since(now))
}
