package activities

import (
	"cmp"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// elsewhere says of each code whether another model takes over once a call is not made
// again: it does for what is the matter with a model or its provider, and may not be
// with another one. What is the matter with the request itself (what it says, holds or
// asks for) is for a person to change, and no reason to ask somebody else.
var elsewhere = map[string]bool{
	agent.ModelRateLimited:   true,
	agent.ModelOverloaded:    true,
	agent.ModelBrokenStream:  true,
	agent.ModelIdleTimeout:   true,
	agent.ModelUnreachable:   true,
	agent.ModelAuth:          true,
	agent.ModelUnknown:       true,
	agent.ModelBadResponse:   true,
	agent.ModelAnswerInvalid: true,

	agent.ModelBadRequest:     false,
	agent.ModelContextTooLong: false,
	agent.ModelCutOff:         false,
	agent.ModelContentFilter:  false,
}

// fallback is the model that takes over after a call that is not made again. It is ""
// if none is left or another model would not help.
func (a *Activities) fallback(turn memory.Turn, r agent.ModelRequest, e *agent.ModelError, exhausted bool) string {
	if !elsewhere[e.Code] || !exhausted {
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
	agent.ClassUnreadable: 3,
	agent.ClassInsecure:   5, // a captive portal passes
	agent.ClassUnclear:    3,
}

// repeats reports whether a call failed in its class as often as is worth trying.
func repeats(e *agent.ModelError) bool {
	most, ok := worthTrying[e.Class]
	return ok && e.InARow >= most
}

// tried is how far the repeating of a call has come that failed just now, or was held
// back.
type tried struct {
	// failures is how many calls of the current model failed, this one included.
	failures int
	// left is what is left of retryFor. It counts from the first of the failures.
	left time.Duration
}

func (a *Activities) tried(begun memory.ModelStart, c failedCall, notCalled bool) tried {
	t := tried{failures: begun.Failures, left: a.retryFor() - begun.Failing}
	if t.failures > 0 {
		t.left -= c.took
	}
	if !notCalled {
		t.failures++
	}
	return t
}

// exhausted reports whether a call is not made again: it was tried often or for long
// enough, or the provider asks to wait for longer than that. Being held back is no
// failed try.
func (a *Activities) exhausted(t tried, e *agent.ModelError) bool {
	switch {
	case !e.Retryable, repeats(e):
		return true
	case e.RetryAfter > mostDelay && e.RetryAfter > t.left:
		return true // waits as short as those of our own back-off are obeyed at first
	case e.NotCalled:
		return false
	}
	return t.failures >= minModelTries && (t.left <= 0 || e.RetryAfter > t.left)
}

func (a *Activities) retryFor() time.Duration { return cmp.Or(a.RetryFor, DefaultRetryFor) }

// otherModel tells the workflow to call again, with the model that takes over.
type otherModel struct{ model string }

func (e *otherModel) Error() string { return "the turn goes on with " + e.model }
