package telemetry_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory/sqlite"
	"github.com/spool-agents/spool/workflows"
)

// Recorded histories replay with the interceptor as without, and tell nothing.
func TestHistoriesReplayWithTelemetry(t *testing.T) {
	store, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	require.NoError(t, err)
	defer store.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(telemetry.IDs{}))
	told, err := telemetry.New(telemetry.Options{Tracers: provider, Store: store})
	require.NoError(t, err)
	require.False(t, told.Foreign())
	defer told.Close()
	files, err := filepath.Glob("../../workflows/testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	text, err := os.ReadFile("../../workflows/testdata/keys")
	require.NoError(t, err)
	keys, err := encryption.Load(string(text))
	require.NoError(t, err)
	var o client.Options
	keys.ApplyToWorker(&o)
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		Interceptors: told.Interceptor(), DataConverter: o.DataConverter, FailureConverter: o.FailureConverter,
	})
	require.NoError(t, err)
	workflows.Register(r)
	for _, f := range files {
		require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f), f)
	}
	require.Empty(t, spans.GetSpans())
}

// A provider that was made without our ids is noticed.
func TestForeignProvider(t *testing.T) {
	store, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	require.NoError(t, err)
	defer store.Close()
	told, err := telemetry.New(telemetry.Options{Tracers: sdktrace.NewTracerProvider(), Store: store})
	require.NoError(t, err)
	defer told.Close()
	require.True(t, told.Foreign())
	var off *telemetry.Telemetry
	off.Close()
	require.Empty(t, off.Interceptor())
	ctx, tool := off.Tool(context.Background(), telemetry.ToolCall{})
	require.NotNil(t, ctx)
	tool.End(nil)
}
