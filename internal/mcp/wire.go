package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// wire is the HTTP side of a server: its headers, and the last refusal.
type wire struct {
	c       ServerConfig
	host    *url.URL
	refused atomic.Int64 // status of the last answer if it was 401 or 403
}

func newWire(c ServerConfig) (*wire, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", c.URL, err)
	}
	return &wire{c: c, host: u}, nil
}

// RoundTrip adds the headers, which may hold secrets. A redirect, or an endpoint that the
// server names, leads to no other server: a person has agreed to this one.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.host.Host || r.URL.Scheme != w.host.Scheme {
		return nil, fmt.Errorf("it leads to %s://%s, which is another server: if that is meant, make it the url in %s", r.URL.Scheme, r.URL.Host, w.c.File)
	}
	r = r.Clone(r.Context())
	for k, v := range w.c.Headers {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.refused.Store(0)
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		w.refused.Store(int64(resp.StatusCode))
	}
	limit := &io.LimitedReader{R: resp.Body, N: longestMessage}
	resp.Body = &messages{resp.Body, limit, bufio.NewReader(limit), strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"), nil}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

// messages is a body, each of its messages prepared for the SDK. A stream may be long; a
// message that is too long, once it is inflated, is an error.
type messages struct {
	io.Closer
	limit  *io.LimitedReader
	from   *bufio.Reader
	stream bool
	next   []byte
}

var errMessageTooLong = fmt.Errorf("the server sent a message of more than %d MB", longestMessage>>20)

func (b *messages) Read(p []byte) (n int, err error) {
	if len(b.next) == 0 {
		b.limit.N = longestMessage
		if b.stream {
			b.next, err = b.from.ReadBytes('\n')
		} else {
			b.next, err = io.ReadAll(b.from)
		}
		switch data, isData := bytes.CutPrefix(b.next, []byte("data:")); {
		case b.limit.N <= 0:
			return 0, errMessageTooLong
		case err != nil && (!errors.Is(err, io.EOF) || len(b.next) == 0):
			return 0, err
		case !b.stream:
			b.next = exactly(b.next)
		case isData:
			b.next = fmt.Appendf(nil, "data: %s\n", exactly(bytes.TrimSpace(data)))
		}
	}
	if len(b.next) == 0 {
		return 0, io.EOF
	}
	n = copy(p, b.next)
	b.next = b.next[n:]
	return n, nil
}

func (w *wire) transport() sdk.Transport {
	client := &http.Client{Transport: w}
	if w.c.Kind == kindSSE {
		return &sdk.SSEClientTransport{Endpoint: w.c.URL, HTTPClient: client, MaxEventSize: longestMessage}
	}
	return &sdk.StreamableClientTransport{Endpoint: w.c.URL, HTTPClient: client, MaxEventSize: longestMessage}
}

func (w *wire) explain(err error) error {
	if status := w.refused.Load(); status != 0 {
		return fmt.Errorf("it refused the request (%d %s): check its headers in %s (%w)", status, http.StatusText(int(status)), w.c.File, err)
	}
	return err
}
