package agent

import (
	"fmt"
	"strings"
	"time"
)

// ModelWait says that a model call failed, or was held back, and is made again
// later: until then its turn waits for the model's provider.
type ModelWait struct {
	ThreadID   string `json:"threadId"`
	RootThread string `json:"rootThreadId"`
	TurnID     string `json:"turnId"`
	// Agent is the one whose call it is.
	Agent string `json:"agent"`
	// Attempt is the number of the attempt that is made next.
	Attempt int       `json:"attempt"`
	Until   time.Time `json:"until"`
	// GivesUpAt is when the call is not repeated any more; nil if that is not known.
	GivesUpAt *time.Time `json:"givesUpAt,omitempty"`
	// Code is that of the ModelError, Reason what the provider or the network said.
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Asked means that the provider limits how often it is called.
	Asked bool `json:"asked,omitempty"`
}

// ShortWait is what need not be told to a person: a first quick retry.
const ShortWait = 2 * time.Second

// longestReason bounds what a wait repeats of an error, in bytes.
const longestReason = 200

// NewModelWait is the wait after a failed attempt; the store completes it with who
// waits.
func NewModelWait(e *ModelError, next int, until time.Time) *ModelWait {
	reason := strings.Join(strings.Fields(CleanText(e.Message)), " ")
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + "…"
	}
	return &ModelWait{
		Attempt: next, Until: until.UTC().Truncate(time.Millisecond), Code: e.Code, Reason: reason,
		Asked: e.RetryAfter > 0 || e.Code == ModelRateLimited,
	}
}

// modelFaults are the codes of model errors that may pass, in words.
var modelFaults = map[string]string{
	ModelRateLimited: "rate limited", ModelOverloaded: "overloaded", ModelBrokenStream: "its answer broke off", ModelIdleTimeout: "it fell silent",
	ModelUnreachable: "no connection", ModelAnswerInvalid: "its answer does not fit the schema", ModelCutOff: "its answer was cut off", ModelBadResponse: "its answer cannot be understood",
}

// Text tells a person what is waited for and until when, in the time zone of now.
func (w ModelWait) Text(now time.Time) string {
	why := modelFaults[w.Code]
	if why == "" {
		why = w.Code
	}
	if w.Reason != "" && w.Code != ModelAnswerInvalid {
		why += ": \"" + w.Reason + "\""
	}
	until := clockTime(w.Until, now, time.TimeOnly)
	if w.Asked {
		return fmt.Sprintf("waiting for the provider until %s (%s), attempt %d", until, why, w.Attempt)
	}
	tries := fmt.Sprintf("attempt %d", w.Attempt)
	if w.GivesUpAt != nil {
		tries += "; gives up at " + clockTime(*w.GivesUpAt, now, "15:04")
	}
	return fmt.Sprintf("the model did not answer (%s), trying again at %s (%s)", why, until, tries)
}

// clockTime is a time of day, with its date if that is not today.
func clockTime(t, now time.Time, layout string) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(layout)
}
