package conn

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

const (
	// secondBound bounds what the self-test does on its second connection,
	// which the first lock has to wait for.
	secondBound = 5 * time.Second
	// testAgain is how long a test that could not be made is left alone.
	testAgain = 10 * time.Second
	// testRounds is how often the self-test takes and releases a lock: a
	// pooler that gives each statement to any of several backends may by
	// chance give a few to the same one.
	testRounds = 3
	// testRoundsInDoubt is used where the server says that another session
	// holds what this one was granted: TiDB and Vitess do, and such poolers.
	testRoundsInDoubt = 10
)

// selfTest takes a lock that nobody else uses on a session that is being
// opened, and tries for it on a second connection, which must be refused. It
// finds servers that accept lock functions and do not lock, and poolers that do
// not show. An error is the session's own connection's; where the test cannot
// be made (the server is full), it finds nothing.
func (k *Keeper) selfTest(ctx context.Context, p *phys, s dialect.Server, t *truth) error {
	name, err := k.dialect.Resolve(k.opts.Namespace, "lockdb/self-test/"+rand.Text())
	if err != nil {
		return err
	}
	owner, tested := dialect.OwnerSession, false
	for round, rounds := 0, testRounds; round < rounds; round++ {
		granted, err := k.dialect.Try(ctx, p, name)
		if err != nil || !granted {
			return k.untested(err, t)
		}
		if round == 0 {
			var twice bool
			if twice, tested = k.grantedTwice(ctx, name, s, t); twice {
				// Unless the first has it still, it may be that a KILL ended that one.
				if _, err := k.dialect.Release(ctx, p, name); err != nil {
					return k.untested(err, t)
				}
				t.known, t.unsupported = true, "two connections were granted the same lock at the same time, which a server does that accepts lock functions and does not lock "+
					"(CockroachDB, old TiDB), or a pooler between that gives one server session to both: connect directly to a single primary of MySQL, MariaDB or PostgreSQL"
				return nil
			}
			// A pooler may leave a client on one backend until a transaction ends.
			if tx, err := p.begin(ctx, driver.TxOptions{}); err == nil {
				_ = tx.Commit()
			}
		}
		who, err := k.dialect.Owner(ctx, p, s, name)
		if class := k.dialect.Classify(err); err != nil && (class == dialect.ClassOther || class == dialect.ClassGone) {
			return err
		}
		released, err := k.dialect.Release(ctx, p, name)
		if err != nil {
			return k.untested(err, t)
		}
		if who == dialect.OwnerNobody || !released {
			t.known, t.unsupported, t.pooler = true, "a lock that this connection was granted was not held by it a statement later, "+
				"so a pooler or proxy between gives its statements to several server sessions: connect to the server directly", k.dialect == dialect.Postgres
			return nil
		}
		if who == dialect.OwnerSomeone {
			rounds = testRoundsInDoubt
		}
		owner = min(owner, who)
	}
	t.owner = owner
	if owner != dialect.OwnerSession {
		t.fusion = dialect.FusionNone
	}
	t.known = tested || k.opts.MaxSessions == 1
	return nil
}

// untested ends a test that the server's answer err, or a refusal, broke off.
func (k *Keeper) untested(err error, t *truth) error {
	switch k.dialect.Classify(err) {
	case dialect.ClassUnsupported:
		t.known, t.unsupported = true, noLocks+" (it says: "+err.Error()+")"
		return nil
	case dialect.ClassOther, dialect.ClassGone:
		return err // nil if there was a refusal
	}
	return nil
}

// noLocks is what ClassUnsupported means.
const noLocks = "the server has no session locks (a node of a Galera cluster, for one, refuses GET_LOCK): connect to a single primary that has them"

// grantedTwice tries on a connection of its own for a lock that is held. tested
// is false if there was no answer. lockdb_max_sessions holds for it too. On MySQL
// and MariaDB it then finds out the server's fusion.
func (k *Keeper) grantedTwice(ctx context.Context, name dialect.Name, s dialect.Server, t *truth) (twice, tested bool) {
	if !k.reserve() {
		return false, false
	}
	defer k.unreserve()
	// The first connection idles meanwhile, and the server ends it after the TTL.
	ctx, cancel := context.WithTimeout(ctx, min(secondBound, k.opts.TTL/2))
	defer cancel()
	dc, err := k.lockConnector.Connect(ctx)
	if err != nil {
		return false, false
	}
	defer func() { _ = dc.Close() }()
	p := newPhys(dc)
	twice, err = k.dialect.Try(ctx, &p, name)
	if twice {
		_, _ = k.dialect.Release(ctx, &p, name)
	}
	if free, rerr := k.dialect.Resolve(k.opts.Namespace, "lockdb/self-test/"+rand.Text()); err == nil && !twice && rerr == nil &&
		k.dialect == dialect.MySQL && p.commitsByText() {
		t.fusion = dialect.FindFusion(ctx, &p, s.Version, name, free)
	}
	return twice, err == nil
}
