package dbtest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// freePort returns a port that nobody listens on, below the range that the kernel takes the ports of
// outgoing connections from: a server must get its port again after a restart.
func freePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("found no free port from 12000 to 29999")
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
