package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	_ "github.com/jackc/pgx/v5/stdlib" // likewise
	_ "modernc.org/sqlite"             // the floor's database driver, the same as the store's
)

// The floor is what somebody would write by hand without any of Spool's
// promises: a workflow that calls one model activity and one tool activity in
// turn. The model activity makes the same HTTP call with a body of the same
// size; the tool does nothing; each writes one row in SQLite with the store's
// settings. There is no fence, no step record, no save point, no heartbeat.
const (
	floorQueue    = "bench-floor"
	floorWorkflow = "FloorTurn"
	floorModel    = "FloorModel"
	floorTool     = "FloorTool"
)

// floorInput is a run of the floor: Steps tool calls whose requests begin at
// Base bytes and grow by Grow bytes a step.
type floorInput struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Steps int    `json:"steps"`
	Base  int    `json:"base"`
	Grow  int    `json:"grow"`
}

type floorCall struct {
	ID   string `json:"id"`
	URL  string `json:"url,omitempty"`
	Step int    `json:"step"`
	Size int    `json:"size,omitempty"`
}

type floorReply struct {
	Tool string `json:"tool,omitempty"`
	Args string `json:"args,omitempty"`
}

func floorTurn(ctx workflow.Context, in floorInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for step := 1; ; step++ {
		var reply floorReply
		call := floorCall{ID: in.ID, URL: in.URL, Step: step, Size: in.Base + (step-1)*in.Grow}
		if err := workflow.ExecuteActivity(ctx, floorModel, call).Get(ctx, &reply); err != nil {
			return err
		}
		if reply.Tool == "" {
			return nil
		}
		if err := workflow.ExecuteActivity(ctx, floorTool, floorCall{ID: in.ID, Step: step}).Get(ctx, nil); err != nil {
			return err
		}
	}
}

type floorActivities struct{ db *sql.DB }

func (a *floorActivities) model(ctx context.Context, in floorCall) (floorReply, error) {
	var out floorReply
	body, err := floorBody(in.Size)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.URL, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Client-Request-Id", fmt.Sprintf("%s.%d.1", in.ID, in.Step))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	text, err := readFloor(resp.Body, &out)
	if err != nil {
		return out, err
	}
	return out, a.keep(ctx, in, "model", text+out.Args)
}

func (a *floorActivities) tool(ctx context.Context, in floorCall) (string, error) {
	return "ok", a.keep(ctx, in, "tool", "ok")
}

func (a *floorActivities) keep(ctx context.Context, in floorCall, kind, body string) error {
	_, err := a.db.ExecContext(ctx, `INSERT INTO floor (run, step, kind, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, in.ID, in.Step, kind, body)
	return err
}

// floorBody is a chat request of about so many bytes, made of messages as long
// as those of the conversation that Spool sends.
func floorBody(n int) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	const around = 33 // bytes of a message's JSON around its content
	request := struct {
		Model    string    `json:"model"`
		Stream   bool      `json:"stream"`
		Messages []message `json:"messages"`
	}{Model: "bench", Stream: true}
	for n -= 50; n > 0; n -= pieceSize {
		request.Messages = append(request.Messages, message{"user", filler(max(min(n, pieceSize)-around, 1))})
	}
	return json.Marshal(request)
}

func readFloor(r io.Reader, out *floorReply) (string, error) {
	var text strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return text.String(), nil
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					ToolCalls []struct {
						Function struct{ Name, Arguments string } `json:"function"`
					} `json:"tool_calls"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return "", err
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
			for _, call := range c.Delta.ToolCalls {
				out.Tool, out.Args = call.Function.Name, call.Function.Arguments
			}
		}
	}
	return "", io.ErrUnexpectedEOF
}

// serveFloor is the floor's worker: this program in another process.
func serveFloor(ctx context.Context, address, path string) {
	driver, source, conns := "pgx", path, 4
	if !strings.HasPrefix(path, "postgres") {
		driver, conns = "sqlite", 1
		source = "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(30000)"
	}
	db := must(sql.Open(driver, source))
	defer db.Close()
	db.SetMaxOpenConns(conns)
	must(db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS floor (run TEXT, step INTEGER, kind TEXT, body TEXT, PRIMARY KEY (run, step, kind))`))
	c := must(client.DialContext(ctx, client.Options{HostPort: address}))
	defer c.Close()
	a := &floorActivities{db: db}
	w := worker.New(c, floorQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(floorTurn, workflow.RegisterOptions{Name: floorWorkflow})
	w.RegisterActivityWithOptions(a.model, activity.RegisterOptions{Name: floorModel})
	w.RegisterActivityWithOptions(a.tool, activity.RegisterOptions{Name: floorTool})
	check(w.Start())
	<-ctx.Done()
	w.Stop()
}
