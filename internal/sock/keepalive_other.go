//go:build !linux

package sock

import (
	"net"
	"time"
)

// setUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func setUserTimeout(net.Conn, time.Duration) {}
