package conn

import (
	"context"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// enterShared gives a shared session, or makes one, and keeps it shared until
// leaveShared. One is made at a time: the others wait for it, and share it.
func (k *Keeper) enterShared(ctx context.Context, name dialect.Name, w *waiter, req Request) (*session, error) {
	for {
		k.mu.Lock()
		if s := k.sharable(); s != nil {
			s.entered++
			k.mu.Unlock()
			return s, nil
		}
		if k.makes == nil || k.makes.ctx.Err() != nil || req.Try && k.opening == 0 && !k.makes.try {
			s, err := k.makeShared(ctx, name, req) // ends mu
			if s != nil || err != nil {
				return s, err
			}
			continue
		}
		made, starves := k.makes.ctx.Done(), k.opening == 0
		if starves {
			k.nesting[w] = name
		}
		k.mu.Unlock()
		if starves {
			req.outcome.waits()
		}
		err := awaitMade(ctx, made, req.Try)
		k.mu.Lock()
		delete(k.nesting, w)
		why := k.noSession()
		k.mu.Unlock()
		if err != nil {
			return nil, &starved{why, err}
		}
	}
}

// awaitMade waits for the session that another one makes. Who tries does not wait
// where it is not being dialled, which he has to look at again and again.
func awaitMade(ctx context.Context, made <-chan struct{}, try bool) error {
	var again <-chan time.Time
	if try {
		again = time.After(10 * time.Millisecond)
	}
	select {
	case <-made:
	case <-again:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// making is the making of a shared session. Its context ends with it.
type making struct {
	ctx context.Context
	end context.CancelFunc
	try bool // by one who does not wait for a session in use
}

// makeShared makes a shared session, unless there comes to be one on another way:
// then it gives nil. It is called under mu, and ends that.
func (k *Keeper) makeShared(ctx context.Context, name dialect.Name, req Request) (*session, error) {
	m := &making{try: req.Try}
	m.ctx, m.end = context.WithCancel(ctx)
	defer m.end()
	if k.makes == nil || k.makes.ctx.Err() != nil {
		k.makes = m
	}
	k.mu.Unlock()
	s, err := k.session(m.ctx, name, req.outcome, req.Try)
	if err == nil {
		if err = k.supported(s); err != nil {
			k.put(s)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch over := m.ctx.Err() != nil && ctx.Err() == nil; {
	case err == nil:
		k.share(s)
		s.entered++
		return s, nil
	case over:
		err = nil
	}
	if k.makes == m {
		k.makes = nil
	}
	return nil, err
}

// share has a session be found by those who try for multiplexed locks, and by
// those who wait for one. Under mu.
func (k *Keeper) share(s *session) {
	if !slices.Contains(k.shared, s) {
		k.shared = append(k.shared, s)
	}
	if k.makes != nil && !s.server.OneLock {
		k.makes.end()
		k.makes = nil
	}
}

// leaveShared ends what enterShared began. A session without locks is not shared
// any more.
func (k *Keeper) leaveShared(s *session) {
	k.mu.Lock()
	s.entered--
	k.unshare(s)
}

// unshare gives a shared session free that carries nothing. It is called under mu,
// and ends that.
func (k *Keeper) unshare(s *session) {
	s.mu.Lock()
	idle := s.entered == 0 && len(s.locks) == 0 && !s.closed
	gone := s.closed
	s.mu.Unlock()
	i := slices.Index(k.shared, s)
	if i >= 0 && (idle || gone) {
		k.shared = slices.Delete(k.shared, i, i+1)
	}
	k.mu.Unlock()
	if i >= 0 && idle {
		k.put(s)
	}
}
