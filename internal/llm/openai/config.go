// Package openai is the agent.Model for servers that speak the OpenAI chat
// completions API.
//
// The wire is hostile: streams end without saying so, tool calls lack an index,
// errors hide in HTTP 200, proxies send HTML. All of it is dealt with in one
// place, the HTTP doer under the go-openai client (type wire): it sends a
// request body that go-openai's types cannot express and turns whatever comes
// back into one clean stream, or into a typed *agent.ModelError. Above it
// go-openai sees regular chunks and [DONE] after a complete reply only.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// Defaults of Config.
const (
	DefaultBaseURL       = "https://api.openai.com/v1"
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultReplyTimeout  = 10 * time.Minute
	DefaultMaxReplyBytes = 8 << 20 // about two million tokens, more than any model writes
	DefaultMaxEventBytes = 8 << 20
)

// Config describes a provider. The zero value of every field has a default;
// only Model is needed, unless each request names its model.
type Config struct {
	// BaseURL ends before /chat/completions, e.g. "https://api.openai.com/v1". It
	// may have a query, which is sent with each request.
	BaseURL string
	// APIKey is sent as a bearer token. It never appears in errors.
	APIKey string
	// Model is used for requests that name none.
	Model string
	// IdleTimeout is how long a streamed reply may send nothing at all, not even
	// a comment, before or between its pieces.
	IdleTimeout time.Duration
	// ReplyTimeout takes the place of IdleTimeout for a request that is not
	// streamed: nothing arrives until the whole reply is made.
	ReplyTimeout time.Duration
	// MaxReplyBytes bounds the text, reasoning and arguments of one reply.
	MaxReplyBytes int
	// MaxEventBytes bounds one event of a stream. Most hold a few words, but the
	// arguments of a call may come in one.
	MaxEventBytes int
	// Headers are added to each request. Their values, too, stay out of errors.
	Headers map[string]string
	// HTTPClient replaces the default client. Its Timeout should be 0.
	HTTPClient *http.Client
	// Transport, if not nil, wraps the client's transport, for instance to log.
	Transport func(http.RoundTripper) http.RoundTripper
	// Quirks replaces what would be derived from the base URL and the model.
	Quirks *Quirks
}

// Model talks to one provider. Safe for concurrent use.
type Model struct {
	cfg    Config
	host   string
	at     string // host and port, for people
	client *goopenai.Client
}

var _ agent.Model = (*Model)(nil)

// New checks the configuration; it does not connect.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	// People paste the full address of the endpoint.
	base, query, _ := strings.Cut(strings.TrimSpace(cfg.BaseURL), "?")
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(base, "/"), "/chat/completions")
	cfg.APIKey = strings.TrimSpace(cfg.APIKey)
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The parse error is left out: the text may hold credentials.
		return nil, agent.Errorf(agent.CodeInvalid, "the base URL of the model provider is not valid: want http(s)://host/path")
	}
	if strings.ContainsAny(cfg.APIKey, "\r\n\x00") {
		return nil, agent.Errorf(agent.CodeInvalid, "the API key of %s holds a line break", u.Host)
	}
	if cfg.IdleTimeout < 0 || cfg.ReplyTimeout < 0 || cfg.MaxReplyBytes < 0 || cfg.MaxEventBytes < 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "timeouts and limits of the model provider must not be negative")
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.ReplyTimeout == 0 {
		cfg.ReplyTimeout = max(DefaultReplyTimeout, cfg.IdleTimeout)
	}
	if cfg.MaxReplyBytes == 0 {
		cfg.MaxReplyBytes = DefaultMaxReplyBytes
	}
	if cfg.MaxEventBytes == 0 {
		// Escaped text takes up to six bytes for one.
		cfg.MaxEventBytes = min(DefaultMaxEventBytes, 6*cfg.MaxReplyBytes+1<<20)
	}
	client := goopenai.DefaultConfig(cfg.APIKey)
	client.BaseURL = cfg.BaseURL
	under := httpClient(cfg.HTTPClient)
	if cfg.Transport != nil {
		if under.Transport == nil {
			under.Transport = http.DefaultTransport
		}
		under.Transport = cfg.Transport(under.Transport)
	}
	client.HTTPClient = &wire{client: under, cfg: cfg, query: query}
	return &Model{cfg: cfg, host: u.Hostname(), at: u.Host, client: goopenai.NewClientWithConfig(client)}, nil
}

// dialer makes connections that end when the other side has vanished for 15 s, whether it
// was asked something or an answer was waited for.
var dialer = &net.Dialer{
	Timeout:         10 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2},
	Control: func(_, _ string, c syscall.RawConn) error {
		if runtime.GOOS != "linux" {
			return nil
		}
		const userTimeout = 18 // TCP_USER_TIMEOUT, in milliseconds
		var set error
		err := c.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, 15_000) })
		return errors.Join(err, set)
	},
}

// httpClient returns a copy of given, or the default, that follows no redirect:
// a redirected POST loses its body or its key.
func httpClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	} else {
		c.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 15 * time.Second,
			// A dead HTTP/2 connection would otherwise be reused by every retry.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		}
	}
	if c.CheckRedirect == nil {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return &c
}

