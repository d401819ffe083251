package memory

import "github.com/spool-agents/spool/agent"

// Sentinels for errors.Is. What a store returns carries the same code and says
// which turn, attempt or call it was about.
var (
	// ErrStale means that the turn or attempt named by a write is no longer
	// current. Nothing was changed; whoever holds it should stop.
	ErrStale error = agent.Errorf(agent.CodeStale, "no longer current")
	// ErrCancelRequested means that a person asked to end the turn: no further
	// model call, tool run, question or delegation begins in it.
	ErrCancelRequested error = agent.Errorf(agent.CodeConflict, "cancel requested")
)

// Stale makes an error for which errors.Is(err, ErrStale) holds.
func Stale(format string, args ...any) error {
	return agent.Wrap(ErrStale, agent.CodeStale, format, args...)
}

// CancelRequested makes an error for which errors.Is(err, ErrCancelRequested) holds.
func CancelRequested(turnID string) error {
	return agent.Wrap(ErrCancelRequested, agent.CodeConflict, "turn %s begins nothing more", turnID)
}
