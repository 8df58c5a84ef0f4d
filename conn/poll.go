package conn

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// A wait at the server needs a connection that waits as long for the answer.
// Where the driver gives up earlier (go-sql-driver's readTimeout, which may well
// be shorter than the second that MySQL waits at least), every wait would cost
// its session, and a nested one the lock above it. There the lock is tried for
// again and again instead.

const (
	pollPause = 50 * time.Millisecond
	// readMargin is what the driver must be ready to wait beyond the wait itself.
	readMargin = 500 * time.Millisecond
	// A driver whose timeout is not known is found out by waits that break off:
	// brokenWaits in a row, which a KILL or a restart seldom causes, are followed
	// by brokenTime without waits.
	brokenWaits = 2
	brokenTime  = 10 * time.Minute
)

// patience tells how long the driver waits for an answer.
type patience struct {
	readTimeout time.Duration // 0: for ever, or not known
	broken      atomic.Int32  // waits in a row that broke off
	until       atomic.Int64  // by monotime: no waits before
}

// outlasts tells whether a wait of that length can be left to the server.
func (p *patience) outlasts(wait time.Duration) bool {
	wait = (wait + time.Second - 1).Truncate(time.Second) // MySQL counts whole ones
	return (p.readTimeout == 0 || p.readTimeout >= wait+readMargin) && int64(monotime.Now()) >= p.until.Load()
}

// learn is told whether a wait broke off.
func (p *patience) learn(broke bool) {
	if !broke {
		p.broken.Store(0)
	} else if p.broken.Add(1) >= brokenWaits {
		p.broken.Store(0)
		p.until.Store(int64(monotime.Now() + brokenTime))
	}
}

// waitAt waits at the server for about a slice. begin is nil, or what
// transaction is to hold the lock.
func (k *Keeper) waitAt(s *session, name dialect.Name, begin *driver.TxOptions) (granted, dead bool, err error) {
	if begin == nil && !k.patience.outlasts(slice) {
		return k.poll(s, name)
	}
	granted, dead, err = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
		if begin != nil {
			return s.xactLock(ctx, name, *begin, true)
		}
		return k.dialect.Wait(ctx, &s.phys, name, slice)
	})
	k.patience.learn(dead)
	return granted, dead, err
}

// poll is what takes the place of a slice of waiting.
func (k *Keeper) poll(s *session, name dialect.Name) (granted, dead bool, err error) {
	for start := time.Now(); !granted && err == nil && time.Since(start) < slice; {
		pause := time.NewTimer(pollPause)
		select {
		case <-pause.C:
		case <-k.ctx.Done():
			pause.Stop()
			return false, false, nil
		}
		granted, dead, err = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
			return k.dialect.Try(ctx, &s.phys, name)
		})
	}
	return granted, dead, err
}
