package conn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

func TestALossDuringAStatementTellsTheEndOfItsContextOnce(t *testing.T) {
	l := &Lock{key: "k"}
	for _, c := range []struct {
		ended, err error
		want       string
	}{
		{context.Canceled, context.Canceled, "lockdb: lock lost (key \"k\"): the session ended while a statement ran: context canceled"},
		{context.Canceled, fmt.Errorf("timeout: %w", context.Canceled), "lockdb: lock lost (key \"k\"): the session ended while a statement ran: timeout: context canceled"},
		{context.Canceled, errors.New("EOF"), "lockdb: lock lost (key \"k\"): the session ended while a statement ran: EOF: context canceled"},
		{context.Canceled, nil, "lockdb: lock lost (key \"k\"): the session ended while a statement ran: context canceled"},
		{nil, errors.New("EOF"), "lockdb: lock lost (key \"k\"): the session ended while a statement ran: EOF"},
	} {
		err := l.lostIn(c.ended, c.err)
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, ErrLost)
		if c.ended != nil {
			require.ErrorIs(t, err, c.ended)
		}
	}
}

func TestARefusedCommitSaysOnceThatTheLeaseHasMovedOn(t *testing.T) {
	require.EqualError(t, rolledBack("k", dialect.ErrMoved),
		"lockdb: lock lost (key \"k\"): the transaction was rolled back at its COMMIT: the lease has moved on")
	err := rolledBack("k", errors.New("could not serialize access"))
	require.EqualError(t, err,
		"lockdb: lock lost (key \"k\"): the transaction was rolled back at its COMMIT, since the lease has moved on: could not serialize access")
	require.ErrorIs(t, err, ErrLost)
}
