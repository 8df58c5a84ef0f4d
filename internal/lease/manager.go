package lease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Config is what a Manager is made of.
type Config struct {
	// Connector dials connections that implement Session. Nothing but lease
	// statements runs on them.
	Connector driver.Connector
	Dialect   dialect.Dialect
	// Table is the table's name as the user gave it.
	Table string
	// Idle is how long the server lets a connection be idle.
	Idle time.Duration
	// Waits is the context whose end ends waits; leases stay until Close.
	Waits context.Context
	// MaxConns limits the connections; 0 is no limit of the user's. Fewer than
	// four are not enough.
	MaxConns int
	// Log writes for the operator.
	Log func(level slog.Level, msg string, attrs ...slog.Attr)
}

// Manager keeps the leases of one *sql.DB.
type Manager struct {
	cfg    Config
	db     *sql.DB // over cfg.Connector
	limits limits
	table  table
	server atomic.Pointer[dialect.LeaseServer] // as the last connection said
	plain  atomic.Bool                         // there are no companions here

	ctx     context.Context // ends when Close begins
	cancel  context.CancelFunc
	unwait  func() bool
	running sync.WaitGroup // goroutines; Add only through join

	mu         sync.Mutex // guards what follows, and what says so; no I/O and no callback under it
	closing    bool       // no new leases and no new goroutines
	rooms      map[string]*room
	seen       seen
	sessions   map[*session]struct{} // all connections
	beats      map[time.Duration]*beat
	deadlines  deadlines
	lines      []*line       // those that carry companions, or may
	dialling   int           // lines being opened for pick
	dialled    chan struct{} // closed when one of them is
	minder     *time.Timer
	minding    bool // it is set
	companions int  // how many the lines carry
}

// New returns a Manager. It opens nothing.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg:    cfg,
		limits: limitsFor(cfg.MaxConns),
		table:  table{turn: make(chan struct{}, 1)},
		rooms:  make(map[string]*room),
		seen:   make(seen),

		sessions: make(map[*session]struct{}),
		beats:    make(map[time.Duration]*beat),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.db = m.openPool()
	m.unwait = context.AfterFunc(cfg.Waits, m.hurryWaits)
	return m
}

// Server is what the server said when a connection was last prepared; the zero
// value before.
func (m *Manager) Server() dialect.LeaseServer {
	if s := m.server.Load(); s != nil {
		return *s
	}
	return dialect.LeaseServer{}
}

// join admits a goroutine: if it returns true, the caller calls running.Done.
func (m *Manager) join() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return false
	}
	m.running.Add(1)
	return true
}

// spawn runs f on a goroutine of the Manager's. After Close it returns false.
func (m *Manager) spawn(f func()) bool {
	if !m.join() {
		return false
	}
	go func() {
		defer m.running.Done()
		f()
	}()
	return true
}

// Close refuses new leases, ends waits (ErrClosed) and renewals, and closes the
// connections. Leases that are not released by then are not renewed any more.
func (m *Manager) Close() {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		return
	}
	m.closing = true
	for _, r := range m.rooms {
		r.closeQueue()
	}
	for _, b := range m.beats {
		b.timer.Stop()
	}
	for _, t := range []*time.Timer{m.minder, m.deadlines.timer} {
		if t != nil {
			t.Stop()
		}
	}
	m.mu.Unlock()
	m.cancel()
	m.unwait()
	m.running.Wait()
	m.mu.Lock()
	lines := m.lines
	m.lines = nil
	m.mu.Unlock()
	for _, ln := range lines {
		_ = ln.conn.Close() // to the pool, which is closed
	}
	_ = m.db.Close()
}
