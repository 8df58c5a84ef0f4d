package conn

// leaseWait is a call that waits for a lease, for Held. Its methods are called on
// the call's goroutine.
type leaseWait struct {
	keeper  *Keeper
	row     leaseRow
	outcome *outcome
	begun   bool
}

func (k *Keeper) leaseWait(r leaseRow, o *outcome) *leaseWait {
	return &leaseWait{keeper: k, row: r, outcome: o}
}

func (w *leaseWait) begin() {
	k := w.keeper
	w.begun = true
	k.mu.Lock()
	k.leaseWaits[w] = struct{}{}
	k.mu.Unlock()
	w.outcome.waits()
}

func (w *leaseWait) over() {
	if !w.begun {
		return
	}
	k := w.keeper
	k.mu.Lock()
	delete(k.leaseWaits, w)
	k.mu.Unlock()
}

// heldLeases lists the leases that this process holds or waits for.
func (k *Keeper) heldLeases() []HeldLock {
	found := make(map[string]*HeldLock)
	k.mu.Lock()
	m := k.manager
	for l := range k.leaseLocks {
		l.mu.Lock()
		if l.state <= stateClosing {
			for _, le := range l.leases {
				if have := found[le.row]; le.own || have == nil { // else a re-entry
					found[le.row] = &HeldLock{Key: le.key, Kind: kindLease, Since: l.since, Token: le.Row().Token}
				}
			}
		}
		l.mu.Unlock()
	}
	for w := range k.leaseWaits {
		h := found[w.row.row]
		if h == nil {
			h = &HeldLock{Key: w.row.key, Kind: kindLease}
			found[w.row.row] = h
		}
		h.Waiters++
	}
	k.mu.Unlock()
	if m == nil {
		return nil
	}
	for _, info := range m.Held() {
		if h := found[info.Key]; h != nil && h.Since.IsZero() {
			h.HeldBy = info.HeldBy
		}
	}
	held := make([]HeldLock, 0, len(found))
	for _, h := range found {
		held = append(held, *h)
	}
	return held
}

// telling says that l is about to be released, and its observers to be told: who
// gets a lease of its next in this process is told of that afterwards.
func (k *Keeper) telling(l *Lock) (told func()) {
	if !k.hears(Event{Kind: EventReleased}) {
		return func() {}
	}
	done := make(chan struct{})
	k.mu.Lock()
	for _, le := range l.leases {
		if le.own {
			k.untold[le.row] = done
		}
	}
	k.mu.Unlock()
	return func() {
		k.mu.Lock()
		for _, le := range l.leases {
			if le.own && k.untold[le.row] == done {
				delete(k.untold, le.row)
			}
		}
		k.mu.Unlock()
		close(done)
	}
}

// awaitTold waits until observers know that the lease was released before.
func (k *Keeper) awaitTold(row string) {
	k.mu.Lock()
	untold := k.untold[row]
	k.mu.Unlock()
	if untold != nil {
		<-untold
	}
}
