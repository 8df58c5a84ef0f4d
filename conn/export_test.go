package conn

import "context"

// SharedSessions is how many sessions the keeper takes for shared.
func (k *Keeper) SharedSessions() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.shared)
}

// OpenLost opens a session that is lost, and gone, before the keeper knows it.
func (k *Keeper) OpenLost(ctx context.Context) error {
	k.mu.Lock()
	k.opening++
	k.mu.Unlock()
	s, err := k.dial(ctx)
	if err == nil {
		s.lose(errPeerClosed)
		<-s.gone
	}
	k.opened(s, err)
	return err
}

// KeepAliveNow has the keep-alive of each session come now, as of one that has been
// idle for a third of the TTL.
func (k *Keeper) KeepAliveNow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range k.sessions {
		s.mu.Lock()
		s.confirmed -= k.opts.TTL / 3
		if !s.closed {
			s.timer.Reset(0)
		}
		s.mu.Unlock()
	}
}
