package conn

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// An operator's usual logger hears nothing of acquiring and releasing.
func quietKeeper() *Keeper {
	opts := DefaultOptions()
	opts.Logger = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
	return newKeeper(Config{Options: opts})
}

// tellLife tells of a call that had to wait, of its lock's grant and release.
func tellLife(o *outcome, l *Lock) {
	o.waited, l.told, l.state, l.since = false, toldNothing, stateHeld, o.start
	o.waits()
	o.end(l, nil)
	l.state = stateReleased
	l.tellEnd()
	l.keeper.handedOn(l)
}

func TestEventsThatNobodyHearsAllocateNothing(t *testing.T) {
	k := quietKeeper()
	o, l := new(outcome), &Lock{keeper: k, key: "k", sess: &session{}}
	o.opens(k, Request{Key: "k"})
	require.Zero(t, testing.AllocsPerRun(100, func() { tellLife(o, l) }))
	require.EqualValues(t, 101, k.Stats().Released)
	require.EqualValues(t, 101, k.Stats().Acquired)
	require.EqualValues(t, 101, k.Stats().Waited)
}

func BenchmarkEventsThatNobodyHears(b *testing.B) {
	k := quietKeeper()
	o, l := new(outcome), &Lock{keeper: k, key: "k", sess: &session{}}
	o.opens(k, Request{Key: "k"})
	b.ReportAllocs()
	for b.Loop() {
		tellLife(o, l)
	}
}
