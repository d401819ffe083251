package agent

import (
	"regexp"
	"strings"
)

// Answer is a JSON value in a text of a model, and the text around it.
type Answer struct{ Value, Around string }

var (
	thinking  = regexp.MustCompile(`(?is)^.*</(think|thinking|reasoning)>`)
	thinkTags = regexp.MustCompile(`(?i)</?(think|thinking|reasoning)>`)
	fences    = regexp.MustCompile("(?s)```[a-zA-Z]*(\\s.*?|[{\\[\"].*?)```")
)

// mostAnswers bounds the places of a text that are looked at.
const mostAnswers = 100

// Answers are the JSON values that may be what a model was asked for: what is fenced as
// code behind its reasoning, or all lists and objects that stand there.
func Answers(text string) (found []Answer) {
	thought := thinking.FindString(text)
	said := text[len(thought):]
	thought = strings.TrimSpace(thinkTags.ReplaceAllString(thought, ""))
	add := func(value string, from, to int) {
		var around []string
		for _, s := range []string{thought, said[:from], said[to:]} {
			if s = strings.TrimSpace(s); s != "" {
				around = append(around, s)
			}
		}
		found = append(found, Answer{value, strings.Join(around, "\n")})
	}
	for _, m := range fences.FindAllStringSubmatchIndex(said, mostAnswers) {
		if value, err := ReadJSON(said[m[2]:m[3]]); err == nil && value != "" {
			add(value, m[0], m[1])
		}
	}
	if len(found) > 0 {
		return found
	}
	if value, err := ReadJSON(said); err == nil && value != "" {
		add(value, 0, len(said))
		return found
	}
	for from, looks := 0, 0; looks < mostAnswers; looks++ {
		next := strings.IndexAny(said[from:], "{[")
		if next < 0 {
			break
		}
		from += next
		r := jsonReader{s: said[from:], lenient: true}
		if r.value() != nil {
			from++
			continue
		}
		add(string(r.out), from, from+r.at)
		from += r.at
	}
	return found
}
