package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
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
