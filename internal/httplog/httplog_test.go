package httplog_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/httplog/httplogtest"
	"github.com/spool-agents/spool/internal/llm/openai"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// threads knows all threads but one.
type threads struct{}

func (threads) Thread(_ context.Context, _, id string) (agent.Thread, error) {
	session, found := strings.CutSuffix(id, "/default")
	if !found || session == "gone" {
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "thread %q does not exist", id)
	}
	return agent.Thread{ID: id, SessionID: session, Profile: "work"}, nil
}

// TestRow40_BrokenCallsHaveLines: a stream that breaks off, a server that is not
// there, a call of a thread that is gone. None of it hinders the call.
func TestRow40_BrokenCallsHaveLines(t *testing.T) {
	const secret = "sk-0123456789abcdef0123"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"half of %s\"}}]}\n\n", secret)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	var reports []string
	log := &httplog.Log{Home: t.TempDir(), Threads: threads{}, Secrets: []string{secret}, Report: func(err error) { reports = append(reports, err.Error()) }}
	for url, thread := range map[string]string{server.URL: "s1/default", "http://127.0.0.1:1": "s1/default", server.URL + "/v1": "gone/default"} {
		model, err := openai.New(openai.Config{BaseURL: url, APIKey: secret, Model: "m", Transport: log.Transport})
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.Model(model).Generate(t.Context(), agent.ModelRequest{
			Messages: []agent.Message{{Role: agent.RoleUser, Content: agent.Text("hi")}}, Stream: true, Meta: agent.CallMeta{ThreadID: thread, TurnID: "t1", Step: 1, Attempt: 2},
		}, func(agent.Delta) {})
		var failed *agent.ModelError
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", url, err)
		}
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "gone/default") {
		t.Errorf("reports: %q", reports)
	}
	dir, err := sessionfile.ProfileDir(log.Home, "work")
	if err != nil {
		t.Fatal(err)
	}
	path, err := sessionfile.Folder{Dir: dir}.HTTPLog("s1")
	if err != nil {
		t.Fatal(err)
	}
	entries, lost, err := httplogtest.Read(path)
	if err != nil || lost != 0 || len(entries) != 2 {
		t.Fatalf("%d entries, %d lost, %v", len(entries), lost, err)
	}
	for _, e := range entries {
		switch {
		case e.Error == "" || e.Step != 1 || e.Attempt != 2:
			t.Errorf("%+v", e)
		case e.Status == 200 && (!strings.Contains(string(e.Response), "half of ***") || strings.Contains(string(e.Response), secret)):
			t.Errorf("response: %s", e.Response)
		}
	}
}
