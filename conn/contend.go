package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// contend waits at the server on behalf of a busy room's queue, in slices, on a
// goroutine of the keeper's. Waiters come and go meanwhile without the server
// noticing; the last slice is seen through, and what it brought is given back.
// s may be nil.
func (k *Keeper) contend(r *room, s *session) {
	for deaths := 0; ; {
		k.mu.Lock()
		done := r.first == nil || k.closing
		k.mu.Unlock()
		if done {
			k.giveUp(r, s)
			return
		}
		if s == nil {
			had, done, err := k.sessionFor(r)
			switch {
			case done:
				return
			case err != nil:
				k.failAll(r, err)
				continue
			case had == nil:
				continue
			}
			s = had
		}
		var begin *driver.TxOptions
		if err := k.supported(s); err != nil {
			if begin = k.xactFor(r, s); begin == nil {
				k.failOne(r, err)
				continue
			}
		}
		if k.impatient(r) {
			k.look(r, s)
		}
		granted, dead, err := k.waitAt(s, r.name, begin)
		switch {
		case granted:
			k.deliver(r, s)
			return
		case err == nil || !dead && k.dialect.Classify(err) == dialect.ClassDeadlock:
			// The session holds nothing, so there is nothing to give up for a
			// deadlock: who waits just waits on.
			deaths = 0
			k.look(r, s)
		case dead && deaths < 3: // a KILL, a restart: a new session waits on
			deaths++
			s.lose(err)
			s = nil
		case dead:
			s.lose(err)
			s = nil
			k.failAll(r, err)
		default:
			s.lose(err) // and with it whatever may have come of the statement
			s = nil
			k.failOne(r, err)
		}
	}
}

// impatient tells whether the first in the queue will have given up before the
// next look at who holds the lock.
func (k *Keeper) impatient(r *room) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := r.first
	if r.seen != "" || w == nil {
		return false
	}
	return !w.until.IsZero() && time.Until(w.until) < slice
}

// deliver gives a lock just granted on s to the first in the busy room's queue,
// or back to the server if nobody waits any more.
func (k *Keeper) deliver(r *room, s *session) {
	xact := s.begun != nil && s.begun.xact
	k.mu.Lock()
	w := r.next()
	if w != nil && xact && (w.begin == nil || *w.begin != s.begun.opts) {
		r.pushFront(w) // the transaction is not as he wants it
		w = nil
	}
	k.mu.Unlock()
	switch {
	case w == nil && xact:
		k.dropBegun(s)
		k.giveUp(r, s)
		return
	case w == nil:
		_ = s.io.lock(context.Background())
		err := k.releaseAt(s, r.name)
		s.io.unlock()
		if err != nil {
			s.lose(err)
			level := slog.LevelWarn
			if k.ctx.Err() != nil { // db.Close closes it
				level = slog.LevelDebug
			}
			k.write(level, "lockdb: a lock that nobody waits for any more could not be released: its session was closed, and the lock with it",
				slog.String("lock", r.name.String()), slog.Int64("session", s.server.SessionID), slog.Any("error", err))
			s = nil
		}
		k.giveUp(r, s)
		return
	}
	now := time.Now()
	k.admit(r, w, s, tenure{since: now}, now)
}

// admit makes the lock of a waiter and answers him. If the session ended in
// that moment, and the lock with it, he goes on waiting.
func (k *Keeper) admit(r *room, w *waiter, s *session, t tenure, since time.Time) {
	l, err := k.install(r, w, s, t, since)
	if err == nil || !errors.Is(err, errPeerClosed) || !k.requeue(r, w) {
		w.give(answer{lock: l, err: err})
	}
	if err != nil {
		k.giveUp(r, nil)
	}
}

// giveUp ends a turn at the server that brought no lock: the next one is the
// queue's, if there is one. s, if not nil, is free.
func (k *Keeper) giveUp(r *room, s *session) {
	k.mu.Lock()
	if r.first != nil && !k.closing {
		k.mu.Unlock()
		k.spawn(func() { k.contend(r, s) })
		return
	}
	// The session is free before the room is: who comes next finds it.
	kept := s == nil || k.keep(s)
	r.busy = false
	k.sweep(r)
	k.mu.Unlock()
	if !kept {
		s.close()
	}
}

func (k *Keeper) failOne(r *room, err error) {
	k.mu.Lock()
	w := r.next()
	k.mu.Unlock()
	if w != nil {
		w.give(answer{err: k.explain(w.parent, r, w, err)})
	}
}

