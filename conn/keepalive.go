package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/monotime"
)

// deadline is how long after the start of the last confirmed exchange the lock
// counts as lost. The server's own limit runs for the whole TTL and starts
// later, so ours passes first: 16 % and 100 ms cover what two clocks differ by
// and how long user code takes to stop.
func (k *Keeper) deadline() time.Duration {
	ttl := k.opts.TTL
	return ttl*84/100 - min(100*time.Millisecond, ttl/20)
}

// freshness is how long an answer may have been under way and still leave time
// until the deadline.
func (k *Keeper) freshness() time.Duration { return k.deadline() - k.opts.TTL/6 }

// confirm records that the server answered an exchange that began at start and
// took that long. A
// long statement proves only that the session lived when it ended, so it is
// followed by a ping at once.
func (s *session) confirm(start, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = start
	s.deadline = start + s.keeper.deadline()
	if ttl := s.keeper.opts.TTL; took > ttl/4 {
		s.deadline = max(s.deadline, monotime.Now()+ttl/6)
		if !s.closed && s.timer != nil {
			s.timer.Reset(0)
		}
	}
}

// untilDeadline is how long the locks on the session may count as held without
// another sign of life; holds is false if there are none.
func (s *session) untilDeadline() (left time.Duration, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.locks) == 0 {
		return 0, false
	}
	return max(s.deadline-monotime.Now(), time.Millisecond), true
}

// again sets the next keep-alive.
func (s *session) again(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.timer.Reset(max(d, time.Millisecond))
	}
}

// tick is the session's keep-alive, on its timer's goroutine: it does nothing
// while a statement runs, pings the session when it is idle, and also one in
// use when it was not asked for as long about its locks; and it closes one that
// has held no lock for half the TTL, or a shorter time if there are too many.
func (s *session) tick() {
	if !s.keeper.join() {
		return
	}
	defer s.keeper.running.Done()
	s.mu.Lock()
	now := monotime.Now()
	holding, age, left := len(s.locks) > 0, now-s.confirmed, s.deadline-now
	unasked := now - s.asked
	s.mu.Unlock()
	ttl := s.keeper.opts.TTL
	switch {
	case !holding && age >= ttl/2 && s.keeper.takeIdle(s),
		!holding && age >= surplusTime && s.keeper.takeSurplus(s):
		s.close()
	case !holding:
		s.again(min(ttl/4, surplusTime))
	case age < ttl/3 && left > ttl/3 && unasked < ttl/3:
		s.again(ttl/3 - max(age, unasked))
	case !s.io.tryLock():
		// A statement is under way: the server looks at the session, and TCP
		// keep-alive at the network.
		s.overlooked.Store(true)
		s.again(ttl / 12)
	case age < ttl/3 && left > ttl/3 && s.rows != nil: // who reads it keeps it alive
		s.io.unlock()
		s.again(ttl / 12)
	default:
		s.keepAlive()
	}
}

// keepAlive pings, under io, which it releases. Whatever happens, at the
// deadline the lock is lost.
//
// An open result set is read ahead first. As long as there is more of it the
// session is busy with a statement, and like any such it is left to TCP
// keep-alive; reading keeps the server from taking the client for stuck. If it
// is too large for that and its owner does not read, the server does, and ends
// the session after the TTL.
func (s *session) keepAlive() {
	ttl := s.keeper.opts.TTL
	s.mu.Lock()
	left := s.deadline - monotime.Now() // now that nothing moves it
	s.mu.Unlock()
	overdue := fmt.Errorf("no sign of life from the server for %v (lockdb_ttl is %v)", s.keeper.deadline(), ttl)
	if left <= 0 {
		if s.rows != nil && s.rows.stuck {
			overdue = fmt.Errorf("a result set of more than %d MiB was left open for %v without being read: read it, or close it (lockdb_ttl is %v)",
				readAheadLimit>>20, s.keeper.deadline(), ttl)
		}
		s.io.unlock()
		s.lose(overdue)
		return
	}
	if s.rows != nil && !s.rows.readAhead(ttl/12) {
		stuck := s.rows.stuck
		s.io.unlock()
		if s.sock != nil && !stuck {
			s.postpone()
		}
		s.again(min(ttl/6, left))
		return
	}
	expiry := time.AfterFunc(left, func() { s.lose(overdue) })
	defer expiry.Stop()
	changed := ""
	s.pinging.Store(true)
	dead, err := s.do(context.Background(), func(ctx context.Context) (err error) {
		changed, err = s.proof(ctx)
		return err
	})
	s.pinging.Store(false)
	s.io.unlock()
	switch {
	case dead || err != nil: // a ping answers even in an aborted transaction
		s.lose(fmt.Errorf("the keep-alive failed: %w", cmp.Or(err, errPeerClosed)))
	case changed != "":
		stale := s.keeper.distrust(s.server) // before anyone hears of the loss
		s.lose(errors.New(changed))
		for _, other := range stale {
			other.close()
		}
	default:
		s.mu.Lock()
		s.asked = monotime.Now()
		s.mu.Unlock()
		s.again(ttl / 3)
	}
}

// handedBack has a session pinged at once that was in the user's hands, where
// nothing told of its life: he may have had it at work until this moment.
func (s *session) handedBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if soon := monotime.Now() + s.keeper.opts.TTL/6; s.deadline < soon && !s.closed && s.timer != nil {
		s.deadline = soon
		s.timer.Reset(0)
	}
}

// goesOn is told what came of reading a result set, which can go on for long
// without ever leaving io to the keep-alive: what that would have made of it, then.
// What is read may have been on this side for long; whether the network is still there
// TCP keep-alive tells, where the socket is known. Under io.
func (s *session) goesOn(read bool) {
	if read && s.sock != nil && s.overlooked.Load() {
		s.overlooked.Store(false)
		s.postpone()
	}
}

// postpone moves the deadline: what the server is busy with goes on.
func (s *session) postpone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = max(s.deadline, monotime.Now()+s.keeper.deadline())
}
