package activities

import (
	"context"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// flushEvery bounds how often streamed text is written to the store. The first
// piece is written at once: somebody is watching.
const flushEvery = 50 * time.Millisecond

// stream collects the pieces of one attempt and writes them in batches.
type stream struct {
	store memory.ConversationMemoryStore
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	pending memory.Chunk // what is not written yet, with its offsets
	wake    chan struct{}
	done    chan struct{}
	idle    chan struct{}
}

func newStream(store memory.ConversationMemoryStore, at memory.Chunk, stop context.CancelCauseFunc) *stream {
	s := &stream{store: store, stop: stop, pending: at, wake: make(chan struct{}, 1), done: make(chan struct{}), idle: make(chan struct{})}
	go s.run()
	return s
}

func (s *stream) add(d agent.Delta) {
	s.mu.Lock()
	s.pending.Text += d.Text
	s.pending.Reasoning += d.Reasoning
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close writes the rest and ends the stream.
func (s *stream) close() {
	close(s.done)
	<-s.idle
	s.flush()
}

// discard ends the stream without writing the rest.
func (s *stream) discard() {
	close(s.done)
	<-s.idle
}

func (s *stream) run() {
	defer close(s.idle)
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		}
		s.flush()
		select {
		case <-s.done:
			return
		case <-time.After(flushEvery):
		}
	}
}

// flush writes what is pending. A store that is away costs only the live view:
// the reply is stored whole at its end, and what was not written is tried again
// with the next piece.
func (s *stream) flush() {
	s.mu.Lock()
	c := s.pending
	s.pending.Offset += len(c.Text)
	s.pending.ReasoningOffset += len(c.Reasoning)
	s.pending.Text, s.pending.Reasoning = "", ""
	s.mu.Unlock()
	if c.Text == "" && c.Reasoning == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Second)
	defer cancel()
	switch err := s.store.AppendChunk(ctx, c); {
	case agent.CodeOf(err) == agent.CodeStale:
		s.stop(err)
	case err != nil:
		s.mu.Lock()
		s.pending.Text, s.pending.Offset = c.Text+s.pending.Text, c.Offset
		s.pending.Reasoning, s.pending.ReasoningOffset = c.Reasoning+s.pending.Reasoning, c.ReasoningOffset
		s.mu.Unlock()
	}
}
