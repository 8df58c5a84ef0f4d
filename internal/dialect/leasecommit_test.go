package dialect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// eachCommitting runs fn where a fence and COMMIT go in one message, in a transaction on q under a lease.
func eachCommitting(t *testing.T, fn func(t *testing.T, m *member, q *querier, leases []dialect.Lease)) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, q := tab.member(t), tab.bare(t)
		require.Equal(t, tab.Kind() != dbtest.MySQL, m.s.FenceCommits)
		if !m.s.FenceCommits {
			return
		}
		m.run(t, "CREATE TABLE work (n int)")
		fn(t, m, q, []dialect.Lease{m.take(t, "k", "me", time.Minute)})
	})
}

func TestTheErrorOfACommitIsTheDriversOwn(t *testing.T) {
	eachCommitting(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease) {
		if m.IsMySQL() {
			return // it checks nothing at COMMIT
		}
		m.run(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not so' USING ERRCODE = '22P02'; END $$`,
			`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
		m.begin(t, q, "READ COMMITTED")
		err := m.FenceAndCommit(t.Context(), q, m.s, leases)
		var e *pgconn.PgError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "not so", e.Message)
		require.NotErrorIs(t, err, dialect.ErrMoved)
		m.requireWork(t, 0)
	})
}

func TestTheFenceOfAnAbortedTransactionFailsWithTheServersError(t *testing.T) {
	eachCommitting(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease) {
		if m.IsMySQL() {
			return // it aborts no transaction because of a statement
		}
		for _, commit := range m.commits() {
			m.begin(t, q, "READ COMMITTED")
			require.Error(t, q.Exec(t.Context(), "SELECT 1/0"))
			err := commit(t.Context(), m, q, leases)
			var e *pgconn.PgError
			require.ErrorAs(t, err, &e)
			require.Equal(t, "25P02", e.Code)
			q.run(t, "ROLLBACK")
			m.requireWork(t, 0)
		}
	})
}

func TestAfterAFencedCommitNoTransactionIsOpen(t *testing.T) {
	eachCommitting(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease) {
		m.begin(t, q, "REPEATABLE READ")
		require.NoError(t, m.FenceAndCommit(t.Context(), q, m.s, leases))
		m.requireWork(t, 1)
		q.run(t, "INSERT INTO work VALUES (2)") // which commits by itself
		m.requireWork(t, 2)
		if q.pg != nil {
			require.Equal(t, byte('I'), q.pg.PgConn().TxStatus())
		}
	})
}

func TestAfterALostFenceTheTransactionCanBeRolledBack(t *testing.T) {
	eachCommitting(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease) {
		m.begin(t, q, "READ COMMITTED")
		m.run(t, "UPDATE lockdb_lease SET owner='thief'")
		require.ErrorIs(t, m.FenceAndCommit(t.Context(), q, m.s, leases), dialect.ErrMoved)
		m.requireWork(t, 0)
		if q.pg != nil {
			require.Equal(t, byte('E'), q.pg.PgConn().TxStatus())
		}
		q.run(t, "ROLLBACK")
		m.requireWork(t, 0)
	})
}

func TestAFenceWorksInTheSQLModeOfOracle(t *testing.T) {
	eachCommitting(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease) {
		if !m.IsMySQL() {
			return
		}
		q.run(t, "SET sql_mode='ORACLE'")
		m.begin(t, q, "READ COMMITTED")
		require.NoError(t, m.FenceAndCommit(t.Context(), q, m.s, leases))
		m.requireWork(t, 1)
		m.begin(t, q, "READ COMMITTED")
		q.run(t, "UPDATE lockdb_lease SET token=1")
		require.ErrorIs(t, m.FenceAndCommit(t.Context(), q, m.s, leases), dialect.ErrMoved)
	})
}

// failing is a session whose scripts fail.
type failing struct {
	dialect.Querier
	err error
}

func (q failing) Exec(context.Context, string) error { return q.err }

func TestAnErrorThatATriggerSignalsIsNotTakenForALoss(t *testing.T) {
	for _, err := range []error{
		&mysql.MySQLError{Number: 45190, SQLState: [5]byte{'4', '5', '0', '0', '0'}, Message: "the account is closed"},
		&mysql.MySQLError{Number: 1644, SQLState: [5]byte{'4', '5', '0', '0', '0'}, Message: "lockdb: the lease has moved on"},
		&pgconn.PgError{Code: "22P02", Message: `invalid input syntax for type integer: "x"`},
	} {
		q := failing{err: err}
		for _, d := range []dialect.Dialect{dialect.MySQL, dialect.Postgres} {
			got := d.Leases("t").FenceAndCommit(t.Context(), q, dialect.LeaseServer{}, []dialect.Lease{{Key: "k"}})
			require.True(t, errors.Is(got, err) && !errors.Is(got, dialect.ErrMoved), "%v", got)
		}
	}
}
