package conn

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// The pause of Lead after a turn that brought nothing grows from the one to the
// other; a tenure that lasted counts as success.
const (
	leadPauseMin = 100 * time.Millisecond
	leadPauseMax = 5 * time.Second
)

// Lead acquires the lock, runs fn under it, and does so again when the lock was
// lost. See package lockctx.
func (k *Keeper) Lead(ctx context.Context, req Request, fn func(context.Context) error) error {
	if req.Try || req.Timeout > 0 {
		return fault(req.Key, "Lead waits for as long as its context lasts: leave WithTimeout out, and end the context instead", ErrUnsupported)
	}
	if _, err := k.resolve(req); err != nil {
		return err
	}
	pause := leadPauseMin
	req.waited = new(bool)
	for led := false; ; {
		l, err := k.Acquire(ctx, req)
		if err == nil {
			var over bool
			begun := time.Now()
			if over, err = k.leadOnce(ctx, l, fn); over {
				return err
			}
			led = true
			if time.Since(begun) > leadPauseMax {
				pause = leadPauseMin
				continue
			}
		} else if ctx.Err() != nil || k.hopeless(err, led || *req.waited) {
			return err
		}
		k.write(slog.LevelWarn, "lockdb: not leading, trying again", slog.String("key", req.Key), slog.Duration("after", pause), slog.Any("error", err))
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-t.C:
		case <-ctx.Done(): // Acquire says so
			t.Stop()
		case <-k.ctx.Done():
			t.Stop()
		}
		pause = min(2*pause, leadPauseMax)
	}
}

// leadOnce runs fn under the lock and closes that. over is false if the lock was
// lost, so that there is to be another turn.
func (k *Keeper) leadOnce(ctx context.Context, l *Lock, fn func(context.Context) error) (over bool, err error) {
	since := time.Now()
	k.lead(l, EventLeading, 0, nil)
	defer func() {
		cerr := l.Close()
		over = !errors.Is(cerr, ErrLost) || ctx.Err() != nil || k.ctx.Err() != nil
		if !over {
			err = joinErrs(cerr, err)
		} else {
			err = joinErrs(err, cerr)
		}
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = errors.Join(ctx.Err(), err)
		}
		k.lead(l, EventDeposed, time.Since(since), err)
	}()
	return true, fn(l.Context())
}

func (k *Keeper) lead(l *Lock, kind EventKind, d time.Duration, err error) {
	if e := (Event{Kind: kind, Err: err}); k.hears(e) {
		e.Key, e.Session, e.Duration = l.key, l.sessionID(), d
		k.tell(e)
	}
}

// hopeless tells whether another try would fail as well: it could not be
// otherwise, or the server refused the very first one. Who has led, or waited to
// lead, has been served before: what the server says now may pass, as when it is
// read-only while another one takes its place.
func (k *Keeper) hopeless(err error, served bool) bool {
	switch {
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrClosed), errors.Is(err, dialect.ErrLeaseTableShape), errors.Is(err, dialect.ErrNoDatabase):
		return true
	}
	class := k.dialect.Classify(err)
	return class == dialect.ClassUnsupported || class == dialect.ClassServer && !served
}
