package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
	"github.com/lockdb/lockdb/internal/sock"
)

// session is one server connection of the keeper's, with the ledger of the
// locks held on it.
//
// States: free (idle in the keeper, or in the hands of who contends for a lock)
// ⇄ holding (the ledger is not empty) → closed, from either, for good. Once
// closed, its socket is closed too: the server must not keep a lock that this
// process has given up.
type session struct {
	phys
	keeper *Keeper
	server dialect.Server
	// pinging: io is held by the keep-alive, not by work of the user's.
	pinging atomic.Bool
	// overlooked: the keep-alive was due, and io taken.
	overlooked atomic.Bool
	// noAutocommit: every statement may leave a transaction open.
	noAutocommit atomic.Bool
	// lockedTables: tables may be locked, which START TRANSACTION ends.
	lockedTables atomic.Bool
	sock         net.Conn        // nil if the connection was dialled by others
	own          sock.Descriptor // of sock
	watch        *sock.Watcher   // nil where there is none
	gone         chan struct{}   // closed when the driver's connection is

	// io is held around every call into the inner driver. It also guards what
	// follows: the transaction and the result set that are open.
	io       ioMutex
	tx       *lockTx
	rows     *rows
	begun    *begun // begun with the lock's grant, or the lock's own transaction
	unlocked bool   // the server's lock was released with the last COMMIT
	manual   bool   // autocommit is off because of the transaction that is open
	clock    clock

	entered int // guarded by the keeper's mu: who is at it for a multiplexed lock

	bounded bound

	mu        sync.Mutex // guards what follows; no I/O and no callback under it
	closed    bool
	locks     []*Lock // the ledger
	running   *call   // the call under way, if it can be ended
	confirmed time.Duration
	proved    int                  // the lock that the last ping asked for
	asked     time.Duration        // when a ping last proved what the locks stand on
	deadline  time.Duration        // when the absence of signs of life means loss
	timer     *time.Timer          // the next keep-alive
	stmts     map[string]*prepared // by their text
	late      []*prepared          // without users, to be closed
	lent      bool                 // a Raw access has io
	owed      bool                 // it is to close the driver's connection when it is over
	scrub     scrub
}

// scrub is what a holder may have left on a session besides its lock.
type scrub struct {
	locks bool // raw session locks
	tx    bool // a transaction begun as SQL text
	raw   bool // whatever was done through Raw: perhaps a transaction, too
}

// errPeerClosed is what the socket watch and a dead connection tell.
var errPeerClosed = errors.New("the server closed the connection")

// dial opens a session. It must not depend on the context of who waits for it,
// or short waits would dial for nothing.
func (k *Keeper) dial(ctx context.Context) (*session, error) {
	ctx, captured := sock.Capture(ctx)
	start := monotime.Now()
	dc, err := k.lockConnector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{phys: newPhys(dc), keeper: k, sock: captured.Conn(), io: newIOMutex(), gone: make(chan struct{})}
	// The COMMIT of the self-test takes no context.
	stop := context.AfterFunc(ctx, s.cut)
	if s.server, err = k.dialect.Open(ctx, &s.phys, k.opts.TTL); err == nil {
		err = k.learn(ctx, &s.phys, &s.server)
	}
	if !stop() && err == nil { // it was cut off in that moment
		err = ctx.Err()
	}
	if err != nil {
		_ = dc.Close()
		return nil, err
	}
	s.noAutocommit.Store(s.server.NoAutocommit)
	k.count.dialled.Add(1)
	k.checker.CompareAndSwap(nil, &s.phys)
	s.mu.Lock()
	s.confirmed, s.asked, s.deadline = start, start, start+k.deadline()
	s.timer = time.AfterFunc(min(k.opts.TTL/3, surplusTime), s.tick)
	s.mu.Unlock()
	if s.sock != nil {
		s.own = sock.DescriptorOf(s.sock)
		_ = s.io.lock(ctx)                            // the watch may call before it is known here
		s.watch, _ = sock.Watch(s.sock, s.peerClosed) // where it cannot be had, pings tell
		s.io.unlock()
	}
	return s, nil
}

// do makes one call into the inner driver; the caller holds io. dead reports
// that the connection did not survive it: the caller then calls lose, with io
// released.
func (s *session) do(ctx context.Context, fn func(context.Context) error) (dead bool, err error) {
	began := time.Now()
	start := s.clock.at(began)
	c := s.begin(ctx)
	err = fn(c)
	return s.finish(c, start, time.Since(began), err), err
}

// begin gives the context for one call. A call that the user cannot cancel is
// not watched by the driver, which saves it a goroutine switch; lose ends it
// by closing the socket.
func (s *session) begin(ctx context.Context) context.Context {
	if s.sock != nil && !cancellable(ctx) {
		if ctx.Done() == nil {
			return ctx
		}
		return context.WithoutCancel(ctx)
	}
	c := newCall(ctx, true)
	s.mu.Lock()
	s.running = c
	s.mu.Unlock()
	return c
}

func (s *session) finish(ctx context.Context, start, took time.Duration, err error) (dead bool) {
	if c, ok := ctx.(*call); ok {
		c.finish()
		s.mu.Lock()
		s.running = nil
		s.mu.Unlock()
	}
	switch {
	case err == nil:
		s.confirm(start, took)
		return false
	case errors.Is(err, driver.ErrSkip):
		return false
	}
	class := s.keeper.dialect.Classify(err)
	if class == dialect.ClassGone || s.dead() {
		return true
	}
	if class != dialect.ClassOther {
		s.confirm(start, took)
	}
	return false
}

// dead tells by the connection's own state; an error alone proves nothing (pgx
// says ErrBadConn of a dead context on a healthy connection). Under io.
func (s *session) dead() bool {
	switch {
	case s.own.Closed():
		return true
	case s.pg != nil:
		return s.pg.IsClosed()
	case s.validator != nil && s.rows == nil: // go-sql-driver's is false while a Rows is open
		return !s.validator.IsValid()
	}
	return false
}

// aborted tells whether a transaction is open that the server has given up. Under io.
func (s *session) aborted() bool {
	return s.pg != nil && !s.pg.IsClosed() && s.pg.PgConn().TxStatus() == 'E'
}

// inTx tells whether a transaction is open on the session. Under io.
func (s *session) inTx() bool {
	return s.tx != nil || s.begun != nil && s.begun.inner != nil || s.pg != nil && !s.pg.IsClosed() && s.pg.PgConn().TxStatus() != 'I'
}

// cut breaks the call under way, and with it the connection.
func (s *session) cut() {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		running.kill(context.DeadlineExceeded)
	}
	switch {
	case s.sock != nil:
		_ = s.sock.Close()
	case s.pg != nil:
		_ = s.pg.PgConn().Conn().Close()
	}
}

// quiet takes io for the end of a lock: it waits that long for a statement of the
// user's, and in any case for a keep-alive, whose answer is due.
func (s *session) quiet(patience time.Duration) bool {
	return s.io.lockWithin(patience) || s.pinging.Load() && s.io.lockWithin(cleanupBound)
}

// enter puts a lock into the ledger; false if the session is closed.
func (s *session) enter(l *Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.locks = append(s.locks, l)
	return true
}

// leave takes a lock out of the ledger.
func (s *session) leave(l *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.locks {
		if have == l {
			s.locks = append(s.locks[:i], s.locks[i+1:]...)
			return
		}
	}
}

// names are the locks that the server holds for the ledger.
func (s *session) names() []dialect.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]dialect.Name, 0, len(s.locks))
	for _, l := range s.locks {
		if !l.bare {
			names = append(names, l.name)
		}
	}
	return names
}