// hide removes secrets from a text of the provider or of the network.
func (c *Config) hide(text string) string {
	const shortest = 8 // a shorter header value is no secret, but may be a word
	if c.APIKey != "" {
		text = strings.ReplaceAll(text, c.APIKey, "[key]")
	}
	for _, v := range c.Headers {
		if len(v) >= shortest {
			text = strings.ReplaceAll(text, v, "[header]")
		}
	}
	return agent.MaskSecrets(text) // also a key that the provider knows better than we do
}

// networkText is the text of a network error without the URL, which may hold
// credentials.
func networkText(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Sprint(u.Err)
	}
	return err.Error()
}

// Generate makes one call and never repeats it. See agent.Model.
func (m *Model) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	model := r.Model
	if model == "" {
		model = m.cfg.Model
	}
	at := agent.ModelPlace{Provider: m.at}
	if model == "" {
		return agent.ModelReply{}, &agent.ModelError{
			Code: agent.ModelBadRequest, At: at, Message: "no model is set",
			ToDo: "set SPOOL_MODEL in the worker's environment, or a model in the agent's file",
		}
	}
	body, err := encode(model, m.quirks(model), r)
	if err != nil {
		return agent.ModelReply{}, &agent.ModelError{Code: agent.ModelBadRequest, Model: model, At: at, Message: "the request cannot be encoded: " + err.Error()}
	}
	x := &exchange{body: body, stream: r.Stream}
	if r.Meta.TurnID != "" {
		x.requestID = fmt.Sprintf("%s.%d.%d", r.Meta.TurnID, r.Meta.Step, r.Meta.Attempt)
	}
	if !r.Stream {
		onDelta = nil
	}
	reply, err := m.receive(context.WithValue(ctx, exchangeKey{}, x), model, x, onDelta)
	reply.Usage, reply.At = x.usage, at
	reply.Usage.Requests = 1
	if err == nil {
		return reply, nil
	}
	reply.Charged = x.sent.Load() && !x.refused
	if ctx.Err() != nil {
		return reply, ctx.Err()
	}
	e := asModelError(err)
	if e == nil { // go-openai's own checks
		e = &agent.ModelError{Code: agent.ModelBadRequest, Message: m.cfg.hide(err.Error())}
	}
	e.Model, e.At = model, at
	return reply, e
}

func (m *Model) quirks(model string) Quirks {
	if m.cfg.Quirks != nil {
		return *m.cfg.Quirks
	}
	return QuirksOf(m.host, model)
}

// receive reads the clean stream that wire provides, also for requests that are
// not streamed.
func (m *Model) receive(ctx context.Context, model string, x *exchange, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	// wire puts the real body in; go-openai makes the request's head only, as
	// its own checks would refuse what providers accept.
	stream, err := m.client.CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{Model: model})
	if err != nil {
		return agent.ModelReply{}, err
	}
	defer func() { _ = stream.Close() }()
	var a assembly
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return a.reply(x)
		}
		if err != nil {
			return a.arrived(x), err
		}
		if d := a.add(c); onDelta != nil && d != (agent.Delta{}) {
			if err := ctx.Err(); err != nil {
				return a.arrived(x), err
			}
			onDelta(d)
		}
	}
}

type assembly struct {
	text, reasoning strings.Builder
	calls           []agent.Call
	reason, model   string
}

func (a *assembly) add(c goopenai.ChatCompletionStreamResponse) agent.Delta {
	if c.Model != "" {
		a.model = c.Model
	}
	var d agent.Delta
	for _, ch := range c.Choices {
		d.Text += ch.Delta.Content
		d.Reasoning += ch.Delta.ReasoningContent
		for _, c := range ch.Delta.ToolCalls { // wire sends them whole, in order of appearance
			a.calls = append(a.calls, agent.NewCall(c.ID, c.Function.Name, c.Function.Arguments))
		}
		if ch.FinishReason != "" && ch.FinishReason != goopenai.FinishReasonNull {
			a.reason = string(ch.FinishReason)
		}
	}
	a.text.WriteString(d.Text)
	a.reasoning.WriteString(d.Reasoning)
	return d
}

// arrived is what there is of a reply that failed, for counting.
func (a *assembly) arrived(x *exchange) agent.ModelReply {
	for _, c := range x.calls {
		a.text.WriteString("\n" + c.name + " ")
		a.text.WriteString(c.text())
	}
	return agent.ModelReply{Content: strings.ToValidUTF8(a.text.String(), replacement), Reasoning: a.reasoning.String(), Model: a.model}
}

// reply checks a complete stream. Arguments that were cut are an error; a call that
// says nothing at all is none.
func (a *assembly) reply(x *exchange) (agent.ModelReply, error) {
	r := agent.ModelReply{
		Content: a.text.String(), Reasoning: a.reasoning.String(), FinishReason: a.reason, Model: a.model,
	}
	if r.FinishReason == agent.FinishLength && (len(a.calls) > 0 || r.Content == "") {
		what := "before any text"
		if len(a.calls) > 0 {
			what = "within a tool call"
		}
		return a.arrived(x), &agent.ModelError{Code: agent.ModelCutOff, Message: "the reply reached its token limit " + what}
	}
	for i, c := range a.calls {
		if c.ID+c.Function.Name == "" && x.calls[i].text() == "" {
			continue
		}
		c.Extra = agent.HarmlessJSON(x.extra[i])
		r.Calls = append(r.Calls, c)
	}
	if len(r.Calls) > 0 {
		r.FinishReason = "tool_calls" // some say "stop"
	} else if r.FinishReason == "" {
		r.FinishReason = "stop"
	}
	return r, nil
}
