package sock

// Polling reports whether the process's poller runs.
func Polling() bool {
	pollers.mu.Lock()
	defer pollers.mu.Unlock()
	return pollers.current != nil
}
