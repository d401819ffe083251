package agent

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Codes of model errors.
const (
	ModelRateLimited    = "rate_limited"
	ModelOverloaded     = "overloaded"      // 5xx, 408, 409
	ModelBrokenStream   = "broken_stream"   // ended or broke before the reply was complete
	ModelIdleTimeout    = "idle_timeout"    // nothing arrived for the idle limit
	ModelUnreachable    = "unreachable"     // no connection
	ModelAuth           = "auth"            // 401, 402, 403
	ModelBadRequest     = "bad_request"     // 400, 422
	ModelUnknown        = "model_not_found" // 404, or a text that says so
	ModelAnswerInvalid  = "answer_invalid"  // the answer does not fit the schema asked for
	ModelContextTooLong = "context_too_long"
	ModelCutOff         = "cut_off" // finish_reason length inside tool arguments
	ModelContentFilter  = "content_filter"
	ModelBadResponse    = "bad_response" // not understandable, e.g. HTML
)

// ModelCodes lists the codes of model errors.
func ModelCodes() []string {
	return []string{
		ModelRateLimited, ModelOverloaded, ModelBrokenStream, ModelIdleTimeout, ModelUnreachable, ModelAuth, ModelBadRequest, ModelUnknown,
		ModelAnswerInvalid, ModelContextTooLong, ModelCutOff, ModelContentFilter, ModelBadResponse,
	}
}

// ModelError is a classified failure of a model call.
type ModelError struct {
	Code   string
	Status int // HTTP status, 0 if none
	// Message is what the provider or the network said, or what was found wrong. What
	// it means and what to do is in Final.
	Message string
	// Retryable says whether the same request may succeed later.
	Retryable bool
	// RetryAfter is how long the provider asked to wait; 0 if it did not say.
	RetryAfter time.Duration
	// NotCalled means that the call was held back: the provider was not asked, as it
	// had asked another call to wait. Status and Message are those of that call, and
	// HeldBy is the refusal.
	NotCalled bool
	HeldBy    Refusal
	// Limit is the context window that the provider named when it refused a request
	// as too long, in tokens; 0 if it did not say.
	Limit int64
	// NoImages says that the provider refused the request because the model takes no
	// images. Code and Retryable are what they would be otherwise.
	NoImages bool
	// Class tells retryable failures that repeat themselves, as a rule, from those that
	// pass: it bounds how often in a row they are worth a try. "" = they pass.
	Class FailureClass
	// InARow is how often calls have failed in this class, this one included; 0 if
	// the caller does not count.
	InARow int
	// Model is what was asked for, At where; empty if that is not known.
	Model string
	At    ModelPlace
	// ToDo is what to do, where the code does not tell; "" = it does.
	ToDo string
}

// Refusal is what a provider said to a call when it asked to wait.
type Refusal struct {
	// Model is the one that was asked; "" = it is not known.
	Model string
	// At is when, Until for how long it wants no call, by the clock of the worker.
	At, Until time.Time
}

// text says it of a model at a place, with times that readers may convert: see
// LocalTimes.
func (r Refusal) text(at ModelPlace) string {
	who := cmp.Or(r.Model, "the model")
	if at.Provider != "" {
		who += " at " + at.Provider
	}
	if r.Until.IsZero() {
		return who + " asked everyone to wait"
	}
	return fmt.Sprintf("%s said at %s to wait until %s", who, stamp(r.At), stamp(r.Until))
}

// ModelPlace says where a model is asked, in words for people. It holds no secret.
type ModelPlace struct {
	// Provider is its name in the table of models, or the host of its base URL.
	Provider string
	// Address names the setting of the base URL; "" = it is not known.
	Address string
	// KeyToDo is what to do when the key is refused; "" = that is not known.
	KeyToDo string
}

// FailureClass is a kind of retryable failure that a provider's trouble of the moment
// does not explain.
type FailureClass string

// The failure classes.
const (
	ClassEmpty      FailureClass = "empty"      // a whole reply with neither text nor a call
	ClassUnreadable FailureClass = "unreadable" // what came is no reply, or a call is malformed
	ClassUnclear    FailureClass = "unclear"    // HTTP 200 with an error of no known kind
	ClassInsecure   FailureClass = "insecure"   // no TLS, or a certificate that is not valid
)

// Error names the code, the status and the provider's text, for logs.
func (e *ModelError) Error() string {
	if e.NotCalled {
		return "model not asked (" + e.Code + "): " + e.HeldBy.text(e.At) + ": " + e.Message
	}
	if e.Status != 0 {
		return fmt.Sprintf("model call failed (%s, HTTP %d): %s", e.Code, e.Status, e.Message)
	}
	return fmt.Sprintf("model call failed (%s): %s", e.Code, e.Message)
}

// longestSaid bounds what Final repeats of a message, in bytes: what to do comes after
// it and is to be seen.
const longestSaid = 600

// Final tells a person of a call that is not made again: what happened, to which model
// at which provider, and what to do. The code is not in it: it is shown beside it.
func (e *ModelError) Final() string {
	text := e.subject()
	said := strings.Join(strings.Fields(CleanText(e.Message)), " ")
	if len(said) > longestSaid {
		said = strings.ToValidUTF8(said[:longestSaid], "") + "…"
	}
	if said = strings.TrimRight(said, ".;: "); said != "" {
		text += ": " + said
	}
	if e.InARow > 1 && e.Class != "" {
		text += fmt.Sprintf("; so it was %d times in a row", e.InARow)
	}
	return text + ". To do: " + e.Remedy() + "."
}

