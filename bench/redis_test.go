package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redisServer starts a Redis server as Debian has it, which keeps nothing on disk,
// or takes the one whose "host:port" is in LOCKDB_TEST_REDIS.
func redisServer(b *testing.B) (addr string) {
	b.Helper()
	if addr = os.Getenv("LOCKDB_TEST_REDIS"); addr != "" {
		return addr
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	addr = l.Addr().String()
	must(b, l.Close())
	_, port, err := net.SplitHostPort(addr)
	must(b, err)
	// The shell ends the server when its standard input ends, however this process did.
	cmd := exec.Command("sh", "-c", `"$@" & read -r _; kill $!; wait`, "sh", "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning", "--dir", b.TempDir())
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() { _, _ = stop.Close(), cmd.Wait() })
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	for over := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = client.Ping(context.Background()).Err(); err == nil {
			return addr
		}
		if time.Now().After(over) {
			must(b, fmt.Errorf("redis-server does not answer (scripts/install-servers installs it): %w", err))
		}
	}
}

// redsyncMutex is a mutex of go-redsync on one Redis server.
func redsyncMutex(b *testing.B, addr, key string) func() error {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() { _ = client.Close() })
	rs := redsync.New(redsyncpool.NewPool(client))
	return func() error {
		m := rs.NewMutex(key)
		if err := m.Lock(); err != nil {
			return err
		}
		_, err := m.Unlock()
		return err
	}
}
