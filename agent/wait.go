package agent

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
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
	// Attempt is the number of the request that is made next, of those to the model in
	// use. Attempts that were held back made none.
	Attempt int       `json:"attempt"`
	Until   time.Time `json:"until"`
	// GivesUpAt is when the call is not repeated any more; nil if that is not known.
	// It is never before Until.
	GivesUpAt *time.Time `json:"givesUpAt,omitempty"`
	// Fallback is the model that takes over when the call is not repeated any more; "" =
	// the turn ends.
	Fallback string `json:"fallback,omitempty"`
	// Code is that of the ModelError, Reason what the provider or the network said.
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Asked means that the provider limits how often it is called.
	Asked bool `json:"asked,omitempty"`
	// Held means that the call was not made, and did not fail: the provider has asked
	// another one to wait, which counts for all that go there with the same key.
	Held bool `json:"held,omitempty"`
	// Status is the HTTP status with which the provider answered, 0 if it did not.
	Status int `json:"status,omitempty"`
}

// ShortWait is too short to be shown to a person: a first quick retry.
const ShortWait = 2 * time.Second

// longestReason bounds what a wait repeats of an error, in bytes.
const longestReason = 200

// NewModelWait is the wait after an attempt that failed or was held back; the store
// completes it with who waits.
func NewModelWait(e *ModelError, next int, until time.Time) *ModelWait {
	reason := strings.Join(strings.Fields(CleanText(e.Message)), " ")
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + "…"
	}
	return &ModelWait{
		Attempt: next, Until: until.UTC().Truncate(time.Millisecond), Code: e.Code, Reason: reason,
		Asked: e.RetryAfter > 0 || e.Code == ModelRateLimited, Held: e.NotCalled, Status: e.Status,
	}
}

// modelFaults are the codes of model errors that may pass, in words.
var modelFaults = map[string]string{
	ModelRateLimited: "rate limited", ModelOverloaded: "overloaded", ModelBrokenStream: "its answer broke off", ModelIdleTimeout: "it fell silent",
	ModelUnreachable: "no connection", ModelAnswerInvalid: "its answer does not fit the schema", ModelCutOff: "its answer was cut off", ModelBadResponse: "its answer cannot be understood",
}

// Text tells a person what is waited for and until when, in the time zone of now.
func (w ModelWait) Text(now time.Time) string {
	until := clockTime(w.Until, now)
	if w.Held {
		return fmt.Sprintf("held back until %s: the provider asked everyone to wait%s", until, w.heldWhy())
	}
	why := cmp.Or(modelFaults[w.Code], w.Code)
	if w.Reason != "" && w.Code != ModelAnswerInvalid {
		why += ": \"" + w.Reason + "\""
	}
	if w.Asked {
		return fmt.Sprintf("waiting for the provider until %s (%s), attempt %d", until, why, w.Attempt)
	}
	tries := fmt.Sprintf("attempt %d", w.Attempt)
	if w.GivesUpAt != nil {
		end := "gives up"
		if w.Fallback != "" {
			end = "goes on with " + w.Fallback
		}
		tries += "; " + end + " at " + clockTime(*w.GivesUpAt, now)
	}
	return fmt.Sprintf("the model did not answer (%s), trying again at %s (%s)", why, until, tries)
}

// heldWhy is what the provider said to the call that it refused, in brackets.
func (w ModelWait) heldWhy() string {
	var parts []string
	if w.Status != 0 {
		parts = append(parts, strconv.Itoa(w.Status))
	}
	if w.Reason != "" {
		parts = append(parts, `"`+w.Reason+`"`)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

// clockTime is a time of day, with its date if that is not today.
func clockTime(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// stamp is a time within a text that is kept: it says its zone.
func stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

var stamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// LocalTimes rewrites the times of a text that was kept, such as why a turn ended, for
// who reads it at now, in its zone: like those of ModelWait.Text.
func LocalTimes(text string, now time.Time) string {
	return stamps.ReplaceAllStringFunc(text, func(s string) string {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return s
		}
		return clockTime(t, now)
	})
}
