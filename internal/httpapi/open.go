package httpapi

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// opened is all that the page needs at first.
type opened struct {
	Me     who         `json:"me"`
	Agents []agentInfo `json:"agents"`
	threadList
	asked
	healthLines
	shown
	// Since is from when on a stream tells what has changed in the list.
	Since string `json:"since,omitempty"`
}

// shown are the threads asked for; Missing says why one cannot be shown.
type shown struct {
	Views   map[string]spool.View `json:"views"`
	Missing map[string]string     `json:"missing"`
}

// asked is what waits for a person in all conversations of a user.
type asked struct {
	Approvals []spool.ApprovalRequest `json:"approvals"`
	Questions []spool.QuestionRequest `json:"questions"`
}

// first answers with the first data of the page in one go, as each request of a far
// browser costs a round trip.
func (s *Server) first(c *call) (any, error) {
	q := c.query()
	last := q.number("last", 80, 1, maxPage)
	ctx := c.r.Context()
	out := opened{Me: s.whoIs(c), Agents: s.knownAgents()}
	var err error
	if out.Threads, out.Next, err = c.client.ThreadPage(ctx, memory.ThreadFilter{}, "", listed); err != nil {
		return nil, err
	}
	for i, t := range out.Threads {
		out.Threads[i] = lean(t)
	}
	if len(out.Threads) > 0 {
		out.Since = strconv.FormatInt(out.Threads[0].UpdatedAt.UnixMilli(), 10)
	}
	if out.asked, err = s.asked(ctx, c); err != nil {
		return nil, err
	}
	out.healthLines = s.healthLines(ctx, c.client)
	out.shown, err = s.shown(c, int(last), q.Get("thread"), q.Get("inspect"))
	return out, err
}

// views answers with up to four threads by their last messages.
func (s *Server) views(c *call) (any, error) {
	q := c.query()
	last := q.number("last", 80, 1, maxPage)
	if len(q.Values["thread"]) > 4 {
		q.bad("thread", "…", "at most four threads")
	}
	return s.shown(c, int(last), q.Values["thread"]...)
}

func (s *Server) shown(c *call, last int, ids ...string) (shown, error) {
	out := shown{Views: map[string]spool.View{}, Missing: map[string]string{}}
	for _, id := range ids {
		if _, known := out.Views[id]; known || id == "" {
			continue
		}
		view, err := c.client.ShowWith(c.r.Context(), id, spool.ShowOptions{Last: last, Telling: true, Cursor: true})
		switch agent.CodeOf(err) {
		case "":
			out.Views[id] = view
		case agent.CodeNotFound, agent.CodeInvalid:
			_, what := describe(s.o.Log, c.r, err)
			out.Missing[id] = what.Message
		default:
			return shown{}, err
		}
	}
	return out, nil
}

// lean is a thread without what lists do not need and what is long.
func lean(t agent.Thread) agent.Thread {
	t.Config = agent.SpecialistAgentConfig{Name: t.Config.Name, Description: t.Config.Description, Model: t.Config.Model, Provider: t.Config.Provider}
	return t
}

func (s *Server) asked(ctx context.Context, c *call) (a asked, err error) {
	if a.Approvals, err = s.limited(ctx, c, ""); err == nil {
		a.Questions, err = c.client.Questions(ctx, "")
	}
	return a, err
}

// watchAsked sends what waits for the person when that changes; the stream's writer
// calls it after every change in the store.
func (s *Server) watchAsked(c *call, st *stream) func(ctx context.Context) error {
	var last []byte
	return func(ctx context.Context) error {
		a, err := s.asked(ctx, c)
		if err != nil {
			return err
		}
		now, err := toJSON(a)
		if err != nil || bytes.Equal(now, last) {
			return err
		}
		last = now
		return st.event("", "asked", a)
	}
}

// healthLines are what people should know of the parts that answer them.
type healthLines struct {
	Health []healthLine `json:"health"`
}

// healthLine is one thing that is not as it should be; it is gone when it is over.
type healthLine struct {
	// Kind is store, temporal, worker, wait or demo.
	Kind string `json:"kind"`
	Text string `json:"text,omitempty"`
	// Since is from when on this server knows it.
	Since *time.Time `json:"since,omitempty"`
	// Wait is a model call that is made again later, of kind wait.
	Wait *agent.ModelWait `json:"wait,omitempty"`
}

// What is said of a part that is away.
var away = map[string]string{
	"store":    "The store cannot be reached. What was sent is safe, and shown again when it is back.",
	"temporal": "Temporal cannot be reached. What you send is kept, and goes on when it is back.",
	"worker":   "No worker runs. What you send is kept, and answered when one is started.",
}

// healthEvery is how often a stream looks whether something is away.
const healthEvery = 3 * time.Second

// healthLines looks what is away, and which model calls of the user wait.
func (s *Server) healthLines(ctx context.Context, client *spool.Client) healthLines {
	out := healthLines{Health: []healthLine{}}
	report := s.o.Health.Look()
	s.awayMu.Lock()
	for _, part := range []string{"store", "temporal", "worker"} {
		state, known := report.Parts[part]
		if !known || state.OK || part == "worker" && !report.Parts["temporal"].OK { // who cannot be asked
			delete(s.awaySince, part)
			continue
		}
		since, known := s.awaySince[part]
		if !known {
			since = time.Now()
			s.awaySince[part] = since
		}
		out.Health = append(out.Health, healthLine{Kind: part, Text: away[part], Since: &since})
	}
	s.awayMu.Unlock()
	waits, _ := client.ModelWaits(ctx, "") // a store that is away is told of above
	for _, w := range waits {
		out.Health = append(out.Health, healthLine{Kind: "wait", Wait: &w})
	}
	if s.o.Demo {
		out.Health = append(out.Health, healthLine{Kind: "demo", Text: "No model is configured: a scripted demo model answers."})
	}
	return out
}

// watchHealth sends the lines at once and whenever they change, until ctx ends.
func (s *Server) watchHealth(ctx context.Context, c *call, st *stream, once bool) error {
	var last []byte
	for {
		lines := s.healthLines(ctx, c.client)
		now, err := toJSON(lines)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, last) {
			if err := st.event("", "health", lines); err != nil {
				return err
			}
		}
		if last = now; once {
			return nil
		}
		if pause(ctx, healthEvery); ctx.Err() != nil {
			return nil //nolint:nilerr // the client left
		}
	}
}
