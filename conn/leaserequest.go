package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/lease"
)

// The bounds of a lease's TTL. Below the least, the time between two renewals is
// that of a round trip or two; beyond the greatest it is no expiry.
const (
	MinLease = 10 * time.Millisecond
	MaxLease = 365 * 24 * time.Hour
)

// Check tells whether the options of the request go together.
func (r *Request) Check() error {
	switch {
	case r.Lease == 0 && r.Owner != "":
		return errors.New("lockdb: Owner names the holder of a lease: give Lease(ttl) too, or leave it out")
	case r.Lease == 0 && r.Renew != 0:
		return errors.New("lockdb: RenewEvery is for a lease: give Lease(ttl) too, or leave it out")
	case r.Lease != 0 && r.Shared:
		return fault(r.Key, "Multiplexed is for session locks: a lease has no session", ErrUnsupported)
	case r.Lease != 0 && r.Name != nil:
		return fault(r.Key, "AdvisoryID and AdvisoryPair name advisory locks, and a lease is a row of a table: use one or the other", ErrUnsupported)
	case r.Renew > r.Lease/3:
		return fmt.Errorf("lockdb: RenewEvery(%v) is more than a third of the lease's TTL (%v): the lease counts as lost after %v without a renewal, "+
			"and one that is late or fails must leave time for the next; use at most %v", r.Renew, r.Lease, lease.Lifetime(r.Lease), r.Lease/3)
	}
	return nil
}
