package conn

import (
	"context"
	"time"
)

// ask makes one lock statement on a free session, without the caller's ctx:
// go-sql-driver and pgx close the connection when that ends. Only if the
// answer does not come within grace after its end, or within answerBound, is
// the connection given up; or at the deadline of multiplexed locks on the session,
// for which nobody can ping meanwhile.
func (k *Keeper) ask(ctx context.Context, s *session, statement func(context.Context) (bool, error)) (yes, dead bool, err error) {
	_ = s.io.lock(context.Background())
	returned := false
	defer func() {
		if !returned {
			s.lose(errUnwound)
		}
		s.io.unlock()
	}()
	defer s.bound(k.answerBound())()
	if left, holds := s.untilDeadline(); holds {
		s.bounded.hurry(s.bounded.now(), left)
	}
	if ctx.Done() != nil {
		turn := s.bounded.now()
		defer context.AfterFunc(ctx, func() { s.bounded.hurry(turn, grace) })()
	}
	start := time.Now()
	dead, err = s.do(context.Background(), func(ctx context.Context) (err error) {
		yes, err = statement(ctx)
		return err
	})
	// An answer that was long under way is as good as the session still is:
	// since it was given the server may have ended that, and granted the next.
	for yes && err == nil && time.Since(start) > k.freshness() {
		start = time.Now()
		if _, err = s.do(context.Background(), s.ping); err != nil {
			yes, dead = false, true
		}
	}
	returned = true
	return yes, dead, err
}

// answerBound is the time after which the answer to a lock statement is not
// waited for any more: the server must have ended the idle session by then.
func (k *Keeper) answerBound() time.Duration { return max(cleanupBound, slice+k.opts.TTL) }

// emptyLockTable releases what the session took of the server's lock table,
// although it is about to be closed: the server would clean up after that when
// it has time, and until then nobody could connect to it.
func (k *Keeper) emptyLockTable(s *session) {
	defer s.bound(cleanupBound)()
	_, _, _ = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
		return true, k.dialect.ReleaseAll(ctx, &s.phys)
	})
}
