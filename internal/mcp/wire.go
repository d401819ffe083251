package mcp

import (
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

// RoundTrip adds the headers, which may hold secrets: to this server only.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == w.host.Host && r.URL.Scheme == w.host.Scheme {
		r = r.Clone(r.Context())
		for k, v := range w.c.Headers {
			r.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.refused.Store(0)
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		w.refused.Store(int64(resp.StatusCode))
	}
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = &boundedBody{resp.Body, stream, longestMessage}
	return resp, nil
}

// boundedBody ends with an error after so many bytes, in a stream without an end of
// line: a stream may be long, a message may not. They count as they are inflated.
type boundedBody struct {
	io.ReadCloser
	stream bool
	left   int
}

var errMessageTooLong = fmt.Errorf("the server sent a message of more than %d MB", longestMessage>>20)

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	for i := n - 1; b.stream && i >= 0; i-- {
		if p[i] == '\n' {
			b.left = longestMessage - (n - 1 - i)
			break
		}
	}
	if b.left < 0 {
		return n, errMessageTooLong
	}
	return n, err
}

func (w *wire) transport() sdk.Transport {
	client := &http.Client{
		Transport: w,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 5 {
				return errors.New("stopped after 5 redirects")
			}
			return nil
		},
	}
	if w.c.Kind == kindSSE {
		return &sdk.SSEClientTransport{Endpoint: w.c.URL, HTTPClient: client, MaxEventSize: longestMessage}
	}
	return &sdk.StreamableClientTransport{Endpoint: w.c.URL, HTTPClient: client, MaxEventSize: longestMessage}
}

// explain adds what to do about a refusal.
func (w *wire) explain(err error) error {
	if status := w.refused.Load(); status != 0 {
		return fmt.Errorf("it refused the request (%d %s): check its headers in %s (%w)", status, http.StatusText(int(status)), w.c.File, err)
	}
	return err
}
