package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const taskQueue = "devserver-test"

// echo waits for its signal and returns it.
func echo(ctx workflow.Context) (string, error) {
	var text string
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &text)
	return text, ctx.Err()
}

func work(t *testing.T, c client.Client) worker.Worker {
	t.Helper()
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(echo, workflow.RegisterOptions{Name: "echo"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// allAttributes are the search attributes with the same value for each.
func allAttributes(value string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range searchAttributeNames {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value))
	}
	return temporal.NewSearchAttributes(updates...)
}

// startEcho starts the workflow as the first thing after the ready line.
func startEcho(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
		ID: id, TaskQueue: taskQueue, TypedSearchAttributes: allAttributes("v-" + id),
	}, "echo")
	if err != nil {
		t.Fatalf("start a workflow right after the ready line: %v", err)
	}
}

func wantFound(t *testing.T, c client.Client, id string) {
	t.Helper()
	for _, name := range searchAttributeNames {
		eventually(t, func() string {
			list, err := c.ListWorkflow(testContext(t), &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("%s = 'v-%s'", name, id)})
			if err != nil {
				return fmt.Sprintf("list by %s: %v", name, err)
			}
			if n := len(list.Executions); n != 1 || list.Executions[0].Execution.WorkflowId != id {
				return fmt.Sprintf("list by %s: %d workflows, want only %s", name, n, id)
			}
			return ""
		})
	}
}

// Everything that was acknowledged is there after kill -9, and goes on.
func TestStateSurvivesKill(t *testing.T) {
	for name, flags := range map[string][]string{"tuned": nil, "untuned": {"--untuned"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--db", filepath.Join(t.TempDir(), "new folder", "a?b#c%41.db")}, flags...)
			p := start(t, args...)
			c := p.client()
			startEcho(t, c, "kept")
			if err := c.SignalWorkflow(testContext(t), "kept", "", "go", "still here"); err != nil {
				t.Fatal(err)
			}
			p.kill()

			p = start(t, args...)
			c = p.client()
			startEcho(t, c, "second")
			w := work(t, c)
			defer w.Stop()
			var got string
			if err := c.GetWorkflow(testContext(t), "kept", "").Get(testContext(t), &got); err != nil || got != "still here" {
				t.Errorf("result of the workflow from before the kill: %q, %v", got, err)
			}
			wantFound(t, c, "kept")
			wantFound(t, c, "second")
		})
	}
}

// Standard output carries one JSON object with the promised keys, all true.
func TestReadyLine(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	p := start(t, "--db", db, "--namespace", "mine")
	var keys map[string]any
	if err := json.Unmarshal([]byte(p.line), &keys); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(keys)), []string{"db", "namespace", "pid", "temporal", "ui"}; !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	if p.ready.Namespace != "mine" || p.ready.DB != db || p.ready.PID != p.cmd.Process.Pid {
		t.Errorf("ready %+v; want namespace mine, db %s, pid %d", p.ready, db, p.cmd.Process.Pid)
	}
	for _, path := range []string{"/", "/api/v1/namespaces/mine"} {
		response, err := http.Get(p.ready.UI + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("web UI %s: %s", path, response.Status)
		}
	}
	ns, err := p.client().WorkflowService().DescribeNamespace(testContext(t), &workflowservice.DescribeNamespaceRequest{Namespace: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.Config.WorkflowExecutionRetentionTtl.AsDuration(); got < 30*24*time.Hour {
		t.Errorf("retention %s, want 30 days or more", got)
	}
	if info, err := os.Stat(db); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: %v, %v; want 0600", info.Mode(), err)
	}
}

// Two servers on one file would both report ready and corrupt each other's
// work, so the second is refused, by whatever name it reaches the file.
func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	db, link := filepath.Join(dir, "t.db"), filepath.Join(dir, "link.db")
	first := start(t, "--db", db)
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db, link} {
		launch(t, "--db", path, "--port", "0", "--ui-port", "0").
			wantFailure(exitFailed, db, "in use by another devserver (pid "+strconv.Itoa(first.ready.PID)+")", "stop that one", "another --db")
	}
	startEcho(t, first.client(), "undisturbed")
}

// A taken port moves on to the next free one and says so.
func TestTakenPortMovesOn(t *testing.T) {
	taken, err := listenFrom(0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	// Both want the same one, so that they must not take each other's either.
	p := start(t, "--db", filepath.Join(t.TempDir(), "t.db"), "--port", port, "--ui-port", port)
	if p.ready.Temporal == "127.0.0.1:"+port || p.ready.UI == "http://127.0.0.1:"+port || strings.HasSuffix(p.ready.UI, p.ready.Temporal) {
		t.Errorf("ready %+v with port %s taken", p.ready, port)
	}
	startEcho(t, p.client(), "reachable")
	p.kill()
	_, _, stderr := p.exit()
	for _, address := range []string{p.ready.Temporal, p.ready.UI} {
		moved := address[strings.LastIndex(address, ":")+1:]
		if !strings.Contains(stderr, "port "+port) || !strings.Contains(stderr, "using "+moved) {
			t.Errorf("stderr %q does not say that port %s became %s", stderr, port, moved)
		}
	}
}

// With --parent-pipe the end of stdin is the end of the parent.
func TestEndOfStdin(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	p := start(t, "--db", db, "--parent-pipe")
	p.wantQuietExit(p.stdin.Close)

	// Without the flag stdin means nothing.
	p = start(t, "--db", db)
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	startEcho(t, p.client(), "alive")
}

// A signal ends it in time and in silence, workers connected or not.
func TestSignals(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			p := start(t, "--db", filepath.Join(t.TempDir(), "t.db"))
			c := p.client()
			w := work(t, c)
			defer w.Stop()
			startEcho(t, c, "waits")
			eventually(t, func() string { // until the worker polls
				q, err := c.DescribeTaskQueue(testContext(t), taskQueue, 0)
				if err != nil || len(q.GetPollers()) == 0 {
					return fmt.Sprintf("no poller on the task queue: %v", err)
				}
				return ""
			})
			begin := time.Now()
			p.wantQuietExit(func() error { return p.cmd.Process.Signal(sig) })
			// The rest is for a busy machine: the promise is not to hang on the worker's polls.
			if took := time.Since(begin); took > 2*stopTimeout {
				t.Errorf("took %s to stop, want about %s at most", took, stopTimeout)
			}
		})
	}
}

func listAttributes(t *testing.T, c client.Client, namespace string) []string {
	t.Helper()
	list, err := c.OperatorService().ListSearchAttributes(testContext(t), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(list.CustomAttributes))
}
