package conn

// SharedSessions is how many sessions the keeper takes for shared.
func (k *Keeper) SharedSessions() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.shared)
}
