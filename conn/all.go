package conn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// nestedKey is one of the further keys of AcquireAll.
type nestedKey struct {
	key  string
	name dialect.Name
	held bool // granted already by the first try
}

// AcquireAll takes the locks of all keys, or none, on one session: the first in
// the order of the server's names as Acquire does, the others nested in it.
// All who take several keys take them in that order, which keeps them from
// waiting for each other in a circle. Leases are taken one after the other.
func (k *Keeper) AcquireAll(ctx context.Context, keys []string, req Request) (*Lock, error) {
	if len(keys) == 0 {
		return nil, errors.New("lockdb: AcquireAll needs at least one key")
	}
	if req.Shared {
		return nil, fault("", "the locks of AcquireAll share a session of their own already: leave Multiplexed out", ErrUnsupported)
	}
	if req.Name != nil {
		return nil, fault("", "AdvisoryID and AdvisoryPair name one lock: they do not go with AcquireAll", ErrUnsupported)
	}
	if req.Lease != 0 {
		return k.acquireLeases(ctx, keys, req)
	}
	all := make([]nestedKey, len(keys))
	for i, key := range keys {
		name, err := k.resolve(Request{Key: key})
		if err != nil {
			return nil, err
		}
		all[i] = nestedKey{key: key, name: name}
	}
	slices.SortStableFunc(all, func(a, b nestedKey) int { return a.name.Compare(b.name) })
	all = slices.CompactFunc(all, func(a, b nestedKey) bool { return a.name == b.name })
	req.Key, req.more = all[0].key, all[1:]
	return k.Acquire(ctx, req)
}

// tryAll tries for all locks in one round trip. If it cannot have them all it
// keeps those before the first that was refused, since the order must hold:
// more marks them.
func (k *Keeper) tryAll(ctx context.Context, s *session, name dialect.Name, more []nestedKey) (first bool, err error) {
	names := []dialect.Name{name}
	for i := range more {
		more[i].held = false
		names = append(names, more[i].name)
	}
	granted, err := k.dialect.TryAll(ctx, &s.phys, names)
	if err != nil {
		return false, err
	}
	refused := slices.Index(granted, false)
	for i, yes := range granted {
		switch {
		case yes && (refused < 0 || i < refused):
			if i > 0 {
				more[i-1].held = true
			}
		case yes:
			if ok, err := k.dialect.Release(ctx, &s.phys, names[i]); err != nil || !ok {
				return false, errors.Join(errNotHeld, err)
			}
		}
	}
	return granted[0], nil
}

// acquireMore takes the further locks of AcquireAll under the first, or closes
// the first and with it those taken so far.
func (k *Keeper) acquireMore(first *Lock, req Request) error {
	first.keys = req.outcome.keys
	for _, n := range req.more {
		var err error
		if n.held {
			l := &Lock{keeper: k, key: n.key, name: n.name, sess: first.sess, outer: first, part: true}
			l.opens(&first.ctx)
			err = l.enterNest()
		} else {
			rest := Request{Key: n.key, part: true, Try: req.Try, outcome: req.outcome}
			if req.Timeout > 0 {
				rest.Timeout = req.Timeout - time.Since(req.outcome.start)
				rest.Try = rest.Timeout <= 0
			}
			_, err = k.nest(&first.ctx, first, rest, n.name)
		}
		if err != nil {
			// A slice at the server may be under way on the session, which
			// who gave up must not wait for.
			if !k.spawn(func() { _ = first.Close() }) {
				_ = first.Close()
			}
			return err
		}
	}
	return nil
}
