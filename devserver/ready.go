package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	readyTimeout  = 60 * time.Second
	probeInterval = 5 * time.Millisecond
	// probeTimeout bounds one attempt: a request that came too early may hang
	// on a connection that is being backed off.
	probeTimeout = 2 * time.Second
	// frontendService is the name under which the frontend reports its health.
	frontendService = "temporal.api.workflowservice.v1.WorkflowService"
)

// permanent marks an error that does not go away by trying again.
type permanent struct{ error }

// Unwrap returns the marked error.
func (p permanent) Unwrap() error { return p.error }

// readiness is the ready line.
type readiness struct {
	Temporal  string `json:"temporal"`
	UI        string `json:"ui"`
	Namespace string `json:"namespace"`
	DB        string `json:"db"`
	PID       int    `json:"pid"`
}

// awaitReady returns nil when a client can start a workflow and the UI answers.
func awaitReady(ctx context.Context, r readiness) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{
		HostPort:  r.Temporal,
		Namespace: r.Namespace,
		Logger:    sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return fmt.Errorf("make a client for %s: %w", r.Temporal, err)
	}
	defer c.Close()
	conn, err := grpc.NewClient(r.Temporal, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: probeInterval, MaxDelay: 10 * probeInterval, Multiplier: 1.5}}))
	if err != nil {
		return fmt.Errorf("make a connection to %s: %w", r.Temporal, err)
	}
	defer func() { _ = conn.Close() }()
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return health(ctx, conn) },
		func(ctx context.Context) error { return prepareNamespace(ctx, c, r.Namespace) },
		func(ctx context.Context) error { return probe(ctx, c, r.Namespace) },
		func(ctx context.Context) error { return answers(ctx, r.UI) },
	}
	for _, step := range steps {
		if err := until(ctx, step); err != nil {
			return fmt.Errorf("the Temporal server at %s did not get ready: %w", r.Temporal, err)
		}
	}
	return nil
}

// health asks the frontend by plain gRPC: a Temporal client's first call comes
// with one more that the server logs as an error until it is healthy.
func health(ctx context.Context, conn *grpc.ClientConn) error {
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: frontendService})
	if err != nil {
		return fmt.Errorf("check the frontend's health: %w", err)
	}
	if answer.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("check the frontend's health: it is %s", answer.Status)
	}
	return nil
}

// answers checks the web UI; no address means that there is none.
func answers(ctx context.Context, ui string) error {
	if ui == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ui+"/healthz", nil)
	if err != nil {
		return permanent{err}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the web UI: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the web UI: %s answers %s", request.URL, response.Status)
	}
	return nil
}

// until repeats step until it succeeds, fails for good, or ctx ends; then it
// returns the step's last error rather than the context's.
func until(ctx context.Context, step func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		err := step(attempt)
		cancel()
		var final permanent
		if err == nil || errors.As(err, &final) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(probeInterval):
		}
	}
}
