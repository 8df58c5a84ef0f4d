package conn

import (
	"context"

	"github.com/lockdb/lockdb/internal/dialect"
)

// proofLocks is how many locks one ping asks for; of more it takes turns.
const proofLocks = 64

// proof is a ping that asks the server whether what the session's locks stand
// on is still so: that the session holds them (they can be released behind
// lockdb's back, by code that the scan of SQL text does not see, or expire, as
// in TiDB), that it is still the same one, and that the server has not become a
// replica, which happens to sockets that stay open. changed says what is not so.
//
// Inside a transaction, or where that cannot be ruled out, it is only a ping: a
// question would take part in the transaction. An answer that is an error says
// nothing of the locks, but is a sign of life. Under io.
func (s *session) proof(ctx context.Context) (changed string, err error) {
	names := s.provable()
	if len(names) == 0 || s.mayBeInTx() || s.keeper.pooled(s) {
		return "", s.ping(ctx)
	}
	d := s.keeper.dialect
	changed, err = d.Check(ctx, &s.phys, s.server, names)
	if class := d.Classify(err); class != dialect.ClassOther && class != dialect.ClassGone {
		err = nil
	}
	return changed, err
}

// provable are the locks that the server must say are held: those in the ledger
// that are not being closed, whose release may have gone out.
func (s *session) provable() []dialect.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]dialect.Name, 0, min(len(s.locks), proofLocks))
	for range s.locks {
		if len(names) == proofLocks {
			break
		}
		s.proved = (s.proved + 1) % len(s.locks)
		if l := s.locks[s.proved]; l.now() == stateHeld && !l.reentry && !l.bare {
			names = append(names, l.name)
		}
	}
	return names
}

// mayBeInTx tells whether a transaction may be open: one that was begun as SQL
// text shows in PostgreSQL's protocol, else only in the text. Under io.
func (s *session) mayBeInTx() bool {
	if s.pg != nil || s.inTx() {
		return s.inTx()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scrub.tx
}
