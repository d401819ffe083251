package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

const (
	// statusClientClosed is nginx's for a client that left; seen from here, a gateway did.
	statusClientClosed = 499

	maxErrorBody    = 256 << 10 // bytes read of an error response
	maxErrorMessage = 2000      // bytes kept of its text
)

// problem is what an error object says, in any of the forms in use.
type problem struct {
	message string
	more    string // the rest of the object, for numbers in it
	kind    string // type and code, lower case
	status  int    // a code that is an HTTP status
	delay   time.Duration
}

var (
	tooLongText = regexp.MustCompile(`(?i)maximum context|context[ _-]?(length|window|size|limit)|(prompt|input|request) (is |was )?too (long|large)|` +
		`too many (input |prompt )?tokens|reduce the length|input token count.*exceed|exceeds? the (maximum|model|max|limit).*token|` +
		`range of input length|token limit exceeded|longer than the maximum|maximum (prompt|input|model) length|exceed_context_size|max_new_tokens.{0,3} must be`)
	// A limit per minute that one request exceeds never lets it through.
	tooLargeEver = regexp.MustCompile(`(?i)^request too large`)
	filterText   = regexp.MustCompile(`content_filter|content_policy|contentfilter|responsible_?ai|moderation|prohibited_content|sensitive`)
	rateText     = regexp.MustCompile(`rate.?limit|too_many_requests|resource_exhausted|throttl`)
	authText     = regexp.MustCompile(`invalid_api_key|authentication|permission|unauthorized|unauthenticated`)
	authWords    = regexp.MustCompile(`(?i)\b(un|not )(authorized|authenticated)\b|(invalid|incorrect|missing|expired|no) (api|access|auth\w*)[ _-]?(key|token)|could not validate credentials|\b(log|sign) in\b`)
	badText      = regexp.MustCompile(`invalid_request|invalid_argument|bad_?request|not_found|unsupported|unprocessable`)
	unknownText  = regexp.MustCompile(`(?i)model_not_found|(model|deployment)\b.{0,80}\b(does not exist|not exist|not found|is not available|has been (deprecated|decommissioned|retired)|no longer (available|supported))|(unknown|invalid|no such) model|not a valid model( id)?|resource for this deployment`)
	retryDelay   = regexp.MustCompile(`"retryDelay"\s*:\s*"([0-9.]+)s"`) // Gemini
)

// limitTexts find the context window that a provider names in its refusal.
var limitTexts = []*regexp.Regexp{
	regexp.MustCompile(`(?i)maximum (?:context|prompt|model|input)[ _-]?(?:length|window|size)?\s*(?:is|of|:)\s*([0-9][0-9,_]*)`),
	regexp.MustCompile(`(?i)([0-9][0-9,_]*)[- ](?:token )?(?:maximum context length|context (?:window|length))`),
	regexp.MustCompile(`(?i)[0-9](?: tokens)? >\s*([0-9][0-9,_]*)`),                               // Anthropic
	regexp.MustCompile(`(?i)maximum number of (?:input )?tokens (?:allowed )?\(?([0-9][0-9,_]*)`), // Gemini
	regexp.MustCompile(`(?i)context (?:size|length|window)[^0-9.;]{0,30}?([0-9][0-9,_]*)`),        // llama.cpp, LM Studio
	regexp.MustCompile(`(?i)input length should be \[[0-9]+, ?([0-9]+)\]`),                        // Qwen
	regexp.MustCompile(`(?i)must be <= ?([0-9][0-9,_]*)`),                                         // TGI, Together
}

// limitField is where llama.cpp has it.
var limitField = regexp.MustCompile(`"n_ctx"\s*:\s*([0-9]+)`)

// limitOf is the context window that a text names, in tokens; 0 if it names none.
func limitOf(text string, in ...*regexp.Regexp) int64 {
	for _, r := range in {
		m := r.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "").Replace(m[1]), 10, 64)
		if err == nil && n >= 256 && n <= 100_000_000 {
			return n
		}
	}
	return 0
}

