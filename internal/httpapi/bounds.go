package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/webuser"
	"github.com/spool-agents/spool/memory"
)

// Users of the server other than its administrator give no orders to the machine: their
// conversations work in folders of their own, and they approve what the administrator
// lets them.

// How far a user may approve a call.
const (
	limitNone          = ""
	limitOnce          = "once" // not all to come
	limitAdministrator = "administrator"
)

// place puts a message's conversation into the folder of its user.
func (s *Server) place(c *call, r *memory.SendRequest) error {
	if c.admin {
		return nil
	}
	own := filepath.Join(s.o.Workspace, webuser.Folder(c.user))
	dir := r.Workdir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(own, dir)
	}
	if rel, err := filepath.Rel(own, dir); err != nil || !filepath.IsLocal(rel) {
		return &httpError{http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("workdir %q lies outside your folder: leave it out, or name a folder below yours", r.Workdir)}
	}
	r.Workdir = dir
	switch {
	case r.ThreadID != "":
		return s.mayRun(c, r.ThreadID)
	case r.SessionID != "":
		return s.mayUse(c, r.SessionID)
	}
	return nil
}

// mayUse refuses a session in which a conversation was begun elsewhere: what was allowed
// for the session there does not hold here.
func (s *Server) mayUse(c *call, session string) error {
	for after := ""; ; {
		threads, next, err := c.client.ThreadPage(c.r.Context(), memory.ThreadFilter{SessionID: session}, after, 100)
		if err != nil {
			return err
		}
		for _, t := range threads {
			if err := s.inFolder(c, t); err != nil {
				return err
			}
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// inFolder refuses to go on with a thread that works elsewhere than in the folder of
// its user.
func (s *Server) inFolder(c *call, t agent.Thread) error {
	if _, own := webuser.InFolder(c.user, t.Workdir); own || c.admin {
		return nil
	}
	return &httpError{http.StatusForbidden, "forbidden", "conversation " + t.RootThreadID + " was begun outside of your folder, and goes on from the command line only: begin a new session"}
}

// answer gives an answer to a question, which goes on with a conversation.
func (s *Server) answer(c *call) (any, error) {
	var r memory.AnswerRequest
	c.body(&r)
	r.Target = c.path("question")
	for _, q := range steps.Must(c.client.Questions(c.r.Context(), "")) {
		if q.QuestionID == r.Target || q.ToolCallID == r.Target {
			steps.Check(s.mayRun(c, q.ThreadID))
		}
	}
	return c.client.Answer(c.r.Context(), r)
}

// mayRun refuses to go on with a conversation that works elsewhere than in the folder
// of its user. One that does not exist is for the store to judge.
func (s *Server) mayRun(c *call, thread string) error {
	if c.admin {
		return nil
	}
	t, err := c.client.Thread(c.r.Context(), thread)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return s.inFolder(c, t)
}

func (s *Server) send(c *call) (any, error) {
	var r memory.SendRequest
	c.body(&r)
	steps.Check(s.place(c, &r))
	r.MessageID = c.keyed(r.MessageID)
	if c.key != "" && r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = "chat-" + c.key
	}
	return c.client.Send(c.r.Context(), r)
}

// limit says how far a user may approve a call in a thread that works in a folder.
func (s *Server) limit(c *call, folder, name string, args json.RawMessage) string {
	if c.admin || slices.Contains(s.o.Approvals, "*") {
		return limitNone
	}
	always, once := map[string]string{"*": "ask"}, map[string]string{"*": "ask"}
	for _, rule := range s.o.Approvals {
		once[rule] = string(agent.GateAuto)
		if _, _, pattern := tool.SplitRule(rule); !pattern {
			always[rule] = string(agent.GateAuto)
		}
	}
	spec, run := agent.ToolSpec{Name: name}, agent.ToolRun{Workdir: folder, Args: args}
	_, own := webuser.InFolder(c.user, folder)
	switch {
	case !own || tool.Gate(spec, run, once) != agent.GateAuto:
		return limitAdministrator
	case tool.Gate(spec, run, always) != agent.GateAuto:
		return limitOnce
	}
	return limitNone
}

// approvals lists open approvals, and says which of their calls are for others to decide.
func (s *Server) approvals(c *call) (any, error) {
	list, err := s.limited(c.r.Context(), c, c.thread)
	return map[string]any{"approvals": list}, err
}

// limited are the open approvals of the user, or of a tree, with their limits.
func (s *Server) limited(ctx context.Context, c *call, thread string) ([]spool.ApprovalRequest, error) {
	list, err := c.client.Approvals(ctx, thread)
	for _, a := range list {
		for i, call := range a.ToolCalls {
			a.ToolCalls[i].Limit = s.limit(c, a.Workdir, call.ToolName, call.Args)
			a.ToolCalls[i].Like = agent.NarrowRule(call.ToolName, call.Args)
		}
	}
	return list, err
}

// maxBefore bounds the file that is shown with a call that would replace it, in bytes.
const maxBefore = 256 << 10

// before tells what a call that waits would replace, to who may approve it. Nothing is told
// where the file is not on this machine, or the agent's rules hide it.
func (s *Server) before(c *call) (any, error) {
	asked, err := c.client.ToolCall(c.r.Context(), c.path("call"))
	if err != nil {
		return nil, err
	}
	t, err := c.client.Thread(c.r.Context(), asked.ThreadID)
	if err != nil {
		return nil, err
	}
	var file struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
	if asked.ToolName == "file_write" && asked.Status == agent.CallAwaitingApproval && json.Unmarshal(asked.Args, &file) == nil &&
		s.limit(c, t.Workdir, asked.ToolName, asked.Args) != limitAdministrator {
		run := agent.ToolRun{Workdir: t.Workdir, Workspace: s.o.Workspace, Home: s.o.Home, Private: s.o.Private}
		run.Reads = tool.Reads(run, append(slices.Clone(t.Config.Bounds), t.Config.Approval)...)
		if data, err := tool.ReadFile(run, file.Path, maxBefore); err == nil && utf8.Valid(data) {
			file.Text = string(data)
			return file, nil
		}
	}
	return struct{}{}, nil
}

func (s *Server) decide(c *call) (any, error) {
	var d memory.Decision
	c.body(&d)
	if d.Calls != nil && len(d.Calls) == 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "calls is empty: name a call, or leave calls out to decide all of them")
	}
	d.Target = c.path("approval")
	steps.Check(s.mayDecide(c, d))
	return c.client.Decide(c.r.Context(), d)
}

