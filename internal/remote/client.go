// Package remote is the Go client of Spool behind a web server: it does over HTTP
// what spool.Client does on a store, for machines that reach neither store nor
// Temporal. Requests that may be repeated are, while a server cannot be reached for a moment;
// what follows a thread goes on where it was.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

const (
	// tries bounds how often a request is made, the pauses between grow from
	// firstPause.
	tries      = 6
	firstPause = 100 * time.Millisecond
	// requestTime bounds one request but those that wait.
	requestTime = 90 * time.Second
	// longest bounds what a server sends in answer to one request, longestEvent one
	// event of a stream, in bytes.
	longest      = 128 << 20
	longestEvent = 64 << 20
)

// nested bounds how deep an answer may be nested.
var nested = agent.JSONLimit{Depth: 400}

// Client talks to one server as the user of its token. Its methods are safe for
// concurrent use and fail with the codes of package agent, as those of
// spool.Client do; a server that cannot be reached is CodeUnavailable.
type Client struct {
	base, token string
	http        *http.Client
}

// New makes a client of the server at an address such as http://host:8080.
func New(address, token string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, agent.Errorf(agent.CodeInvalid, "the address of a web server is an http:// or https:// URL")
	}
	if token == "" {
		return nil, agent.Errorf(agent.CodeInvalid, "the web server at %s needs a token: give the whole link that it printed, or set SPOOL_SERVER_TOKEN", u.Host)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // what it sends is as long as it says
	return &Client{base: strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"), token: token, http: &http.Client{
		Transport: transport,
		// A redirect would lead to a page, not to an answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Connected reports that messages are run: the server says otherwise with each.
func (c *Client) Connected() bool { return true }

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (out T, err error) {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	err = c.repeat(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func list[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, error) {
	doc, err := get[map[string][]T](ctx, c, path, q)
	for _, l := range doc {
		return l, err
	}
	return nil, err
}

// post makes a request that changes something and may be repeated.
func post[T any](ctx context.Context, c *Client, path string, body any) (out T, err error) {
	err = c.repeat(ctx, http.MethodPost, path, body, &out)
	return out, err
}

// repeat makes a request that may be repeated until it is answered.
func (c *Client) repeat(ctx context.Context, method, path string, body, into any) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := c.once(ctx, method, path, body, into)
		if err == nil || n == tries || ctx.Err() != nil || agent.CodeOf(err) != agent.CodeUnavailable {
			return err
		}
		if l := (later{}); errors.As(err, &l) {
			pause = max(pause, l.after)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// later is a refusal that says when to try again.
type later struct {
	error
	after time.Duration
}

func (l later) Unwrap() error { return l.error }

func (c *Client) once(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, longest+1))
	if err != nil {
		return c.unreachable(err)
	}
	if len(raw) > longest {
		return c.tooLong(longest)
	}
	if err = nested.Check(raw); err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err == nil && string(bytes.TrimSpace(raw)) == "null" {
		err = errors.New("it is null")
	}
	if err != nil {
		return agent.Wrap(err, agent.CodeInternal, "the answer of %s is not what this program knows: do its versions fit?", c.base)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "the request cannot be written as JSON")
		}
		in = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, in)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the request cannot be made")
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(r)
	if err != nil {
		if parent := ctx.Err(); errors.Is(parent, context.Canceled) {
			return nil, parent
		}
		return nil, c.unreachable(err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		err := c.failure(res)
		if seconds, none := strconv.Atoi(res.Header.Get("Retry-After")); none == nil {
			err = later{err, time.Duration(min(seconds, 10)) * time.Second}
		}
		return nil, err
	}
	return res, nil
}

func (c *Client) tooLong(limit int) error {
	return agent.Errorf(agent.CodeInternal, "%s sent more than %d MiB: is it a web server of Spool?", c.base, limit>>20)
}

// unreachable says that the server cannot be reached, without the address twice.
func (c *Client) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return agent.Wrap(err, agent.CodeUnavailable, "the web server at %s cannot be reached", c.base)
}

// known are the codes of errors that both sides know.
var known = []agent.Code{agent.CodeInvalid, agent.CodeNotFound, agent.CodeConflict, agent.CodeLimit, agent.CodeUnavailable, agent.CodeStale, agent.CodeForeign, agent.CodeInternal}

// codes of failures that only HTTP has.
var codes = map[int]agent.Code{
	http.StatusUnauthorized:          agent.CodeInvalid,
	http.StatusForbidden:             agent.CodeInvalid,
	http.StatusNotFound:              agent.CodeNotFound,
	http.StatusTooManyRequests:       agent.CodeUnavailable,
	http.StatusBadGateway:            agent.CodeUnavailable,
	http.StatusServiceUnavailable:    agent.CodeUnavailable,
	http.StatusGatewayTimeout:        agent.CodeUnavailable,
	http.StatusRequestEntityTooLarge: agent.CodeInvalid,
}

func (c *Client) failure(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var doc errorDocument
	if err != nil || json.Unmarshal(raw, &doc) != nil || doc.Error.Message == "" {
		return agent.Errorf(cmp.Or(codes[res.StatusCode], agent.CodeInternal), "%s answered %s: is it a web server of Spool?", c.base, res.Status)
	}
	return doc.err(res.StatusCode)
}

type errorDocument struct {
	Error struct {
		Code      string                  `json:"code"`
		Message   string                  `json:"message"`
		Pending   []spool.ApprovalRequest `json:"pending"`
		Questions []spool.QuestionRequest `json:"questions"`
	} `json:"error"`
}

func (d errorDocument) err(status int) error {
	code := agent.Code(d.Error.Code)
	if !slices.Contains(known, code) {
		code = cmp.Or(codes[status], agent.CodeInvalid)
	}
	err := agent.Errorf(code, "%s", d.Error.Message)
	if len(d.Error.Pending)+len(d.Error.Questions) > 0 {
		return spool.NewPendingError(d.Error.Pending, d.Error.Questions, err)
	}
	return err
}

func threadPath(id string, rest string) string {
	return "/api/v1/threads/" + url.PathEscape(id) + rest
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
