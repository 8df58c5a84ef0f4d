package conn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheIOMutexExcludes(t *testing.T) {
	m := newIOMutex()
	inside, turns := 0, 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				switch i % 3 {
				case 0:
					_ = m.lock(t.Context())
				case 1:
					if !m.tryLock() {
						continue
					}
				case 2:
					if !m.lockWithin(time.Minute) {
						t.Error("not within a minute")
						return
					}
				}
				inside++ // the race detector sees it too
				if inside != 1 {
					t.Errorf("%d are inside", inside)
				}
				turns++
				inside--
				m.unlock()
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, turns, 5*200)
}

func TestWaitingForTheIOMutexCanBeBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIOMutex()
		require.True(t, m.tryLock())
		require.False(t, m.tryLock())
		start := time.Now()
		require.False(t, m.lockWithin(time.Second))
		require.Equal(t, time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, m.lock(ctx), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))

		time.AfterFunc(time.Second, m.unlock)
		require.True(t, m.lockWithin(time.Minute))
		require.Equal(t, 3*time.Second, time.Since(start))
		m.unlock()
		require.NoError(t, m.lock(ctx), "a free one is taken under a context that has ended too: cleanup depends on it")
	})
}
