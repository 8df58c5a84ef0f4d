package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"
)

// countingInterceptor counts what it sees.
type countingInterceptor struct {
	sqlmw.NullInterceptor
	connects, execs, queries, begins, prepares, pings int
	connect                                           func(context.Context, driver.Connector) (driver.Conn, error)
}

func (i *countingInterceptor) ConnectorConnect(ctx context.Context, c driver.Connector) (driver.Conn, error) {
	i.connects++
	if i.connect != nil {
		return i.connect(ctx, c)
	}
	return c.Connect(ctx)
}

func (i *countingInterceptor) ConnExecContext(ctx context.Context, c driver.ExecerContext, q string, args []driver.NamedValue) (driver.Result, error) {
	i.execs++
	return c.ExecContext(ctx, q, args)
}

func (i *countingInterceptor) ConnQueryContext(ctx context.Context, c driver.QueryerContext, q string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	i.queries++
	rows, err := c.QueryContext(ctx, q, args)
	return ctx, rows, err
}

func (i *countingInterceptor) ConnBeginTx(ctx context.Context, c driver.ConnBeginTx, o driver.TxOptions) (context.Context, driver.Tx, error) {
	i.begins++
	tx, err := c.BeginTx(ctx, o)
	return ctx, tx, err
}

func (i *countingInterceptor) ConnPrepareContext(ctx context.Context, c driver.ConnPrepareContext, q string) (context.Context, driver.Stmt, error) {
	i.prepares++
	stmt, err := c.PrepareContext(ctx, q)
	return ctx, stmt, err
}

func (i *countingInterceptor) ConnPing(ctx context.Context, c driver.Pinger) error {
	i.pings++
	return c.Ping(ctx)
}

func TestWithoutAnInterceptorNothingIsInBetween(t *testing.T) {
	inner := fakeConnector{}
	require.Equal(t, driver.Connector(inner), intercept(inner, nil))
	require.Nil(t, intercept(nil, &countingInterceptor{}))
}

func TestAnInterceptorSeesEveryCallAndTheRealConnectionStaysInReach(t *testing.T) {
	ctx := context.Background()
	i := &countingInterceptor{}
	dc, err := intercept(fakeConnector{}, i).Connect(ctx)
	require.NoError(t, err)
	c := dc.(*Intercepted)
	real, ok := c.Real().(*fakeConn)
	require.True(t, ok, "%T", c.Real())

	_, err = c.ExecContext(ctx, "a", nil)
	require.NoError(t, err)
	_, err = c.QueryContext(ctx, "b", nil)
	require.NoError(t, err)
	_, err = c.BeginTx(ctx, driver.TxOptions{})
	require.NoError(t, err)
	_, err = c.PrepareContext(ctx, "c")
	require.NoError(t, err)
	require.NoError(t, c.Ping(ctx))
	require.Equal(t, []string{"exec a", "query b", "begin", "prepare", "ping"}, real.calls)
	require.Equal(t, []int{1, 1, 1, 1, 1, 1}, []int{i.connects, i.execs, i.queries, i.begins, i.prepares, i.pings})

	_, err = c.Prepare("x")
	require.EqualError(t, err, "no Prepare")
	_, err = c.Begin()
	require.EqualError(t, err, "no Begin")
	require.NoError(t, c.Close())
	require.Equal(t, 1, real.closed)
}

func TestWhatTheInterceptorsWrapperClaimsFalselyIsNotClaimed(t *testing.T) {
	dc, err := intercept(fakeConnector{}, &countingInterceptor{}).Connect(context.Background())
	require.NoError(t, err)
	_, ok := dc.(driver.Validator)
	require.False(t, ok)
	_, ok = dc.(driver.SessionResetter)
	require.False(t, ok)
	_, ok = dc.(driver.NamedValueChecker)
	require.False(t, ok)
}

func TestADriverWithoutExecAndQueryIsSkipped(t *testing.T) {
	ctx := context.Background()
	dc, err := intercept(fakeConnector{open: func() driver.Conn { return plainConn{} }}, &countingInterceptor{}).Connect(ctx)
	require.NoError(t, err)
	c := dc.(*Intercepted)
	_, err = c.ExecContext(ctx, "a", nil)
	require.Equal(t, driver.ErrSkip, err) // database/sql compares with ==
	_, err = c.QueryContext(ctx, "a", nil)
	require.Equal(t, driver.ErrSkip, err)
	require.NoError(t, c.Ping(ctx))
	_, err = c.PrepareContext(ctx, "a")
	require.NoError(t, err)
	_, err = c.BeginTx(ctx, driver.TxOptions{})
	require.NoError(t, err)
}

// wrappedFake is what an interceptor may put around a connection.
type wrappedFake struct{ driver.Conn }

func TestTheRealConnectionIsTheDriversAlsoIfTheInterceptorReturnsAnother(t *testing.T) {
	i := &countingInterceptor{connect: func(ctx context.Context, c driver.Connector) (driver.Conn, error) {
		dc, err := c.Connect(ctx)
		return wrappedFake{dc}, err
	}}
	dc, err := intercept(fakeConnector{}, i).Connect(context.Background())
	require.NoError(t, err)
	require.IsType(t, &fakeConn{}, dc.(*Intercepted).Real())

	own := &fakeConn{}
	i.connect = func(context.Context, driver.Connector) (driver.Conn, error) { return own, nil }
	dc, err = intercept(fakeConnector{}, i).Connect(context.Background())
	require.NoError(t, err)
	require.Same(t, own, dc.(*Intercepted).Real())
}

func TestAnInterceptorsErrorIsConnects(t *testing.T) {
	refused := errors.New("refused")
	i := &countingInterceptor{connect: func(context.Context, driver.Connector) (driver.Conn, error) { return nil, refused }}
	_, err := intercept(fakeConnector{}, i).Connect(context.Background())
	require.Equal(t, refused, err)
}

func TestAnInterceptedConnectorClosesWhatItWraps(t *testing.T) {
	closed := 0
	c := intercept(fakeConnector{closed: &closed}, &countingInterceptor{}).(*interceptedConnector)
	require.NoError(t, c.Close())
	require.Equal(t, 1, closed)
	require.Equal(t, fakeDriver{}, c.Driver())
}