// readProblem reads an error object: {"error":{..}}, {"error":"text"}, the bare
// object, a list of these, {"detail":..}; ok is false if raw is none of them.
func readProblem(raw json.RawMessage) (p problem, ok bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return problem{}, false
	}
	switch raw[0] {
	case '"':
		var s text
		if json.Unmarshal(raw, &s) != nil || s == "" {
			return problem{}, false
		}
		return problem{message: string(s)}, true
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
			return problem{}, false
		}
		return readProblem(list[0])
	case '{':
	default:
		return problem{}, false
	}
	var o struct {
		Error, Message, Detail, Errors   json.RawMessage
		Type, Code, Status, Object, Name text
		Metadata                         json.RawMessage
	}
	if json.Unmarshal(raw, &o) != nil {
		return problem{}, false
	}
	if present(o.Error) && (o.Error[0] == '{' || o.Error[0] == '[' || o.Error[0] == '"') {
		if inner, ok := readProblem(o.Error); ok {
			inner.kind = strings.ToLower(string(o.Type+" "+o.Code+" ")) + inner.kind
			return inner, true
		}
		return problem{message: string(o.Error)}, true
	}
	p.kind = strings.ToLower(string(o.Type + " " + o.Code + " " + o.Status + " " + o.Name))
	for _, c := range []text{o.Code, o.Status} {
		if n, err := strconv.Atoi(string(c)); err == nil && n >= 400 && n < 600 {
			p.status = n
			break
		}
	}
	for _, m := range []json.RawMessage{o.Message, o.Detail, o.Errors} {
		if !present(m) {
			continue
		}
		var s text
		if m[0] != '"' || json.Unmarshal(m, &s) != nil {
			s = text(m)
		}
		p.message = string(s)
		break
	}
	var more struct{ Raw text } // OpenRouter quotes its provider
	if json.Unmarshal(o.Metadata, &more) == nil && more.Raw != "" {
		p.message += ": " + string(more.Raw)
	}
	p.more = string(raw[:min(len(raw), maxErrorMessage)])
	if m := retryDelay.FindSubmatch(raw); m != nil {
		p.delay, _ = sensible(seconds(string(m[1])))
	}
	return p, p.message != "" || strings.TrimSpace(p.kind) != ""
}

// modelError classifies a problem that came with an HTTP status, or within an
// HTTP 200 stream (status 200).
func (p problem) modelError(status int) *agent.ModelError {
	e := &agent.ModelError{Status: status, Message: p.message, RetryAfter: p.delay}
	if status >= 200 && status < 300 {
		if status = p.status; status == 0 {
			status = p.impliedStatus()
			if status == http.StatusInternalServerError && strings.TrimSpace(p.kind) == "" {
				e.Class = agent.ClassUnclear
			}
		}
		e.Status = p.status
	}
	if e.Message == "" {
		e.Message = cmp.Or(http.StatusText(status), "no text came with it")
	}
	e.Code, e.Retryable = p.classify(status)
	e.NoImages = refusesImages(e.Code, p.message)
	if e.Code == agent.ModelContextTooLong {
		e.Limit = limitOf(p.message, limitTexts...)
		if e.Limit == 0 {
			e.Limit = limitOf(p.more, limitField)
		}
	}
	return e
}

