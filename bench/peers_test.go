package bench

import (
	"context"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkPeers measures a lock that nobody else wants, taken and released, with
// lockdb on each server and with what one might run a server of its own for. What
// is kept on disk is synced to it (leases, etcd); nothing is of session locks, nor
// of Redis as it is run here.
func BenchmarkPeers(b *testing.B) {
	ctx := context.Background()
	redis, etcd := redisServer(b), etcdServer(b)
	var servers []server
	for _, kind := range kinds {
		servers = append(servers, newServer(b, durable(b, kind)))
	}
	for _, rtt := range []time.Duration{0, time.Millisecond} {
		b.Run("rtt="+rtt.String(), func(b *testing.B) {
			far := func(addr string) string {
				if rtt == 0 {
					return addr
				}
				relay := dbtest.RelayTo(b, addr)
				relay.SetDelay(rtt / 2)
				return relay.Addr()
			}
			key := dbtest.Key(b)
			ways := []contender{{"redsync", redsyncMutex(b, far(redis), key)}, {"etcd", etcdMutex(ctx, b, far(etcd), key)}}
			for _, s := range servers {
				s = s.behind(b, rtt)
				ways = append(ways,
					contender{"lock-" + string(s.Kind()), acquireClose(ctx, s.open(b), key)},
					contender{"lease-" + string(s.Kind()), acquireClose(ctx, s.open(b), key, lockctx.Lease(time.Minute))})
			}
			for _, w := range ways {
				must(b, w.op()) // dials, and makes the table of leases
			}
			compare(b, 1, ways...)
		})
	}
}
