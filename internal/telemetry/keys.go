package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/agent"
)

// Attributes, by the semantic conventions for generative AI where they have one.
const (
	keyThread  attribute.Key = "spool.thread_id"
	keyTurn    attribute.Key = "spool.turn_id"
	keyRoot    attribute.Key = "spool.root_thread_id"
	keyStep    attribute.Key = "spool.step"
	keyAttempt attribute.Key = "spool.attempt"
	keyOutcome attribute.Key = "spool.outcome"
	keyReason  attribute.Key = "spool.reason"
	keyKind    attribute.Key = "spool.thread_kind"
	keyStatus  attribute.Key = "spool.status"
	keyPurpose attribute.Key = "spool.purpose"
	keyMessage attribute.Key = "spool.message_id"
	keySave    attribute.Key = "spool.activity"
	keyCalls   attribute.Key = "spool.tool_calls"

	keyOperation    attribute.Key = "gen_ai.operation.name"
	keyProvider     attribute.Key = "gen_ai.provider.name"
	keyConversation attribute.Key = "gen_ai.conversation.id"
	keyAgentName    attribute.Key = "gen_ai.agent.name"
	keyAgentID      attribute.Key = "gen_ai.agent.id"
	keyModel        attribute.Key = "gen_ai.request.model"
	keyAnswered     attribute.Key = "gen_ai.response.model"
	keyFinish       attribute.Key = "gen_ai.response.finish_reasons"
	keyIn           attribute.Key = "gen_ai.usage.input_tokens"
	keyOut          attribute.Key = "gen_ai.usage.output_tokens"
	keyCached       attribute.Key = "gen_ai.usage.cache_read.input_tokens"
	keyTemperature  attribute.Key = "gen_ai.request.temperature"
	keyTopP         attribute.Key = "gen_ai.request.top_p"
	keyMaxTokens    attribute.Key = "gen_ai.request.max_tokens"
	keyTokenType    attribute.Key = "gen_ai.token.type"
	keyTool         attribute.Key = "gen_ai.tool.name"
	keyCall         attribute.Key = "gen_ai.tool.call.id"
	keyToolType     attribute.Key = "gen_ai.tool.type"
	keyError        attribute.Key = "error.type"

	// With Options.Content only.
	keyInput     attribute.Key = "gen_ai.input.messages"
	keyOutput    attribute.Key = "gen_ai.output.messages"
	keyArguments attribute.Key = "gen_ai.tool.call.arguments"
	keyResult    attribute.Key = "gen_ai.tool.call.result"
)

// Values of gen_ai.operation.name.
const (
	opChat  = "chat"
	opTool  = "execute_tool"
	opAgent = "invoke_agent"
)

// Values of error.type that no error of Spool's names.
const (
	errLost      = "worker_lost" // the process that ran it died
	errCancelled = "cancelled"
)

// errorType is an error in one word; "" for none.
func errorType(err error) string {
	var model *agent.ModelError
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &model):
		return model.Code
	case errors.As(err, &app):
		return app.Type()
	case errors.Is(err, context.Canceled):
		return errCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return string(agent.CodeOf(err))
}

// TraceID is the trace of a main thread's turn and of all sub-agents' turns below it.
func TraceID(turnID string) (id trace.TraceID) {
	copy(id[:], digest("trace", turnID))
	return id
}

// What spans are derived of.
const (
	spanMessage  = "message"  // turn id
	spanSend     = "send"     // turn id
	spanTurn     = "turn"     // turn id
	spanModel    = "model"    // turn id, step, purpose, attempt
	spanTool     = "tool"     // call id, attempt
	spanCall     = "call"     // call id: of what no activity runs
	spanApproval = "approval" // approval id
)

// spanID derives the id of a span.
func spanID(kind string, of ...string) (id trace.SpanID) {
	copy(id[:], digest(append([]string{kind}, of...)...))
	return id
}

func digest(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// derived are the ids of a span about to be made; it travels in the context.
type derived struct {
	trace trace.TraceID
	span  trace.SpanID
}

type derivedKey struct{}

func derivedOf(ctx context.Context) (derived, bool) {
	d, ok := ctx.Value(derivedKey{}).(derived)
	return d, ok
}

// IDs is the IDGenerator that a tracer provider has to be made with: it gives Spool's
// spans their derived ids, and all others random ones. Safe for concurrent use.
type IDs struct{}

// NewIDs is asked for the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if d, ok := derivedOf(ctx); ok {
		return d.trace, d.span
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:]) // never fails
	return t, randomSpan()
}

// NewSpanID is asked for the id of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if d, ok := derivedOf(ctx); ok {
		return d.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}

// Derived reports whether a span that is started with ctx has derived ids. Its
// parent is derived too and was not sampled anywhere, so a sampler has to decide by
// the trace id, which is the same in every process.
func Derived(ctx context.Context) bool {
	_, ok := derivedOf(ctx)
	return ok
}