// impliedStatus guesses the status of an error that came without one.
func (p problem) impliedStatus() int {
	switch {
	case rateText.MatchString(p.kind):
		return http.StatusTooManyRequests
	case authText.MatchString(p.kind), strings.TrimSpace(p.kind) == "" && authWords.MatchString(p.message):
		return http.StatusUnauthorized
	case badText.MatchString(p.kind):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

func (p problem) classify(status int) (code string, retryable bool) {
	if tooLargeEver.MatchString(p.message) {
		return agent.ModelContextTooLong, false
	}
	if status == http.StatusTooManyRequests {
		// A used-up quota does not come back within minutes. Only this exact code
		// means that; others use the word for ordinary rate limits.
		return agent.ModelRateLimited, !strings.Contains(p.kind, "insufficient_quota")
	}
	if status == http.StatusForbidden && unknownText.MatchString(p.kind) {
		return agent.ModelUnknown, false // a key without access to the model
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusPaymentRequired {
		return agent.ModelAuth, false
	}
	if status == http.StatusRequestEntityTooLarge || tooLongText.MatchString(p.kind) || tooLongText.MatchString(p.message) {
		return agent.ModelContextTooLong, false
	}
	switch {
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return agent.ModelBadRequest, false
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == statusClientClosed, status >= 500:
		return agent.ModelOverloaded, true
	case filterText.MatchString(p.kind):
		return agent.ModelContentFilter, false
	case status == http.StatusNotFound, unknownText.MatchString(p.kind), unknownText.MatchString(p.message):
		return agent.ModelUnknown, false
	case status >= 400:
		return agent.ModelBadRequest, false
	}
	return agent.ModelBadResponse, false
}

func responseError(resp *http.Response, body []byte) *agent.ModelError {
	body = bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF"))
	p, ok := readProblem(body)
	if trimmed := bytes.TrimSpace(body); !ok && len(trimmed) > 0 {
		if trimmed[0] == '<' {
			p.message = http.StatusText(resp.StatusCode) + " (the answer is a web page)"
		} else {
			p.message = string(trimmed)
		}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		p.message = "the server redirects elsewhere"
	}
	e := p.modelError(resp.StatusCode)
	if e.Code == agent.ModelUnknown && !ok && p.message != "" {
		// No API speaks like that: a web server has nothing at this path.
		e.Code = agent.ModelBadResponse
	}
	if after, ok := retryAfter(resp.Header, time.Now()); ok {
		e.RetryAfter = after
	} else if e.RetryAfter == 0 && e.Code == agent.ModelRateLimited {
		e.RetryAfter = limitReset(resp.Header, p.message, time.Now())
	}
	switch resp.Header.Get("X-Should-Retry") { // OpenAI knows better than its status
	case "true":
		e.Retryable = true
	case "false":
		e.Retryable = false
	}
	return e
}

func clip(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7F {
			return -1 // errors are shown on terminals
		}
		return r
	}, s)
	if len(s) <= maxErrorMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorMessage], "") + " ..."
}

// finish is what a finish_reason means.
type finish struct {
	reason string // as OpenAI spells it
	code   string // error code, if the reply is unusable
	retry  bool
	class  agent.FailureClass
	text   string
}

// finishes lists the reasons in use, in lower case. Others count as "stop".
var finishes = map[string]finish{
	"length":                       {reason: "length"},
	"max_tokens":                   {reason: "length"},
	"max_output_tokens":            {reason: "length"},
	"model_length":                 {reason: "length"},
	"content_filter":               {code: agent.ModelContentFilter, text: "the provider's content filter stopped the reply"},
	"safety":                       {code: agent.ModelContentFilter, text: "the provider's safety filter stopped the reply"},
	"recitation":                   {code: agent.ModelContentFilter, text: "the provider stopped the reply for recitation"},
	"prohibited_content":           {code: agent.ModelContentFilter, text: "the provider stopped the reply for prohibited content"},
	"blocklist":                    {code: agent.ModelContentFilter, text: "the provider's block list stopped the reply"},
	"sensitive":                    {code: agent.ModelContentFilter, text: "the provider's content filter stopped the reply"},
	"error":                        {code: agent.ModelOverloaded, retry: true, text: "the provider ended the reply with an error"},
	"network_error":                {code: agent.ModelOverloaded, retry: true, text: "the provider ended the reply with a network error"},
	"insufficient_system_resource": {code: agent.ModelOverloaded, retry: true, text: "the provider ran out of resources in mid-reply"},
	"abort":                        {code: agent.ModelBrokenStream, retry: true, text: "the provider aborted the reply"},
	"cancelled":                    {code: agent.ModelBrokenStream, retry: true, text: "the provider cancelled the reply"},
	"malformed_function_call":      {code: agent.ModelBadResponse, retry: true, class: agent.ClassUnreadable, text: "the model made a malformed tool call"},
}

func finishOf(reason string) finish {
	if f, ok := finishes[strings.ToLower(reason)]; ok {
		return f
	}
	return finish{reason: "stop"}
}
