package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// graceAfterFinish is how long a stream may stay silent after the finish reason:
// usage and [DONE] follow at once, or never.
const graceAfterFinish = 10 * time.Second

// exchange is what Generate and wire tell each other about one call, through
// the request's context.
type exchange struct {
	body      []byte // the request as it goes out
	stream    bool
	requestID string

	// Written by wire while the body is read, by the goroutine that reads it.
	usage agent.Usage
	calls []*openCall
	extra map[int][]byte // extra_content by index of the call

	sent    atomic.Bool // the provider has the request
	refused bool        // and did nothing for it
}

type exchangeKey struct{}

// wire is the HTTP doer of the go-openai client.
type wire struct {
	client *http.Client
	cfg    Config
	query  string // of the base URL; go-openai would put the path behind it
}

var _ goopenai.HTTPDoer = (*wire)(nil)

var errSilent = errors.New("silent")

// azureHost matches hosts that take the key in a header of their own.
var azureHost = regexp.MustCompile(`\.azure\.com$|\.azure-api\.net$`)

// Do sends the exchange's request. Its response always is a clean event stream
// of go-openai's chunks; everything else is a *agent.ModelError, either here or
// while the body is read.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("a request without its exchange")
	}
	ctx, cancel := context.WithCancelCause(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.sent.Store(info.Err == nil) },
	}))
	req = req.WithContext(ctx)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	req.Header.Del("Connection")
	if !x.stream {
		req.Header.Set("Accept", "application/json")
	}
	if x.requestID != "" {
		req.Header.Set("X-Client-Request-Id", x.requestID)
	}
	if azureHost.MatchString(req.URL.Hostname()) && w.cfg.APIKey != "" {
		req.Header.Set("Api-Key", w.cfg.APIKey)
	}
	for k, v := range w.cfg.Headers {
		req.Header.Set(k, v)
	}
	req.URL.RawQuery = w.query

	idle := w.cfg.IdleTimeout
	if !x.stream {
		idle = w.cfg.ReplyTimeout
	}
	watched := &watchedReader{ctx: ctx, cancel: cancel, idle: idle}
	watched.timer = time.AfterFunc(idle, func() { cancel(errSilent) })
	resp, err := w.client.Do(req)
	watched.timer.Stop()
	if err != nil {
		x.refused = ctx.Err() == nil // else it was at work
		err = w.failure(ctx, idle, err, true)
		cancel(nil)
		return nil, err
	}
	x.sent.Store(true)
	watched.r = resp.Body
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer cancel(nil)
		defer func() { _ = resp.Body.Close() }()
		x.refused = true
		// A broken error body still has a status.
		body, _ := readAll(unzipped(watched), maxErrorBody)
		return nil, w.hidden(responseError(resp, body))
	}
	n := &normaliser{x: x, limit: w.cfg.MaxReplyBytes, most: w.cfg.MaxEventBytes}
	n.fail = func(err error) error { return w.failure(ctx, watched.idle, err, false) }
	n.finished = func() { watched.idle = min(watched.idle, graceAfterFinish) }
	n.source = func() (event, error) { return event{}, io.EOF }
	clean := &cleanBody{n: n, hide: w.hidden, close: func() error {
		if n.ended {
			drain(resp.Body, cancel)
		}
		cancel(nil)
		return resp.Body.Close()
	}}
	clean.open = func() error { return n.open(unzipped(watched)) }
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Header: resp.Header, Body: clean, Request: req,
		Proto: resp.Proto, ProtoMajor: resp.ProtoMajor, ProtoMinor: resp.ProtoMinor, ContentLength: -1,
	}, nil
}

// drain reads what follows [DONE], normally nothing but the end of the body:
// only then can the connection serve the next call.
func drain(body io.Reader, cancel context.CancelCauseFunc) {
	const patience, most = 200 * time.Millisecond, 64 << 10
	t := time.AfterFunc(patience, func() { cancel(nil) })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, body, most) // the reply is complete, whatever happens
}

