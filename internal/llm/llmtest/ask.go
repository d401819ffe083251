package llmtest

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// Ask is the call that asks the user a question, as a step of a script.
func Ask(question string) string {
	return script.Call(agent.ToolAskUser, map[string]string{"question": question})
}
