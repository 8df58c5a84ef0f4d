package lease

import "time"

// Info is what Held tells of a lease.
type Info struct {
	Key     string    // the row's
	Since   time.Time // zero if this process only waits for it
	Token   int64     // 0 if this process only waits for it
	Waiters int       // who queue here, and who has the turn but not the lease
	HeldBy  string    // who had it when the server was last asked; "" if not known
}

// Held lists the leases that this process holds or waits for. A lease that is
// being released is nobody's.
func (m *Manager) Held() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Info, 0, len(m.rooms))
	for _, r := range m.rooms {
		i := Info{Key: r.key, Waiters: r.queue.Len()}
		if r.held != nil {
			i.Since, i.Token = r.held.since, r.held.token
		} else {
			i.HeldBy = r.seen.Holder
		}
		all = append(all, i)
	}
	return all
}
