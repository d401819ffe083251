package agent

import (
	_ "embed"
	"encoding/json"
	"strconv"
	"strings"
)

// ToolAskUser asks a person a question. No process waits with it: the question
// stands in the store until somebody answers it.
const ToolAskUser = "ask_user"

var (
	//go:embed ask_user.md
	askUserDoc string

	askUserSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"question":{"type":"string","description":"the question, complete in itself"},` +
		`"options":{"type":"array","items":{"type":"string","maxLength":200},"maxItems":9,` +
		`"description":"answers to choose from, if there are few; the user may answer something else"}},` +
		`"required":["question"],"additionalProperties":false}`)
)

// AskUserSpec describes ask_user to a model.
func AskUserSpec() ToolSpec {
	return ToolSpec{
		Name: ToolAskUser, Description: strings.TrimSpace(askUserDoc), Schema: askUserSchema, ReadOnly: true, Repeatable: true,
	}
}

// AskUserParams are the arguments of ask_user.
type AskUserParams struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
}

// ParseAskUserParams reads and checks the arguments of a call.
func ParseAskUserParams(args json.RawMessage) (AskUserParams, error) {
	var p AskUserParams
	if err := strict(args, &p); err != nil {
		return p, Errorf(CodeInvalid, "ask_user: %v; it takes question, a text, and options, a list of texts", err)
	}
	if p.Question = strings.TrimSpace(p.Question); p.Question == "" {
		return p, Errorf(CodeInvalid, "ask_user: the question is empty")
	}
	for i, option := range p.Options {
		if p.Options[i] = strings.TrimSpace(option); p.Options[i] == "" || len([]rune(option)) > 200 || i == 9 {
			return p, Errorf(CodeInvalid, "ask_user: there are at most 9 options, each a text of 1 to 200 characters")
		}
		if n, err := strconv.Atoi(p.Options[i]); err == nil && n != i+1 {
			return p, Errorf(CodeInvalid, "ask_user: option %d is the number %d, and people answer with the numbers that options are shown with: say what it counts, as in %q", i+1, n, p.Options[i]+" copies")
		}
	}
	return p, nil
}
