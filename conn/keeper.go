package conn

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

// Keeper opens the lock sessions of one *sql.DB, keeps them alive, queues who
// waits for the locks, and closes everything when the *sql.DB is closed. Its
// goroutines (dials, waits at the server, keep-alives) end before close returns.
type Keeper struct {
	connector        *Connector
	poolConnector    driver.Connector
	lockConnector    driver.Connector
	ownLockConnector bool // it is not the pool's
	dialect          dialect.Dialect
	opts             Options
	log              *slog.Logger
	patience         patience

	everLocked atomic.Bool          // contexts with session locks may be about
	everLeased atomic.Bool          // and such with leases
	locksHeld  atomic.Int64         // how many locks are held now
	checker    atomic.Pointer[phys] // any connection, for CheckNamedValue
	count      counters
	parked     parking
	truths     sync.Map // what servers are, by their identity: *truth

	ctx    context.Context // ends when close begins: for dials
	cancel context.CancelFunc

	running sync.WaitGroup // goroutines; Add only through join

	mu       sync.Mutex // guards what follows; no I/O and no callback under it
	closing  bool       // no new locks
	done     bool       // no new goroutines
	sessions map[*session]struct{}
	opening  int             // dials under way
	dialled  time.Duration   // when the last of them began, by monotime
	testing  int             // connections of self-tests
	full     error           // what a server said that took no more connections, when last asked
	asking   bool            // such a server is going to be asked again
	idle     []*session      // free, the most recently used last
	queue    []*sessionOrder // who waits for a session, first come first served
	rooms    map[dialect.Name]*room
	multiplexing
	nesting map[*waiter]dialect.Name // who waits for a nested lock, for Held

	dbOnce    sync.Once // opens db, which is Lock.DB
	db        *sql.DB
	closeOnce sync.Once

	keeperLeases
}

func newKeeper(cfg Config) *Keeper {
	k := &Keeper{
		poolConnector: cfg.Inner,
		lockConnector: cfg.Lock,
		dialect:       cfg.Dialect,
		opts:          cfg.Options,
		log:           cfg.Options.Logger,
		patience:      patience{readTimeout: cfg.ReadTimeout},
		sessions:      make(map[*session]struct{}),
		rooms:         make(map[dialect.Name]*room),
		nesting:       make(map[*waiter]dialect.Name),
	}
	k.leaseLocks = make(map[*Lock]struct{})
	k.leaseWaits = make(map[*leaseWait]struct{})
	k.untold = make(map[string]chan struct{})
	if k.lockConnector == nil {
		k.lockConnector = k.poolConnector
	}
	k.ownLockConnector = cfg.Lock != nil
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// join admits a goroutine: if it returns true, the caller calls running.Done.
func (k *Keeper) join() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done {
		return false
	}
	k.running.Add(1)
	return true
}

// spawn runs f on a goroutine of the keeper's. After close there is nothing
// left for one to do: then it returns false.
func (k *Keeper) spawn(f func()) bool {
	if !k.join() {
		return false
	}
	go func() {
		defer k.running.Done()
		f()
	}()
	return true
}

// sessionDB is the *sql.DB of Lock.DB.
func (k *Keeper) sessionDB() *sql.DB {
	k.dbOnce.Do(func() { k.db = sql.OpenDB(sessionConnector{k}) })
	return k.db
}

// list counts a lock that a caller is about to have. Under mu.
func (k *Keeper) list(l *Lock) {
	l.listed = true
	k.locksHeld.Add(1)
}

// unlist ends that, for the first who calls it: the lock is his to release, or to
// take out of its room. Under mu.
func (k *Keeper) unlist(l *Lock) (mine bool) {
	if !l.listed {
		return false
	}
	l.listed = false
	k.locksHeld.Add(-1)
	return true
}

// outermost are the session locks that are not nested. Under mu.
func (k *Keeper) outermost() (locks []*Lock) {
	for s := range k.sessions {
		s.mu.Lock()
		for _, l := range s.locks {
			if l.outer == nil {
				locks = append(locks, l)
			}
		}
		s.mu.Unlock()
	}
	return locks
}

// close ends all waits, releases all locks and closes all sessions.
func (k *Keeper) close() {
	k.closeOnce.Do(func() {
		k.mu.Lock()
		k.closing = true
		locks := k.outermost()
		k.refuseAll()
		k.mu.Unlock()
		k.cancel()

		var wg sync.WaitGroup
		for _, l := range locks {
			wg.Go(func() { _ = l.shut(ErrClosed) })
		}
		wg.Go(k.closeLeases)
		wg.Wait()
		k.closeManager()
		k.closeParked()
		_ = k.sessionDB().Close()
		for {
			k.mu.Lock()
			sessions := make([]*session, 0, len(k.sessions))
			for s := range k.sessions {
				sessions = append(sessions, s)
			}
			if len(sessions) == 0 {
				k.done = true
				k.mu.Unlock()
				break
			}
			k.mu.Unlock()
			for _, s := range sessions {
				wg.Go(s.end)
			}
			wg.Wait()
		}
		k.running.Wait()
	})
}
