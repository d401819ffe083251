package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/spool-agents/spool/agent"
)

// CheckAnswerSchema says what keeps a JSON schema from being used for an answer.
func CheckAnswerSchema(schema json.RawMessage) error {
	_, err := answerSchema(schema)
	return err
}

func answerSchema(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the schema of the answer is not JSON")
	}
	compiled, err := compile(doc)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the schema of the answer is not a usable JSON schema")
	}
	return compiled, nil
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
	compiled, err := answerSchema(schema)
	if err != nil {
		return clean, err.Error()
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(clean))
	if err != nil {
		return clean, fmt.Sprintf("it is not one JSON value: %v", err)
	}
	err = compiled.Validate(doc)
	if err == nil {
		return clean, ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return clean, err.Error()
	}
	var problems []string
	leaves(invalid, message.NewPrinter(language.English), &problems)
	return clean, strings.Join(problems, "; ")
}
