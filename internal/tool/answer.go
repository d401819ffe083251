package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// CheckAnswerSchema says what keeps a JSON schema from being used for an answer.
func CheckAnswerSchema(schema json.RawMessage) error {
	_, err := answerSchema(schema)
	return err
}

func answerSchema(text json.RawMessage) (*schema, error) {
	if !json.Valid(text) {
		return nil, agent.Errorf(agent.CodeInvalid, "the schema of the answer is not JSON")
	}
	s, err := compileSchema(text, false)
	return s, agent.Wrap(err, agent.CodeInvalid, "the schema of the answer is not a usable JSON schema")
}

// fenced is an answer whose JSON stands in a code fence.
var fenced = regexp.MustCompile("(?s)^```[a-zA-Z]*\\s*\n(.*?)\n?```$")

// CheckAnswer checks an answer against a JSON schema. It returns the answer without
// what models like to put around it, and what is wrong with it, if anything.
func CheckAnswer(schema json.RawMessage, answer string) (clean, problem string) {
	clean = strings.TrimSpace(answer)
	if m := fenced.FindStringSubmatch(clean); m != nil {
		clean = strings.TrimSpace(m[1])
	}
	s, err := answerSchema(schema)
	if err != nil {
		return clean, err.Error()
	}
	_, problem, notJSON := s.check([]byte(clean))
	if notJSON != nil {
		problem = fmt.Sprintf("it is not one JSON value: %v", notJSON)
	}
	return clean, problem
}
