//go:build !linux

package sock

import (
	"errors"
	"fmt"
	"net"
)

// Watcher watches one socket. See [Watch].
type Watcher struct{}

// Watch fails with errors.ErrUnsupported: on this system pings tell.
func Watch(net.Conn, func()) (*Watcher, error) {
	return nil, fmt.Errorf("sock: watch: %w", errors.ErrUnsupported)
}

// Stop does nothing.
func (w *Watcher) Stop() {}

// Wait does nothing.
func (w *Watcher) Wait() {}
