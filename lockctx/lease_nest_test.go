package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestAReentryOfALeaseSharesItAndReleasesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		outer := acquire(t, db, key, lockctx.Lease(ttl))
		inner, err := lockctx.TryAcquire(outer.Context(), db, key, lockctx.Lease(time.Minute), lockctx.Owner("me"))
		require.NoError(t, err)
		require.Equal(t, outer.Token(), inner.Token())
		found, ok := lockctx.FromContext(inner.Context())
		require.True(t, ok)
		require.Same(t, inner, found)
		require.NoError(t, inner.Close())
		require.ErrorIs(t, inner.Context().Err(), lockctx.ErrReleased)
		require.NoError(t, outer.Err())
		require.True(t, table.isHeld(key))

		inner, err = lockctx.Acquire(outer.Context(), db, key, lockctx.Lease(ttl))
		require.NoError(t, err)
		require.NoError(t, outer.Close())
		require.ErrorIs(t, inner.Err(), lockctx.ErrReleased)
		require.ErrorIs(t, inner.Context().Err(), lockctx.ErrReleased)
		require.ErrorIs(t, inner.Close(), lockctx.ErrReleased)
		require.False(t, table.isHeld(key))
	})
}

func TestTheLossOfALeaseEndsItsReentries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key := open(t, s), dbtest.Key(t)
		outer := acquire(t, db, key, lockctx.Lease(ttl))
		inner, err := lockctx.Acquire(outer.Context(), db, key, lockctx.Lease(ttl))
		require.NoError(t, err)
		tx, err := db.BeginTx(inner.Context(), nil)
		require.NoError(t, err)
		newLeaseTable(t, s).steal(key)
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		for _, lk := range []*lockctx.Lock{inner, outer} {
			require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
	})
}

func TestTheLossOfALeaseIsToldOfItsReentriesToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key := open(t, s), dbtest.Key(t)
		outer := acquire(t, db, key, lockctx.Lease(ttl), lockctx.RenewEvery(200*time.Millisecond))
		inner, err := lockctx.Acquire(outer.Context(), db, key, lockctx.Lease(ttl))
		require.NoError(t, err)
		newLeaseTable(t, s).steal(key)
		require.Eventually(t, func() bool {
			st, err := lockctx.Stats(db)
			require.NoError(t, err)
			return st.Lost == 2
		}, 10*time.Second, 2*time.Millisecond)
		require.ErrorIs(t, inner.Close(), lockctx.ErrLost)
		require.ErrorIs(t, outer.Close(), lockctx.ErrLost)
	})
}

func TestATransactionIsFencedByEveryLeaseOfAChain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		write, count := inserts(t, s)
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		var chain []*lockctx.Lock
		ctx := testCtx(t)
		for _, part := range []string{"b", "a", "c"} {
			lk, err := lockctx.Acquire(ctx, db, key+part, lockctx.Lease(ttl))
			require.NoError(t, err)
			chain, ctx = append(chain, lk), lk.Context()
		}
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, write(tx))
		require.NoError(t, tx.Commit())
		tx, err = db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, write(tx))
		table.steal(key + "b")
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		require.Equal(t, 1, count())
		require.ErrorIs(t, chain[0].Close(), lockctx.ErrLost)
		require.NoError(t, chain[2].Err())
		require.NoError(t, chain[2].Close())
		require.NoError(t, chain[1].Close())
	})
}

func TestATransactionIsFencedByEveryLeaseAroundIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		write, count := inserts(t, s)
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		for i, stolen := range []string{"a", "c"} {
			a := acquire(t, db, key+"a", lockctx.Lease(ttl))
			b, err := lockctx.Acquire(a.Context(), db, key+"b")
			require.NoError(t, err)
			c, err := lockctx.Acquire(b.Context(), db, key+"c", lockctx.Lease(ttl))
			require.NoError(t, err)
			tx, err := db.BeginTx(c.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, write(tx))
			require.NoError(t, tx.Commit())
			require.Equal(t, i+1, count())

			tx, err = db.BeginTx(c.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, write(tx))
			table.steal(key + stolen)
			require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
			require.Equal(t, i+1, count())
			require.Equal(t, stolen == "a", a.Err() != nil)
			require.Equal(t, stolen == "c", c.Err() != nil)
			require.NoError(t, b.Err())
			_, _, _ = c.Close(), b.Close(), a.Close()
			table.exec("DELETE FROM lockdb_lease", "DELETE FROM lockdb_lease")
		}
	})
}

func TestALeaseUnderASessionLockRunsOnItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		session := acquire(t, db, key)
		lk, err := lockctx.Acquire(session.Context(), db, key, lockctx.Lease(ttl))
		require.NoError(t, err, "a lease and a session lock of one key know nothing of each other")
		require.Equal(t, sessionID(t, s, db, session), sessionID(t, s, db, lk))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		var id int64
		query := "SELECT CONNECTION_ID()"
		if !s.IsMySQL() {
			query = "SELECT pg_backend_pid()"
		}
		require.NoError(t, c.QueryRowContext(testCtx(t), query).Scan(&id))
		require.Equal(t, sessionID(t, s, db, session), id)
		require.NoError(t, c.Close())
		require.NoError(t, lk.Close())
		require.NoError(t, session.Close())
	})
}

func TestOtherKeysUnderALeaseAreLeasesOfTheirOwn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		outer := acquire(t, db, key+"a", lockctx.Lease(ttl))
		inner, err := lockctx.AcquireAll(outer.Context(), db, []string{key + "b", key + "a"}, lockctx.Lease(ttl))
		require.NoError(t, err)
		require.Equal(t, outer.Token(), inner.Token())
		require.NoError(t, inner.Close())
		require.True(t, table.isHeld(key+"a"))
		require.False(t, table.isHeld(key+"b"))

		inner, err = lockctx.AcquireAll(outer.Context(), db, []string{key + "b", key + "a"}, lockctx.Lease(ttl))
		require.NoError(t, err)
		require.NoError(t, outer.Close(), "which ends the re-entry, and with it all of its lock")
		require.ErrorIs(t, inner.Err(), lockctx.ErrReleased)
		require.False(t, table.isHeld(key+"a"))
		require.False(t, table.isHeld(key+"b"))
		require.ErrorIs(t, inner.Close(), lockctx.ErrReleased)
	})
}

func TestTheLossOfOneLeaseOfAcquireAllReleasesTheOthers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		lk, err := lockctx.AcquireAll(testCtx(t), db, []string{key + "a", key + "b"}, lockctx.Lease(ttl), lockctx.RenewEvery(200*time.Millisecond))
		require.NoError(t, err)
		table.steal(key + "a")
		select {
		case <-lk.Context().Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the loss was not told")
		}
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrLost)
		require.Eventually(t, func() bool { return !table.isHeld(key + "b") }, 5*time.Second, 2*time.Millisecond)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestAStatementUnderALeaseEndsWithItsLoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl), lockctx.RenewEvery(200*time.Millisecond))
		newLeaseTable(t, s).steal(key)
		query := "SELECT SLEEP(20)"
		if !s.IsMySQL() {
			query = "SELECT pg_sleep(20)"
		}
		start := time.Now()
		_, err := db.ExecContext(lk.Context(), query)
		require.Error(t, err)
		require.Less(t, time.Since(start), promptly)
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestAStatementOnASessionLockUnderALeaseEndsWithTheLossOfTheLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key := open(t, s), dbtest.Key(t)
		lk, err := lockctx.Acquire(context.Background(), db, key, lockctx.Lease(ttl), lockctx.RenewEvery(200*time.Millisecond)) // which nothing else can end
		require.NoError(t, err)
		session, err := lockctx.Acquire(lk.Context(), db, key)
		require.NoError(t, err)
		newLeaseTable(t, s).steal(key)
		query := "SELECT SLEEP(20)"
		if !s.IsMySQL() {
			query = "SELECT pg_sleep(20)"
		}
		start := time.Now()
		_, err = db.ExecContext(session.Context(), query)
		require.Error(t, err)
		require.Less(t, time.Since(start), promptly)
		require.ErrorIs(t, session.Context().Err(), lockctx.ErrLost)
		require.ErrorIs(t, session.Close(), lockctx.ErrLost, "a statement that is cut off costs its session")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestReleasedIsToldBeforeTheNextAcquiredOfALease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		events := make(chan lockEvent, 1000)
		db, key := open(t, s, driver.WithObserver(kindsOf(events))), dbtest.Key(t)
		done := make(chan error, 8)
		for range 8 {
			go func() {
				var err error
				for range 5 {
					if err == nil {
						err = lockctx.Do(testCtx(t), db, key, func(context.Context) error { return nil }, lockctx.Lease(ttl))
					}
				}
				done <- err
			}()
		}
		for range 8 {
			require.NoError(t, <-done)
		}
		close(events)
		held := false
		for e := range events {
			switch e {
			case "acquired":
				require.False(t, held)
				held = true
			case "released":
				require.True(t, held)
				held = false
			}
		}
		require.False(t, held)
	})
}

type lockEvent string

// kindsOf sends the kinds of events.
type kindsOf chan lockEvent

func (o kindsOf) LockEvent(e driver.Event) {
	if e.Kind == driver.EventReleased {
		time.Sleep(2 * time.Millisecond) // the next one is granted meanwhile
	}
	o <- lockEvent(e.Kind)
}
