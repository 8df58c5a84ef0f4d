package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockdb/lockdb/internal/dialect"
)

// On PostgreSQL a lock and BEGIN, and COMMIT and the release, go out in one
// message of two statements, each with a Sync of its own: they are separate
// transactions, so the second one's snapshot is taken after the first one's
// lock was granted, and the release comes after the commit.

// pipes tells whether that can be had: pgx is at hand, and no interceptor wants
// to see the statements.
func (s *session) pipes() bool { return s.pg != nil && s.dc == s.real }

// pgTryAndBegin tries for the lock and begins a transaction.
func (s *session) pgTryAndBegin(ctx context.Context, n dialect.Name, opts driver.TxOptions, begin string) (granted bool, err error) {
	answers, err := s.pgPipe(ctx, dialect.PostgresTry(n), begin)
	if err != nil {
		return false, err
	}
	if err := errors.Join(answers[0].err, answers[1].err); err != nil {
		return false, err
	}
	if answers[0].value != "t" {
		_, err := s.pgPipe(ctx, "rollback")
		return false, err
	}
	s.begun = &begun{opts: opts, inner: pgTx{s}}
	return true, nil
}

// pgCommitAndUnlock commits and releases. err is COMMIT's.
func (s *session) pgCommitAndUnlock(ctx context.Context, n dialect.Name) (released bool, err error) {
	answers, err := s.pgPipe(ctx, "commit", dialect.PostgresUnlock(n))
	if err != nil {
		return false, err
	}
	return answers[1].err == nil && answers[1].value == "t", commitErr(answers[0])
}

// commitErr is as pgx has it: COMMIT of an aborted transaction answers ROLLBACK.
func commitErr(a pgAnswer) error {
	if a.err == nil && a.tag == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return a.err
}

type pgAnswer struct {
	value string // the first column of the first row
	tag   string
	err   error // the server's
}

// pgPipe sends the statements in one message. err is the connection's.
func (s *session) pgPipe(ctx context.Context, statements ...string) ([]pgAnswer, error) {
	pipe := s.pg.PgConn().StartPipeline(ctx)
	for _, sql := range statements {
		pipe.SendQueryParams(sql, nil, nil, nil, nil)
		pipe.SendPipelineSync()
	}
	if err := pipe.Flush(); err != nil {
		_ = pipe.Close()
		return nil, err
	}
	answers := make([]pgAnswer, len(statements))
	for i := 0; i < len(statements); {
		results, err := pipe.GetResults()
		var refusal *pgconn.PgError
		switch {
		case errors.As(err, &refusal):
			answers[i].err = err
			continue
		case err != nil:
			_ = pipe.Close()
			return nil, err
		}
		switch results := results.(type) {
		case *pgconn.ResultReader:
			read := results.Read()
			answers[i].tag, answers[i].err = read.CommandTag.String(), read.Err
			if len(read.Rows) > 0 && len(read.Rows[0]) > 0 {
				answers[i].value = string(read.Rows[0][0])
			}
		case *pgconn.PipelineSync:
			i++
		}
	}
	return answers, pipe.Close()
}

// pgTx is a transaction that was begun in a pipeline.
type pgTx struct{ s *session }

func (t pgTx) Commit() error {
	tag, err := t.s.pg.Exec(context.Background(), "commit")
	return commitErr(pgAnswer{tag: tag.String(), err: err})
}

func (t pgTx) Rollback() error {
	_, err := t.s.pg.Exec(context.Background(), "rollback")
	return err
}

// pgBegin is the statement that begins such a transaction, "" if PostgreSQL has
// none: the driver's own BeginTx then says why.
func pgBegin(opts driver.TxOptions) string {
	begin := "begin"
	switch sql.IsolationLevel(opts.Isolation) {
	case sql.LevelDefault:
	case sql.LevelReadUncommitted:
		begin += " isolation level read uncommitted"
	case sql.LevelReadCommitted:
		begin += " isolation level read committed"
	case sql.LevelRepeatableRead, sql.LevelSnapshot:
		begin += " isolation level repeatable read"
	case sql.LevelSerializable:
		begin += " isolation level serializable"
	default:
		return ""
	}
	if opts.ReadOnly {
		begin += " read only"
	}
	return begin
}
