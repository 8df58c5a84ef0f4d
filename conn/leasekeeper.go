package conn

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockdb/lockdb/internal/lease"
	"github.com/lockdb/lockdb/internal/lockkey"
)

// keeperLeases is what a Keeper has for leases.
type keeperLeases struct {
	ownerOnce sync.Once
	owner     string // the default one
	shortOnce sync.Once
	leasing   sync.WaitGroup // calls that may come to hold leases; Add only under mu, before closing

	// Guarded by mu.
	manager    *lease.Manager // nil until somebody wants it
	leaseLocks map[*Lock]struct{}
	leaseWaits map[*leaseWait]struct{}  // for Held
	untold     map[string]chan struct{} // by row: a release whose observers do not know of it yet
}

// leashIdle is how long a connection that work under a lease's context needed
// beside the pool is kept for the next.
const leashIdle = time.Minute

// leaseManager returns the manager of leases. It opens nothing before it is asked
// for something.
func (k *Keeper) leaseManager() (*lease.Manager, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.managerLocked()
}

// joinLeases is leaseManager for one who may come to hold leases, and calls
// leasing.Done when it is known whether he does.
func (k *Keeper) joinLeases() (*lease.Manager, error) {
	k.sessionDB().SetConnMaxIdleTime(leashIdle)
	k.mu.Lock()
	defer k.mu.Unlock()
	m, err := k.managerLocked()
	if err == nil {
		k.leasing.Add(1)
	}
	return m, err
}

func (k *Keeper) managerLocked() (*lease.Manager, error) {
	if k.closing {
		return nil, ErrClosed
	}
	if k.manager == nil {
		k.manager = lease.New(lease.Config{
			Connector: leaseConnector{k},
			Dialect:   k.dialect,
			Table:     k.opts.LeaseTable,
			Idle:      k.opts.TTL,
			Waits:     k.ctx,
			MaxConns:  k.opts.MaxSessions,
			Log:       k.write,
		})
	}
	return k.manager, nil
}

// closeLeases closes all leases' locks. The keeper is closing.
func (k *Keeper) closeLeases() {
	k.leasing.Wait() // their waits end with k.ctx
	k.mu.Lock()
	locks := make([]*Lock, 0, len(k.leaseLocks))
	for l := range k.leaseLocks {
		locks = append(locks, l)
	}
	k.mu.Unlock()
	var wg sync.WaitGroup
	for _, l := range locks {
		wg.Go(func() { _ = l.shut(ErrClosed) })
	}
	wg.Wait()
}

// closeManager closes the connections of the leases, which are released.
func (k *Keeper) closeManager() {
	k.mu.Lock()
	m := k.manager
	k.mu.Unlock()
	if m != nil {
		m.Close()
	}
}

// leaseOwner is the owner as the row has it.
func (k *Keeper) leaseOwner(id string) (string, error) {
	if id != "" {
		name, err := lockkey.Name("", id)
		if err != nil {
			return "", fmt.Errorf("lockdb: the id of Owner: %w", err)
		}
		return name, nil
	}
	k.ownerOnce.Do(func() { k.owner = newOwner() })
	return k.owner, nil
}

// newOwner makes an owner that no other keeper has, in this process or elsewhere,
// of lockkey's alphabet. The host and the process are for people; the random part,
// of more than 80 bits, is what makes it unique.
func newOwner() string {
	const random = 20 // characters of base32: 100 bits
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, host)
	tail := ":" + strconv.Itoa(os.Getpid()) + ":" + strings.ToLower(rand.Text()[:random])
	const most = 64
	return clean[:min(len(clean), most-len(tail))] + tail
}