// subject says which model did what, or why it was not asked.
func (e *ModelError) subject() string {
	if e.NotCalled {
		who := "not asked: "
		if e.Model != "" && e.Model != e.HeldBy.Model {
			who = e.Model + " was " + who
		}
		return who + e.HeldBy.text(e.At)
	}
	text := cmp.Or(e.Model, "the model")
	if e.At.Provider != "" {
		text += " at " + e.At.Provider
	}
	text += " " + e.end().what
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	return text
}

// Remedy is what a person can do about a call that is not made again.
func (e *ModelError) Remedy() string {
	if e.ToDo != "" {
		return e.ToDo
	}
	address, key := cmp.Or(e.At.Address, "the base URL of the provider"), cmp.Or(e.At.KeyToDo, "check the key of the provider")
	todo := e.end().todo
	if todo == "" {
		todo = reachable(e.Message)
	}
	return strings.NewReplacer("{address}", address, "{key}", key).Replace(todo)
}

// modelEnd is what a failure means, behind the model's name, and what to do about it.
type modelEnd struct{ what, todo string }

const (
	askLater  = "retry later, or name other models in SPOOL_FALLBACK_MODELS (fallbackModels)"
	rightPath = "check {address}: it must end before /chat/completions, mostly in /v1"
	moreQuota = "raise the quota or the credit of the key at the provider, or name models of other providers in SPOOL_FALLBACK_MODELS (fallbackModels)"
)

var modelEnds = map[string]modelEnd{
	ModelRateLimited:    {"may not be called that often", "retry later, raise the limit of the key at the provider, or name models of other providers in SPOOL_FALLBACK_MODELS (fallbackModels)"},
	ModelOverloaded:     {"is overloaded or out of order", askLater},
	ModelBrokenStream:   {"broke off its answer", "retry; if that does not help, check the network and the proxies between the worker and the provider"},
	ModelIdleTimeout:    {"fell silent", "retry; if this model may be silent for longer, raise SPOOL_IDLE_TIMEOUT (idleTimeout) where the worker is started"},
	ModelUnreachable:    {"cannot be reached", ""}, // see reachable
	ModelAuth:           {"refused the key", "{key}"},
	ModelBadRequest:     {"refused the request", "change what it names: the message, or model, temperature, topP, maxTokens or tools in the agent's file; `starter models` asks the model for a word"},
	ModelUnknown:        {"cannot be used", "check the model's name (SPOOL_MODEL, model in the agent's file, `starter send --model`): `starter models` lists what the provider has; and " + rightPath},
	ModelAnswerInvalid:  {"gave an answer that does not fit the schema, also after it was told", "make the schema simpler (`starter send --schema`), say in the message what is wanted, or use another model"},
	ModelContextTooLong: {"refused the conversation as too long", "start a new conversation, use a model that reads more, or state what this one reads: SPOOL_CONTEXT_WINDOW (contextWindow), or window in models.yaml"},
	ModelCutOff:         {"reached its output limit", "raise maxTokens in the agent's file, or ask for less at a time"},
	ModelContentFilter:  {"did not answer for what the conversation holds", "change the message, go on before it with `starter fork`, or use another model"},
	ModelBadResponse:    {"answered with what is no reply", rightPath},
}

// special are those that a code does not tell apart.
var special = map[string]modelEnd{
	"quota":                 {"has no quota left for this key", moreQuota},
	"payment":               {"is to be paid for first", moreQuota},
	"images":                {"refused the images", "go on with a model that takes images (`starter send --model`), or send them smaller, fewer, or as PNG or JPEG"},
	string(ClassEmpty):      {"gave an empty answer", "ask in other words, use another model, or name some in SPOOL_FALLBACK_MODELS (fallbackModels)"},
	string(ClassUnreadable): {"gave an answer that cannot be read", rightPath + "; see what stands between the worker and the provider, such as a proxy or a sign-in page; or use another model"},
	string(ClassUnclear):    {"answered with an error that tells nothing", askLater},
	string(ClassInsecure):   {"cannot be reached safely", ""},
}

func (e *ModelError) end() modelEnd {
	kind := string(e.Class)
	switch {
	case e.Code == ModelRateLimited && !e.Retryable:
		kind = "quota"
	case e.Code == ModelAuth && e.Status == 402:
		kind = "payment"
	case e.Code == ModelBadRequest && (e.NoImages || strings.Contains(strings.ToLower(e.Message), "image")):
		kind = "images"
	}
	if end, ok := special[kind]; ok {
		return end
	}
	if end, ok := modelEnds[e.Code]; ok {
		return end
	}
	return modelEnd{"failed", askLater}
}

// reachable is what to do where there was no connection, by what the network said.
func reachable(said string) string {
	switch {
	case strings.Contains(said, "no such host"):
		return "check the host's name in {address}, and the network"
	case strings.Contains(said, "gave HTTP response to HTTPS client"), strings.Contains(said, "first record does not look like a TLS handshake"):
		return "write http:// instead of https:// in {address}"
	case strings.Contains(said, "certificate"), strings.Contains(said, "x509"):
		return "its certificate is not trusted here: name its authority in SSL_CERT_FILE, set this machine's clock, or check {address}"
	case strings.Contains(said, "refused"):
		return "start the server, or check host and port in {address}"
	}
	return "see whether the server is running, and check {address} and the network"
}