func (s *Server) permissions(c *call) (any, error) {
	list, err := c.client.Permissions(c.r.Context(), c.query().Get("session"))
	return map[string]any{"permissions": list}, err
}

// revoke takes back one of them.
func (s *Server) revoke(c *call) (any, error) {
	q := c.query()
	p := memory.Permission{Rule: q.Get("rule"), Agent: q.Get("agent"), Source: q.Get("source")}
	return p, c.client.Revoke(c.r.Context(), q.Get("session"), p)
}

// mayDecide refuses approval of what is not the user's to approve, and texts for a
// conversation that was begun elsewhere. A denial is always the user's.
func (s *Server) mayDecide(c *call, d memory.Decision) error {
	if c.admin || d.Verdict == memory.Deny {
		return nil
	}
	all, err := c.client.Decisions(c.r.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a memory.Approval) bool {
		return a.ID == d.Target || slices.ContainsFunc(a.ToolCalls, func(t agent.ToolCall) bool { return t.ID == d.Target })
	})
	if i < 0 { // also for one that is asked for right now
		return agent.Errorf(agent.CodeNotFound, "%q is neither an approval nor a call that waits for one", d.Target)
	}
	if all[i].Decision != "" {
		return nil
	}
	t, err := c.client.Thread(c.r.Context(), all[i].ThreadID)
	if err != nil {
		return err
	}
	if d.Verdict == memory.Edit {
		return s.inFolder(c, t)
	}
	for _, call := range all[i].ToolCalls {
		if len(d.Calls) > 0 && !slices.Contains(d.Calls, call.ID) {
			continue
		}
		limit := s.limit(c, t.Workdir, call.ToolName, call.Args)
		if args, changed := d.Arguments[call.ID]; changed && limit != limitAdministrator {
			limit = s.limit(c, t.Workdir, call.ToolName, args)
		}
		switch {
		case limit == limitAdministrator:
			return &httpError{http.StatusForbidden, "forbidden", fmt.Sprintf("%s has to be approved by %s, who runs this server, on its machine: approve %s --user %s. You may deny it",
				call.ToolName, cmp.Or(s.o.Administrator, "the person"), all[i].ID, c.user)}
		case limit == limitOnce && d.Verdict == memory.ApproveAll:
			return &httpError{http.StatusForbidden, "forbidden", "you may approve this call of " + call.ToolName + ", but not all to come: approve it once"}
		}
	}
	return nil
}
