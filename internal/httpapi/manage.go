package httpapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type found struct {
	Threads []memory.Found `json:"threads"`
}

func (s *Server) search(c *call, text string) (any, error) {
	list, err := c.client.Search(c.r.Context(), text)
	for i := range list {
		list[i].Thread = lean(list[i].Thread)
	}
	return found{list}, err
}

// maxTopic bounds a topic, in characters.
const maxTopic = 200

func (s *Server) rename(c *call) (any, error) {
	var r struct {
		Topic string `json:"topic"`
	}
	c.body(&r)
	topic := strings.Join(strings.FieldsFunc(r.Topic, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if topic == "" || len([]rune(topic)) > maxTopic {
		return nil, agent.Errorf(agent.CodeInvalid, "a topic has 1 to %d characters", maxTopic)
	}
	marks, err := s.store.Mark(c.r.Context(), []string{c.thread})
	if err != nil {
		return nil, err
	}
	t, err := s.conversation(c)
	if err != nil {
		return nil, err
	}
	m := t.Metadata
	m.Topic = topic
	edit := memory.EditRequest{UserID: c.user, Profile: t.Profile, Edits: []memory.ThreadEdit{{ThreadID: t.ID, Metadata: &m}}}
	if len(marks) > 0 { // what a turn has counted meanwhile is not put back
		edit.Seen = map[string]int64{t.ID: marks[0].LastEvent}
	}
	if err := s.store.EditThreads(c.r.Context(), edit); err != nil {
		return nil, err
	}
	return c.client.Thread(c.r.Context(), t.ID)
}

// remove deletes a conversation with all below it.
func (s *Server) remove(c *call) (any, error) {
	t, err := s.conversation(c)
	if err != nil {
		return nil, err
	}
	return s.store.DeleteTree(c.r.Context(), memory.DeleteRequest{UserID: c.user, ThreadID: t.ID})
}

func (s *Server) conversation(c *call) (agent.Thread, error) {
	t, err := c.client.Thread(c.r.Context(), c.thread)
	if err == nil && t.Kind != agent.KindMain {
		return t, agent.Errorf(agent.CodeInvalid, "%s is a sub-agent, to which its parent refers: name its conversation, %s", t.ID, t.RootThreadID)
	}
	return t, err
}

// export gives a conversation with all below it, or a sub-agent, as a file.
func (s *Server) export(c *call) (any, error) {
	q := c.query()
	format := cmp.Or(q.Get("format"), "json")
	if format != "json" && format != "md" {
		q.bad("format", format, "json or md")
	}
	ctx := c.r.Context()
	t, err := c.client.Thread(ctx, c.thread)
	if err != nil {
		return nil, err
	}
	all := []agent.Thread{t}
	if t.Kind == agent.KindMain {
		if all, err = c.client.Threads(ctx, memory.ThreadFilter{Root: t.ID, All: true}); err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b agent.Thread) int {
			return cmp.Or(cmp.Compare(a.Depth, b.Depth), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
	}
	var views []spool.View
	for _, one := range all {
		v, err := c.client.Show(ctx, one.ID, format == "json")
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) && r < unicode.MaxASCII || unicode.IsDigit(r) && r < unicode.MaxASCII {
			return r
		}
		return '-'
	}, t.ID)
	c.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.%s"`, name, format))
	if format == "md" {
		c.write("text/markdown; charset=utf-8", "no-store", []byte(markdown(views)))
		return nil, nil
	}
	return map[string]any{"threads": views}, nil
}

func markdown(views []spool.View) string {
	var b strings.Builder
	for i, v := range views {
		t := v.Thread
		if i == 0 {
			fmt.Fprintf(&b, "# %s\n\n%s, %s\n", cmp.Or(t.Topic, t.ID), t.ID, t.CreatedAt.UTC().Format("2006-01-02 15:04 MST"))
		} else {
			fmt.Fprintf(&b, "\n# Sub-agent %s\n\n%s\n", t.AgentType, t.ID)
		}
		for _, m := range v.Messages {
			if m.Role == agent.RoleTool {
				fmt.Fprintf(&b, "\n## %s returned\n\n%s\n", m.Name, fenced(m.Content.String()))
				continue
			}
			fmt.Fprintf(&b, "\n## %s\n", m.Role)
			if text := m.Content.String(); text != "" {
				fmt.Fprintf(&b, "\n%s\n", text)
			}
			for _, call := range m.ToolCalls {
				fmt.Fprintf(&b, "\nCalls %s\n\n%s\n", call.Function.Name, fenced(call.Function.Arguments))
			}
		}
	}
	return b.String()
}

func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}