func (k *Keeper) failAll(r *room, err error) {
	k.mu.Lock()
	n := r.waiting
	k.mu.Unlock()
	for range n {
		k.failOne(r, err)
	}
}

// await waits for the room's answer, at no connection.
func (k *Keeper) await(ctx context.Context, r *room, w *waiter, timeout time.Duration) (*Lock, error) {
	w.waits()
	if timeout <= 0 && ctx.Done() == nil {
		<-w.ready
		return w.answer.lock, w.answer.err
	}
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(time.Until(w.start.Add(timeout)))
		defer timer.Stop()
		over = timer.C
	}
	var why error
	select {
	case <-w.ready:
		return w.answer.lock, w.answer.err
	case <-ctx.Done():
		why = ctx.Err()
	case <-over:
		why = errTimeout
	}
	if k.leaveQueue(r, w) {
		return nil, k.explain(ctx, r, w, why)
	}
	<-w.ready // it came at the same moment
	l, err := w.answer.lock, w.answer.err
	if l == nil || ctx.Err() == nil {
		return l, err
	}
	k.spawn(func() { _ = l.Close() })
	return nil, k.explain(ctx, r, w, why)
}

// explain makes the error of a wait that brought no lock.
func (k *Keeper) explain(ctx context.Context, r *room, w *waiter, err error) error {
	waited := time.Since(w.start).Round(time.Millisecond)
	var out error
	switch class := k.dialect.Classify(err); {
	case ctx.Err() != nil:
		out = fault(w.key, fmt.Sprintf("gave up after %v on %v, %s", waited, r.name, k.whoHas(r, err)), ctx.Err())
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errOpen):
		out = fault(w.key, fmt.Sprintf("waited %v for %v, %s", waited, r.name, k.whoHas(r, err)), ErrNotAcquired)
	case errors.Is(err, ErrClosed), errors.Is(err, ErrUnsupported):
		out = fault(w.key, "", err)
	case class == dialect.ClassDeadlock:
		out = fault(w.key, "locks held before stay held: release them and begin again", ErrDeadlock, err)
	case class == dialect.ClassUnsupported:
		out = fault(w.key, noLocks, ErrUnsupported, err)
	case class == dialect.ClassServerFull:
		out = fault(w.key, "the server takes no more connections, and no lock session of this process is free", errAcquire, err)
	case class == dialect.ClassLockTable:
		out = fault(w.key, "the server's lock table is full: raise max_locks_per_transaction, or hold fewer locks", err)
	default:
		out = fault(w.key, fmt.Sprintf("after %v", waited), errAcquire, err)
	}
	return out
}

var errAcquire = errors.New("lockdb: acquire failed")

// whoHas says in words who holds the room's lock, or why it was not asked for.
func (k *Keeper) whoHas(r *room, err error) string {
	var none *starved
	if errors.As(err, &none) {
		return none.why
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.queue, func(o *sessionOrder) bool { return o.name == r.name }) {
		return k.noSession()
	}
	switch {
	case r.holder != nil:
		return fmt.Sprintf("held by this process for %v (session %d)",
			time.Since(r.holder.since).Round(time.Millisecond), r.holder.sess.server.SessionID)
	case r.seen != "":
		return "held by " + r.seen
	}
	return "held by another session"
}

// lookWhile is look for one who does not wait for the lock: he waits for the
// answer while ctx lasts, and the turn ends with it in any case.
func (k *Keeper) lookWhile(ctx context.Context, r *room, s *session) {
	looked := make(chan struct{})
	if !k.spawn(func() {
		defer close(looked)
		k.look(r, s)
		k.giveUp(r, s)
	}) {
		return // closed
	}
	select {
	case <-looked:
	case <-ctx.Done():
	}
}

// look asks the server who holds the lock, for the errors of those who wait.
func (k *Keeper) look(r *room, s *session) {
	_ = s.io.lock(context.Background())
	k.lookAt(r, s)
}

// lookAt is look for one who has the session's io, which it ends.
func (k *Keeper) lookAt(r *room, s *session) {
	// The question would take part in the user's transaction, or meet the
	// answer to another.
	if s.inTx() || s.rows != nil && !s.rows.readAhead(k.opts.BusyTimeout) {
		s.io.unlock()
		return
	}
	var seen string
	stop := s.bound(cleanupBound)
	_, _ = s.do(context.Background(), func(ctx context.Context) (err error) {
		seen, err = k.dialect.Holder(ctx, &s.phys, r.name)
		return err
	})
	stop()
	s.io.unlock()
	k.mu.Lock()
	r.seen = seen
	k.mu.Unlock()
}
