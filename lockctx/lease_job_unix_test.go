//go:build unix

package lockctx_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/lockctx"
)

// leaseArgs say which lease a peer is to acquire, and what it calls it.
type leaseArgs struct {
	Name    string // in the peer
	Keys    []string
	TTL     time.Duration
	Renew   time.Duration
	Owner   string
	Timeout time.Duration // 0: none
	Try     bool
}

func (a leaseArgs) options() []lockctx.Option {
	opts := []lockctx.Option{lockctx.Lease(a.TTL)}
	if a.Renew > 0 {
		opts = append(opts, lockctx.RenewEvery(a.Renew))
	}
	if a.Owner != "" {
		opts = append(opts, lockctx.Owner(a.Owner))
	}
	if a.Try {
		opts = append(opts, lockctx.WithTimeout(0))
	} else if a.Timeout > 0 {
		opts = append(opts, lockctx.WithTimeout(a.Timeout))
	}
	return opts
}

// tenure is a lease that was acquired. Times of processes of one machine can be compared.
type tenure struct {
	Token  int64
	Tokens []int64
	At     time.Time // when it was granted
}

// peerAcquire has a peer acquire a lease; with several keys, all.
var peerAcquire = newJob("acquire", func(p *peer, a leaseArgs) (tenure, error) {
	var lk *lockctx.Lock
	var err error
	if len(a.Keys) == 1 {
		lk, err = lockctx.Acquire(context.Background(), p.db, a.Keys[0], a.options()...)
	} else {
		lk, err = lockctx.AcquireAll(context.Background(), p.db, a.Keys, a.options()...)
	}
	at := time.Now()
	if err != nil {
		return tenure{}, err
	}
	p.mu.Lock()
	p.locks[a.Name] = lk
	p.mu.Unlock()
	return tenure{Token: lk.Token(), Tokens: lk.Tokens(), At: at}, nil
})

func (p *peer) lock(name string) (*lockctx.Lock, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lk := p.locks[name]; lk != nil {
		return lk, nil
	}
	return nil, fmt.Errorf("there is no lock %q here", name)
}

// peerClose has a peer close a lock, and tells when it began to.
var peerClose = newJob("close", func(p *peer, name string) (time.Time, error) {
	lk, err := p.lock(name)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	return at, lk.Close()
})

// peerEnd waits for the end of the context of a peer's lock, and tells when that was and why.
var peerEnd = newJob("end", func(p *peer, name string) (ending, error) {
	lk, err := p.lock(name)
	if err != nil {
		return ending{}, err
	}
	<-lk.Context().Done()
	return ending{At: time.Now(), Err: newPeerError(context.Cause(lk.Context()))}, nil
})

type ending struct {
	At  time.Time
	Err *peerError
}

// txArgs say what to write in a transaction under a lock's context.
type txArgs struct{ Name, Query string }

// peerBegin has a peer begin a transaction under the lock's context, and write there.
var peerBegin = newJob("begin", func(p *peer, a txArgs) (struct{}, error) {
	lk, err := p.lock(a.Name)
	if err != nil {
		return struct{}{}, err
	}
	tx, err := p.db.BeginTx(lk.Context(), nil)
	if err != nil {
		return struct{}{}, err
	}
	p.mu.Lock()
	p.txs[a.Name] = tx
	p.mu.Unlock()
	_, err = tx.ExecContext(context.Background(), a.Query)
	return struct{}{}, err
})

// peerCommit has a peer commit that transaction.
var peerCommit = newJob("commit", func(p *peer, name string) (struct{}, error) {
	p.mu.Lock()
	tx := p.txs[name]
	p.mu.Unlock()
	return struct{}{}, tx.Commit()
})
