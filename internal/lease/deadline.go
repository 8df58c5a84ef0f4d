package lease

import (
	"time"

	"github.com/lockdb/lockdb/internal/monotime"
)

// deadlines is the timer that ends leases whose renewal was not confirmed in time.
// There is one for all, and it is left running when a lease ends or is renewed:
// it looks when it fires. Setting a timer can wake the runtime's poller, which
// costs more than anything else that an acquire does on our side.
type deadlines struct {
	timer *time.Timer
	set   bool
	at    time.Duration // when it fires, by monotime
}

// watch has the timer fire at that deadline, which is so far off, or before. Under mu.
func (m *Manager) watch(deadline, left time.Duration) {
	d := &m.deadlines
	switch {
	case d.set && d.at <= deadline:
		return
	case d.timer == nil:
		d.timer = time.AfterFunc(left, m.lookAtDeadlines)
	default:
		d.timer.Reset(left)
	}
	d.set, d.at = true, deadline
}

// lookAtDeadlines ends the leases whose time is over.
func (m *Manager) lookAtDeadlines() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadlines.set = false
	if m.closing {
		return
	}
	now := monotime.Now()
	next := time.Duration(-1)
	for _, b := range m.beats {
		for l := range b.leases {
			switch {
			case l.deadline <= now:
				_ = l.lose(l.overdue())
			case next < 0 || l.deadline < next:
				next = l.deadline
			}
		}
	}
	if next >= 0 {
		m.watch(next, next-now)
	}
}
