package dbtest_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// quiet is how long a test watches that nothing happens.
const quiet = 150 * time.Millisecond

// one opens a single connection through the relay.
func one(t *testing.T, s *dbtest.Server, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(s.Driver(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func roundTrip(t *testing.T, c *sql.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	var n int
	require.NoError(t, c.QueryRowContext(t.Context(), "SELECT 1").Scan(&n))
	return time.Since(began)
}

func TestRelayDelaysEachDirection(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		r := s.Relay(t)
		c := one(t, s, r.DSN())
		roundTrip(t, c) // pgx describes a statement once
		const delay = 60 * time.Millisecond
		r.SetDelay(delay)
		require.GreaterOrEqual(t, roundTrip(t, c), 2*delay)
		r.SetDelay(0)
		fastest := time.Hour
		for range 20 {
			fastest = min(fastest, roundTrip(t, c))
		}
		require.Less(t, fastest, delay)
	})
}

func TestRelayDelayKeepsThroughput(t *testing.T) {
	const chunks, size, delay = 100, 10_000, 50 * time.Millisecond
	took := delayedChunks(t, chunks, size, delay)
	for tries := 1; tries < 5 && took > chunks*delay/4; tries++ { // a busy machine may hold one up
		took = delayedChunks(t, chunks, size, delay)
	}
	require.Less(t, took, chunks*delay/4)
}

// delayedChunks sends chunks through a relay and tells how long they were on their way.
func delayedChunks(t *testing.T, chunks, size int, delay time.Duration) time.Duration {
	t.Helper()
	client, server, r := pair(t)
	r.SetDelay(delay)
	began := time.Now()
	go func() {
		for i := range chunks {
			chunk := make([]byte, size)
			chunk[0] = byte(i)
			_, _ = client.Write(chunk)
			time.Sleep(time.Millisecond)
		}
	}()
	got := make([]byte, chunks*size)
	_, err := io.ReadFull(server, got)
	require.NoError(t, err)
	took := time.Since(began)
	for i := range chunks {
		require.Equal(t, byte(i), got[i*size], "order")
	}
	return took
}

func TestRelayCutHoldsEverythingUntilHeal(t *testing.T) {
	client, server, r := pair(t)
	r.Cut()
	write(t, client, "to server")
	write(t, server, "to client")
	silent(t, client)
	silent(t, server)
	r.Heal()
	require.Equal(t, "to client", read(t, client))
	require.Equal(t, "to server", read(t, server))
}

func TestRelayCutHoldsTheEndOfAConnection(t *testing.T) {
	client, server, r := pair(t)
	r.Cut()
	require.NoError(t, client.Close())
	silent(t, server)
	r.Heal()
	_, err := server.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

func TestRelayCutHoldsTheResetOfAConnection(t *testing.T) {
	client, server, r := pair(t)
	r.Cut()
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	silent(t, server)
	r.Heal()
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestRelayCutHoldsBytesThatWaitForTheirReader(t *testing.T) {
	client, server, r := pair(t)
	const size = 32 << 20 // more than the buffers of sockets hold
	go func() { _, _ = client.Write(make([]byte, size)) }()
	read(t, server)
	r.Cut() // would hang if it waited for the server to read
	r.Heal()
	n, err := io.CopyN(io.Discard, server, size/2)
	require.NoError(t, err, "%d bytes", n)
}

func TestRelayCutForGoodNeverDelivers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		r := s.Relay(t)
		c := one(t, s, r.DSN())
		roundTrip(t, c)
		require.Len(t, s.Sessions(t), 1)
		r.CutForGood()
		ctx, cancel := context.WithTimeout(t.Context(), quiet)
		defer cancel()
		_, err := c.ExecContext(ctx, "CREATE TABLE never (n int)")
		require.Error(t, err) // and the driver has closed the connection
		_ = c.Close()
		r.Heal()
		require.Len(t, s.Sessions(t), 1, "the server has not heard of the end")
		_, err = s.Open(t).Exec("SELECT n FROM never")
		require.Error(t, err)
		roundTrip(t, one(t, s, r.DSN()))
		require.Len(t, s.Sessions(t), 3)
		r.ResetLost()
		require.Eventually(t, func() bool { return len(s.Sessions(t)) == 2 }, 5*time.Second, 5*time.Millisecond, "it hears of it now")
	})
}

func TestRelayCutAcceptsConnectionsThatReachNoServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		r := s.Relay(t)
		r.Cut()
		db, err := sql.Open(s.Driver(), r.DSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		pinged := make(chan error, 1)
		go func() { pinged <- db.PingContext(t.Context()) }()
		require.Eventually(t, func() bool { return r.Accepted() == 1 }, 20*time.Second, time.Millisecond)
		select {
		case err := <-pinged:
			t.Fatalf("ping during the cut: %v", err)
		case <-time.After(quiet):
		}
		require.Empty(t, s.Sessions(t))
		r.Heal()
		require.NoError(t, <-pinged)
	})
}

func TestRelayCutRepliesLetsTheServerDoWhatIsAsked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		r := s.Relay(t)
		c := one(t, s, r.DSN())
		roundTrip(t, c)
		r.CutReplies()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answered := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(ctx, "CREATE TABLE done (n int)")
			answered <- err
		}()
		outside := s.Open(t)
		require.Eventually(t, func() bool {
			_, err := outside.Exec("SELECT n FROM done")
			return err == nil
		}, 20*time.Second, 5*time.Millisecond)
		select {
		case err := <-answered:
			t.Fatalf("the client has heard of it: %v", err)
		case <-time.After(quiet):
		}
		cancel()
		require.ErrorIs(t, <-answered, context.Canceled)
	})
}

func TestRelayResetBreaksBothSides(t *testing.T) {
	client, server, r := pair(t)
	require.Equal(t, 1, r.Conns())
	r.Reset()
	for _, c := range []net.Conn{client, server} {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	require.Eventually(t, func() bool { return r.Conns() == 0 }, 20*time.Second, time.Millisecond)
	require.EqualValues(t, 1, r.Accepted())
}

func TestRelayResetIsSeenByTheServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		r := s.Relay(t)
		c := one(t, s, r.DSN())
		roundTrip(t, c)
		r.Reset()
		_, err := c.ExecContext(t.Context(), "SELECT 1")
		require.Error(t, err)
		require.Eventually(t, func() bool { return len(s.Sessions(t)) == 0 }, 20*time.Second, 5*time.Millisecond)
	})
}

// pair returns both ends of a connection through a relay, the server being the test.
func pair(t *testing.T) (client, server *net.TCPConn, r *dbtest.Relay) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r = dbtest.ServerAt(l.Addr().String()).Relay(t)
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	s, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn), r
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

func read(t *testing.T, c net.Conn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

// silent checks that nothing comes, neither a byte nor an end.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(quiet)))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	require.True(t, n == 0 && errors.As(err, &timeout) && timeout.Timeout(), "%d bytes, %v", n, err)
}
