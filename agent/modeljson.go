package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// This file is the one place that reads JSON which models wrote. What it returns is
// JSON that every parser takes: valid UTF-8 without NUL and without half a surrogate
// pair, numbers within the range of a double and with all their digits, no key twice
// (the last one holds, as in Go), no nesting deeper than maxNesting.
//
// These slips are taken, because they can mean one thing only: raw line breaks and tabs
// in a text, a comma before a closing bracket, texts in single quotes (the next ' that
// is not escaped ends them), keys without quotes, True, False and None, closing
// brackets too many, a code fence around all of it, the same value sent again, and {}
// before the value that it held the place for. All else is an error that says where it
// is: half a value is never made whole.

// maxNesting is what the strictest parsers in use read.
const maxNesting = 64

// ReadArguments reads the arguments of a tool call: a JSON object, nothing (which is
// {}), or either of them encoded once more as a JSON text. What is in order comes back
// as it is. The error is to be read behind "The arguments of the tool".
func ReadArguments(args string) (string, error) {
	for range 3 {
		clean, err := ReadJSON(args)
		switch {
		case err != nil:
			return "", Errorf(CodeInvalid, "are not valid JSON: %v", err)
		case clean == "" || clean == "null":
			return "{}", nil
		case clean[0] == '{':
			return clean, nil
		case clean[0] != '"':
			return "", Errorf(CodeInvalid, "must be a JSON object, not %s", Shorten(clean, 100, ""))
		}
		if err := json.Unmarshal([]byte(clean), &args); err != nil {
			return "", err
		}
	}
	return "", Errorf(CodeInvalid, "must be a JSON object, not a text")
}

// jsonFence is a code fence around all of a text.
var jsonFence = regexp.MustCompile("(?s)^```[a-zA-Z]*(\\s.*|[{\\[\"].*)```$")

// ReadJSON reads a JSON value that a model wrote; "" stays "".
func ReadJSON(text string) (string, error) {
	text = strings.Trim(text, " \t\r\n\uFEFF")
	if strings.HasPrefix(text, "```") {
		if m := jsonFence.FindStringSubmatch(text); m != nil {
			text = strings.TrimSpace(m[1])
		}
	}
	if text == "" {
		return "", nil
	}
	r := jsonReader{s: text, lenient: true}
	return r.whole()
}

// HarmlessJSON is JSON that a program wrote, made fit for every parser; nil if it is no
// JSON or cannot be made so.
func HarmlessJSON(raw json.RawMessage) json.RawMessage {
	r := jsonReader{s: strings.TrimSpace(string(raw))}
	clean, err := r.whole()
	if err != nil {
		return nil
	}
	return json.RawMessage(clean)
}

// UnreadArguments is what is kept and shown of arguments that cannot be read: providers
// parse the arguments of earlier calls, and refuse the whole request otherwise.
func UnreadArguments(args string) string {
	b, err := json.Marshal(map[string]string{"invalid_arguments": CleanText(args)})
	if err != nil {
		return "{}"
	}
	return string(b)
}

// RefuseArguments tells a model why the arguments of its call were not read.
func RefuseArguments(tool string, reason error) string {
	return fmt.Sprintf("The arguments of %s %v. Nothing was run: make the call again with valid JSON.", tool, reason)
}