// hidden removes secrets from the message of a ModelError, then shortens it: a
// secret must not be cut out of its mask.
func (w *wire) hidden(err error) error {
	var m *agent.ModelError
	if errors.As(err, &m) {
		m.Message = w.cfg.hide(m.Message)
		if m.Code == agent.ModelAuth {
			m.Message = agent.MaskTokens(m.Message)
		}
		m.Message = cmp.Or(clip(m.Message), "no text came with it")
	}
	return err
}

// failure types an error of the network. connecting: no response came yet.
func (w *wire) failure(ctx context.Context, idle time.Duration, err error, connecting bool) error {
	var already *agent.ModelError
	switch cause := context.Cause(ctx); {
	case errors.As(err, &already):
		return err
	case errors.Is(cause, errSilent):
		return &agent.ModelError{Code: agent.ModelIdleTimeout, Retryable: true, Message: "the provider sent nothing for " + idle.String()}
	case cause != nil:
		return ctx.Err() // the caller's
	case errors.Is(err, errEventTooLong):
		return tooLarge("event of the reply", w.cfg.MaxEventBytes)
	case errors.Is(err, errTooLong):
		return tooLarge("reply", w.cfg.MaxReplyBytes)
	case errors.Is(err, errUnreadable):
		return unreadable(w.cfg.hide(err.Error()))
	}
	text := w.cfg.hide(networkText(err))
	var op *net.OpError
	var dns *net.DNSError
	if connecting && insecure(err) {
		return &agent.ModelError{
			Code: agent.ModelUnreachable, Retryable: true, Class: agent.ClassInsecure,
			Message: text,
		}
	}
	if connecting && (errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")) {
		return &agent.ModelError{Code: agent.ModelUnreachable, Retryable: true, Message: text}
	}
	if connecting && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &op) {
		return &agent.ModelError{Code: agent.ModelUnreachable, Retryable: true, Message: "no HTTP answer came: " + text}
	}
	return broken("the connection broke: " + text)
}

func broken(message string) *agent.ModelError {
	return &agent.ModelError{Code: agent.ModelBrokenStream, Retryable: true, Message: message}
}

// unreadable is a reply that cannot be used, and will hardly be better next time.
func unreadable(message string) *agent.ModelError {
	e := broken(message)
	e.Class = agent.ClassUnreadable
	return e
}

func tooLarge(what string, limit int) *agent.ModelError {
	return &agent.ModelError{
		Code: agent.ModelBadResponse, Message: fmt.Sprintf("one %s is larger than %d bytes, the most that is read", what, limit),
		ToDo: "have the model write less at a time, or set maxTokens in the agent's file",
	}
}

// insecure reports whether a connection failed for its certificate, or speaks no TLS.
func insecure(err error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &cert) || errors.As(err, &record) || strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// unzipped is a body's reader. Some servers and proxies compress without being asked,
// or without saying so, which net/http leaves as it is.
func unzipped(r io.Reader) *bufio.Reader {
	plain := bufio.NewReader(r)
	if magic, err := plain.Peek(2); err != nil || magic[0] != 0x1F || magic[1] != 0x8B {
		return plain // an error shows again
	}
	z, err := gzip.NewReader(plain)
	if err != nil {
		return bufio.NewReader(failing{err})
	}
	return bufio.NewReader(z)
}

// failing is a reader that has nothing but its error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// watchedReader cancels the request when one read lasts too long. Time the
// consumer takes between reads does not count.
type watchedReader struct {
	r      io.Reader
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func (w *watchedReader) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	w.timer.Reset(w.idle)
	n, err := w.r.Read(p)
	w.timer.Stop()
	return n, err
}

type cleanBody struct {
	n       *normaliser
	open    func() error
	close   func() error
	hide    func(error) error
	opened  bool
	pending []byte
	err     error
}

func (c *cleanBody) Read(p []byte) (int, error) {
	if !c.opened {
		c.opened = true
		c.err = c.open()
	}
	for len(c.pending) == 0 {
		if c.err != nil {
			return 0, c.hide(c.err)
		}
		c.pending, c.err = c.n.next()
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (c *cleanBody) Close() error { return c.close() }
