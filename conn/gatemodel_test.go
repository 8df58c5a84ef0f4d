package conn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gateModel is what a gate ought to be: a list.
type gateModel struct {
	inside   int // 0 is nobody
	occupied bool
	queue    []modelWaiter
	closed   bool
	left     map[int]string // who left without having been inside, and why
}

type modelWaiter struct {
	id       int
	patience time.Duration
	fires    time.Duration
}

func (m *gateModel) enter(id int, now, patience time.Duration) {
	switch {
	case m.closed:
		m.left[id] = "closed"
	case m.inside == 0:
		m.inside, m.occupied = id, false
	default:
		m.queue = append(m.queue, modelWaiter{id, patience, now + patience})
	}
}

func (m *gateModel) leave() {
	m.inside, m.occupied = 0, false
	if len(m.queue) > 0 && !m.closed {
		m.inside = m.queue[0].id
		m.queue = m.queue[1:]
	}
}

func (m *gateModel) withdraw(id int, why string) {
	m.left[id] = why
	m.queue = slices.DeleteFunc(m.queue, func(w modelWaiter) bool { return w.id == id })
}

func (m *gateModel) close() {
	m.closed = true
	for _, w := range m.queue {
		m.left[w.id] = "closed"
	}
	m.queue = nil
}

// pass lets time pass.
func (m *gateModel) pass(until time.Duration) {
	for i := 0; i < len(m.queue); {
		w := &m.queue[i]
		switch {
		case w.fires > until:
			i++
		case m.occupied:
			m.withdraw(w.id, "busy")
		default:
			w.fires += max(w.patience, 10*time.Millisecond)
		}
	}
}

func TestTheGateDoesWhatAListWouldDo(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { gateAgainstModel(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func gateAgainstModel(t *testing.T, random *rand.Rand) {
	var g gate
	m := gateModel{left: make(map[int]string)}
	start := time.Now()
	inside := make(chan int, 1)
	gone := errors.New("closed")
	outcome := make(map[int]string) // written one at a time: the bubble is at rest before each step
	cancels := make(map[int]context.CancelFunc)
	defer func() {
		for _, cancel := range cancels {
			cancel()
		}
	}()
	type result struct {
		id  int
		err error
	}
	results := make(chan result, 1000)
	collect := func() {
		synctest.Wait()
		for {
			select {
			case r := <-results:
				switch {
				case r.err == nil:
					inside <- r.id // full if two are inside
				case errors.Is(r.err, ErrBusy):
					outcome[r.id] = "busy"
				case errors.Is(r.err, context.Canceled):
					outcome[r.id] = "cancelled"
				case errors.Is(r.err, gone):
					outcome[r.id] = "closed"
				}
			default:
				return
			}
		}
	}
	for id := 1; id < 200; id++ {
		switch op := random.IntN(100); {
		case op < 45:
			ctx, cancel := context.WithCancel(context.Background())
			cancels[id] = cancel
			patience := time.Duration(1+random.IntN(5000)) * 997 * time.Microsecond
			m.enter(id, time.Since(start), patience)
			go func() {
				_, err := g.enter(ctx, fmt.Sprint(id), nil, patience)
				results <- result{id, err}
			}()
		case op < 65 && m.inside != 0:
			<-inside
			m.leave()
			g.leave()
		case op < 75 && m.inside != 0:
			m.occupied = true
			g.occupy()
		case op < 85 && len(m.queue) > 0:
			victim := m.queue[random.IntN(len(m.queue))].id
			m.withdraw(victim, "cancelled")
			cancels[victim]()
		case op < 99:
			d := time.Duration(random.IntN(3_000_000)) * 1009 * time.Nanosecond
			m.pass(time.Since(start) + d)
			time.Sleep(d) // in the bubble's time
		case random.IntN(4) == 0:
			m.close()
			g.close(gone)
		}
		collect()
		require.Equal(t, m.left, outcome, "step %d", id)
		if m.inside == 0 {
			require.Empty(t, inside, "step %d", id)
		} else {
			require.Len(t, inside, 1, "step %d", id)
			now := <-inside
			require.Equal(t, m.inside, now, "step %d", id)
			inside <- now
		}
		g.mu.Lock()
		waiting := len(g.queue)
		g.mu.Unlock()
		require.Equal(t, len(m.queue), waiting, "step %d", id)
	}
}
