package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// fallback is the model that takes over from one that is out of order: unknown to
// its provider, without quota, or failing for as long as calls are repeated. It is
// "" if none is left or another model would not help.
func (a *Activities) fallback(ctx context.Context, turn memory.Turn, r agent.ModelRequest, e *agent.ModelError) string {
	switch {
	case e.Code == agent.ModelUnknown, e.Code == agent.ModelRateLimited && !e.Retryable:
	case !a.exhausted(ctx, e) || !e.Retryable:
		return ""
	}
	// -1 while the turn's own model is in use.
	for _, next := range a.Fallbacks[slices.Index(a.Fallbacks, turn.Fallback)+1:] {
		if next != r.Model || r.Provider != "" {
			return next
		}
	}
	return ""
}

// worthTrying is how often in a row a call is made that fails in one class: trouble
// that passes is met by waiting, which RetryFor bounds; these hardly ever pass. The
// first tries are half a second, one, two … apart.
var worthTrying = map[agent.FailureClass]int{
	agent.ClassEmpty:      4,
	agent.ClassUnreadable: 5,
	agent.ClassInsecure:   5, // a captive portal passes
	agent.ClassUnclear:    8,
}

// advice is what a person may do where calls are not repeated any more.
var advice = map[agent.FailureClass]string{
	agent.ClassEmpty:      "ask in other words, use another model, or name some as SPOOL_FALLBACK_MODELS",
	agent.ClassUnreadable: "check the base URL and what stands between here and the provider, or use another model",
	agent.ClassInsecure:   "mend it and retry",
	agent.ClassUnclear:    "retry later, or use another model",
}

// repeats reports whether a call failed in its class as often as is worth trying.
func repeats(e *agent.ModelError) bool {
	most, ok := worthTrying[e.Class]
	return ok && e.InARow >= most
}

// exhausted reports whether a failed call is not made again: it was tried often or
// for long enough, or the provider asks to wait for longer than that.
func (a *Activities) exhausted(ctx context.Context, e *agent.ModelError) bool {
	info := activity.GetInfo(ctx)
	retryFor := a.retryFor()
	since := time.Since(info.ScheduledTime)
	// Waits as short as those of our own back-off are too short to give up for.
	long := e.RetryAfter > mostDelay && since+e.RetryAfter > retryFor
	return !e.Retryable || repeats(e) || long || since > retryFor && info.Attempt >= minModelTries
}

// retryFor is for how long a failing model call is repeated.
func (a *Activities) retryFor() time.Duration { return cmp.Or(a.RetryFor, DefaultRetryFor) }

// otherModel tells the workflow to call again, with the model that takes over.
type otherModel struct{ model string }

func (e *otherModel) Error() string { return "the turn goes on with " + e.model }

func fallbackWarning(from, to string, why error) []agent.Warning {
	return []agent.Warning{{Code: agent.WarnFallback, Message: fmt.Sprintf("%s goes on in place of %s: %v", to, from, why)}}
}
