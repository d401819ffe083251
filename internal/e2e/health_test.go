package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/health"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// anyPort has a worker answer about its health.
const anyPort = "SPOOL_HEALTH_ADDRESS=127.0.0.1:0"

var answersAt = regexp.MustCompile(`health is answered" address=(\S+)`)

// askHealth reads a path of a worker started with anyPort.
func askHealth(t *testing.T, w *tt.Process, path string) (status int, body string) {
	t.Helper()
	tt.Eventually(t, "health is answered", func() bool { return answersAt.MatchString(w.Log()) })
	return fetch(t, "http://"+answersAt.FindStringSubmatch(w.Log())[1]+path, "")
}

func fetch(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func readiness(t *testing.T, w *tt.Process) (status int, r health.Report) {
	t.Helper()
	status, body := askHealth(t, w, "/readyz")
	require.NoError(t, json.Unmarshal([]byte(body), &r), body)
	return status, r
}

// A worker says that it lives, which of its parts is missing, and what it has counted.
func TestAWorkerTellsHowItIs(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	w := s.StartWorker(anyPort)
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
	status, r := readiness(t, w)
	require.Equal(t, http.StatusOK, status, r)
	require.True(t, r.Ready)
	for _, part := range []string{"store", "temporal", "disk", "worker", "model"} {
		require.True(t, r.Parts[part].OK, part)
	}
	for _, name := range []string{`spool_turns_total{`, "spool_turn_duration_seconds_bucket{", "spool_turns_open ", "gen_ai_client_operation_duration_seconds_count{", "temporal_"} {
		tt.Eventually(t, name+" is counted", func() bool {
			_, text := askHealth(t, w, "/metrics")
			return strings.Contains(text, name)
		})
	}

	server.Kill()
	tt.Eventually(t, "Temporal is missing", func() bool {
		status, r = readiness(t, w)
		return status == http.StatusServiceUnavailable && !r.Parts["temporal"].OK && r.Parts["store"].OK
	})
	status, _ = askHealth(t, w, "/livez")
	require.Equal(t, http.StatusOK, status)
	server.Restart(t)
	tt.Eventually(t, "Temporal is back", func() bool { status, _ = readiness(t, w); return status == http.StatusOK })
}

// So does a web server, at its own port: what is counted only to its users.
func TestAWebServerTellsHowItIs(t *testing.T) {
	s := stack(t)
	web := s.StartWeb()
	status, body := fetch(t, web.URL+"/readyz", "")
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"ready":true,"parts":{"store":true,"temporal":true,"worker":false}}`, body, "it is ready without workers, and says so")
	status, _ = fetch(t, web.URL+"/livez", "")
	require.Equal(t, http.StatusOK, status)
	status, _ = fetch(t, web.URL+"/metrics", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, body = fetch(t, web.URL+"/metrics", tt.WebToken)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "target_info")
}
