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
