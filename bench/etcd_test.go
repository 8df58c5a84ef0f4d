package bench

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcdServer starts an etcd server of one member in this process. It syncs each
// write to disk, as etcd does.
func etcdServer(b *testing.B) (addr string) {
	b.Helper()
	dir, err := os.MkdirTemp(disk(), "etcd-")
	must(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := embed.NewConfig()
	cfg.Dir = dir
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = anywhere, anywhere
	cfg.LogLevel = "panic"
	e, err := embed.StartEtcd(cfg)
	must(b, err)
	b.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		b.Fatal("etcd is not ready")
	}
	return e.Clients[0].Addr().String()
}

// etcdMutex is a mutex of etcd's package concurrency.
func etcdMutex(ctx context.Context, b *testing.B, addr, key string) func() error {
	b.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	must(b, err)
	b.Cleanup(func() { _ = client.Close() })
	session, err := concurrency.NewSession(client)
	must(b, err)
	b.Cleanup(func() { _ = session.Close() })
	m := concurrency.NewMutex(session, "/"+key)
	return func() error {
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	}
}
