package health

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Handler answers /livez, /readyz and, unless metrics is nil, /metrics.
func Handler(m *Monitor, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]bool{"alive": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := m.Look()
		answer(w, Status(r), r)
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

// Status is the HTTP status of a report.
func Status(r Report) int {
	if r.Ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // an error here means that the client has left
}

// Later is a handler that another one takes the place of.
type Later struct{ now atomic.Pointer[http.Handler] }

// NotConnected answers for a program that waits for Temporal, until Use.
func NotConnected() *Later {
	l := &Later{}
	l.Use(Handler(New(Part{Name: TemporalPart, Check: func(context.Context) error { return errors.New("not connected yet") }}), nil))
	return l
}

// Use makes h answer.
func (l *Later) Use(h http.Handler) { l.now.Store(&h) }

func (l *Later) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*l.now.Load()).ServeHTTP(w, r) }

// Serve answers at an address until ctx ends. An address that is taken, by a worker
// that this one replaces for instance, is tried again.
func Serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) {
	for told := false; ; {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			log.Info("health is answered", "address", l.Addr().String())
			s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
			defer context.AfterFunc(ctx, func() { _ = s.Close() })()
			_ = s.Serve(l) // ends with Close
			return
		}
		if !told {
			told = true
			log.Warn("health cannot be answered; it is tried again", "address", address, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
