package screen

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// shownPast is how many messages of the past are printed.
const shownPast = 30

// What is looked at again after a while.
type (
	checkAgain struct{ gen int }
	lookAgain  struct{ gen int }
)

func (m *model) load() tea.Cmd {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	m.gen++
	m.checked++
	m.thread = chat.ThreadOf(m.req)
	m.known, m.cursor, m.said = agent.Thread{}, map[string]string{}, map[string]string{}
	m.turn, m.form, m.asks, m.left, m.cost = turn{}, nil, nil, map[string]bool{}, agent.Usage{}
	m.live = printer.NewLive(m.thread, "", nil, func(format string, args ...any) {
		m.print(m.look.event(terminal.Clean(fmt.Sprintf(format, args...))))
	})
	gen, thread := m.gen, m.thread
	return func() tea.Msg {
		tails, err := m.o.C.TailTree(m.ctx, thread)
		if err != nil || len(tails) == 0 { // the thread is made with its first message
			return opened{gen: gen, err: err}
		}
		v, err := m.o.C.Show(m.ctx, thread, false)
		return opened{gen: gen, tails: tails, view: v, err: err}
	}
}

// show prints the past, and follows what comes.
func (m *model) show(o opened) tea.Cmd {
	if m.fail(o.err) || len(o.tails) == 0 { // somebody else may make the thread
		return tea.Tick(2*time.Second, func(time.Time) tea.Msg { return lookAgain{o.gen} })
	}
	v := o.view
	m.known, m.cursor = v.Thread, o.tails
	m.cost = agent.Usage{TotalTokens: v.Thread.TotalTokens, Price: v.Thread.TotalPrice}
	past := v.Messages
	if n := len(past) - shownPast; n > 0 {
		m.print(m.look.dim(fmt.Sprintf("… %d earlier messages: %s show %s", n, m.o.Name, m.thread)))
		past = past[n:]
	}
	for _, msg := range past {
		m.message(msg)
	}
	for _, e := range v.Inbox {
		if e.State == memory.EntryWaiting && e.Kind == memory.EntryMessage {
			m.sent = append(m.sent, sent{id: e.ID, text: e.Content.String(), state: "waits for its turn"})
		}
	}
	if v.Thread.OpenTurnID != "" {
		m.turn = turn{id: v.Thread.OpenTurnID, began: time.Now()}
		m.print(m.look.dim("a turn is running; this is how it goes on:"))
	}
	m.ask(openAsks{approvals: v.Approvals, questions: v.Questions})
	return tea.Batch(m.follow(), m.serving())
}

// follow tells the model what happens from its cursors on.
func (m *model) follow() tea.Cmd {
	if m.stop != nil {
		m.stop()
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(m.ctx)
	from := map[string]string{}
	for id, at := range m.cursor {
		from[id] = at
	}
	gen, thread := m.gen, m.thread
	return func() tea.Msg {
		err := m.o.C.Follow(ctx, thread, from[thread], spool.FollowOptions{Descendants: true, From: from}, func(u spool.Update) error {
			m.send(update{gen, u})
			if u.ThreadID == thread && u.Event != nil && (u.Event.Type == agent.EventDone || u.Event.Type == agent.EventError) {
				m.send(m.ended(gen, thread, u.Event.TurnID)) // before what comes next
			}
			return ctx.Err()
		})
		if ctx.Err() != nil {
			return nil
		}
		return followed{gen, err}
	}
}

// again follows on, a moment after that has failed.
func (m *model) again(err error) tea.Cmd {
	if err != nil {
		m.hint = "cannot be followed, trying again: " + terminal.OneLine(err.Error(), 120)
	}
	follow := m.follow()
	return tea.Sequence(tea.Tick(time.Second, func(time.Time) tea.Msg { return nil }), follow)
}

// post sends a message. Its id is made here, so that it is stored once.
func (m *model) post(text string, how memory.WhenBusy) tea.Cmd {
	req := m.req
	req.MessageID, req.Content, req.WhenBusy = spool.NewID(), agent.Text(text), how
	m.req.Agent, m.req.Model = "", "" // the choice stays with the thread
	m.sent = append(m.sent, sent{id: req.MessageID, text: text, state: "is being stored"})
	gen := m.gen
	return func() tea.Msg {
		r, err := m.o.C.Send(m.ctx, req)
		return stored{gen, req.MessageID, r, err}
	}
}

// wasStored notes what became of a message.
func (m *model) wasStored(s stored) tea.Cmd {
	i := slices.IndexFunc(m.sent, func(one sent) bool { return one.id == s.id })
	if s.err != nil {
		if i >= 0 {
			m.sent = slices.Delete(m.sent, i, i+1)
		}
		m.fail(s.err)
		m.print(m.look.dim("  nothing was sent; the arrow up brings the text back"))
		return nil
	}
	if s.gen != m.gen {
		return nil
	}
	m.code = exit.Interrupted // until its turn has ended
	if s.reply.Status == spool.StatusStored {
		m.code = exit.Unavailable
	}
	if i >= 0 { // else its turn has begun already
		m.sent[i].turnID, m.sent[i].state = s.reply.TurnID, "waits for its turn"
		if m.sent[i].state = terminal.OneLine(s.reply.Note, 200); m.sent[i].state == "" {
			m.sent[i].state = "waits for its turn"
		}
	}
	if m.stop == nil { // its thread is new
		return tea.Batch(m.follow(), m.serving())
	}
	return m.serving()
}

// serving asks whether anybody works on what is open.
func (m *model) serving() tea.Cmd {
	gen, turn := m.gen, m.turn.id
	if turn == "" && len(m.sent) > 0 {
		turn = m.sent[0].turnID
	}
	if turn == "" {
		return nil
	}
	thread := m.thread
	return func() tea.Msg {
		r, err := m.o.C.Status(m.ctx, thread, turn)
		if err != nil || !r.Moving() {
			return served{gen, ""}
		}
		return served{gen, m.o.C.Served(m.ctx, r).Note}
	}
}

// check reads what waits for a person. What an earlier one still reads is not heard.
func (m *model) check() tea.Cmd {
	m.checked++
	n, thread := m.checked, m.thread
	return func() tea.Msg {
		approvals, err := m.o.C.Approvals(m.ctx, thread)
		if err != nil {
			return openAsks{n: n, err: err}
		}
		questions, err := m.o.C.Questions(m.ctx, thread)
		return openAsks{n, approvals, questions, err}
	}
}

func (m *model) cancel() tea.Cmd {
	thread, turn := m.thread, m.turn.id
	return func() tea.Msg {
		if _, err := m.o.C.Cancel(m.ctx, memory.CancelRequest{ThreadID: thread, TurnID: turn}); err != nil {
			return told{"cannot cancel: " + terminal.Clean(err.Error())}
		}
		return nil
	}
}

// ended asks how a turn ended, and what its conversation has used.
func (m *model) ended(gen int, thread, turnID string) reported {
	r, err := m.o.C.Status(m.ctx, thread, turnID)
	if err != nil {
		return reported{gen: gen, err: err}
	}
	list, _, err := m.o.C.ThreadPage(m.ctx, memory.ThreadFilter{Root: thread}, "", 1)
	return reported{gen, r, list, err}
}

// report prints how a turn ended, as send does, and keeps its code.
func (m *model) report(r reported) {
	if m.fail(r.err) {
		return
	}
	var b strings.Builder
	w := printer.NewWriter(&b)
	p := &chat.Person{Printer: &printer.Printer{Name: m.o.Name, Out: w, Err: w}}
	err := p.Report(r.reply, chat.Seen{Answer: true, Failure: m.live.Failure})
	if m.code = exit.Code(err); r.gen != m.gen { // another conversation is open by now
		return
	}
	for _, t := range r.used {
		m.cost = agent.Usage{TotalTokens: t.TotalTokens, Price: t.TotalPrice}
	}
	if b.Len() > 0 {
		m.print(m.look.dim(strings.TrimRight(b.String(), "\n")))
	}
	spent := "  " + printer.Plural(int(r.reply.Usage.TotalTokens), "token")
	if r.reply.Usage.Price > 0 {
		spent += fmt.Sprintf(" · $%.4f", r.reply.Usage.Price)
	}
	m.print(m.look.dim(spent), "")
}

// ask puts what waits for a person, each once, and takes away what was settled elsewhere.
func (m *model) ask(a openAsks) {
	if a.err != nil {
		if agent.CodeOf(a.err) != agent.CodeNotFound {
			m.fail(a.err)
		}
		return
	}
	open := map[string]bool{}
	for _, one := range a.approvals {
		if open[one.ApprovalID] = true; !m.left[one.ApprovalID] {
			m.asks = append(m.asks, newApproval(one))
		}
		m.left[one.ApprovalID] = true
	}
	for _, one := range a.questions {
		if open[one.QuestionID] = true; !m.left[one.QuestionID] {
			m.asks = append(m.asks, newQuestion(one))
		}
		m.left[one.QuestionID] = true
	}
	m.asks = slices.DeleteFunc(m.asks, func(f *form) bool { return !open[f.id()] })
	if m.form != nil && !open[m.form.id()] {
		m.form = nil
	}
	m.nextAsk()
}

func (m *model) nextAsk() {
	if m.form == nil && len(m.asks) > 0 {
		m.form, m.asks = m.asks[0], m.asks[1:]
		m.form.quiet = time.Now()
		m.print(m.form.asked(m.look))
	}
}

// answered takes what a person decided.
func (m *model) answered(t taken) tea.Cmd {
	if !t.done {
		return nil
	}
	f := m.form
	m.form = nil
	gen, id := m.gen, f.id()
	defer m.nextAsk()
	switch {
	case t.decision != nil:
		return func() tea.Msg {
			done, err := m.o.C.Decide(m.ctx, *t.decision)
			return settled{gen, id, done.Note, err}
		}
	case t.answer != "":
		m.print(m.ownText(t.answer))
		m.said[id] = t.answer
		return func() tea.Msg {
			done, err := m.o.C.Answer(m.ctx, memory.AnswerRequest{Target: id, Text: t.answer})
			return settled{gen, id, done.Note, err}
		}
	}
	m.print(m.look.dim(fmt.Sprintf("  %s stays open; /asks puts it again", id)))
	return nil
}

// wasSettled says what became of a decision; one that was refused is put again.
func (m *model) wasSettled(s settled) tea.Cmd {
	switch {
	case agent.CodeOf(s.err) == agent.CodeConflict: // somebody else was first
		m.print(m.look.ask("! " + terminal.Clean(s.err.Error())))
	case s.err != nil:
		m.fail(s.err)
		delete(m.left, s.id)
	case s.note != "":
		m.print(m.look.dim("  " + terminal.Clean(s.note)))
	}
	return m.check()
}

func (m *model) ownText(text string) string {
	text = strings.Join(terminal.VisibleLines(strings.ReplaceAll(text, "\t", "    ")), "\n")
	return behind(m.look.bold("> "), "  ", wrapped(text, m.width-2))
}

// message prints a message once, and again if it was saved with another text than the
// one that was streamed.
func (m *model) message(msg agent.Message) {
	text := msg.Content.String()
	if before, ok := m.said[msg.ID]; ok && (msg.Role != agent.RoleAssistant || strings.TrimSpace(before) == strings.TrimSpace(text)) {
		return
	}
	m.said[msg.ID] = text
	switch msg.Role {
	case agent.RoleUser:
		m.taken(msg)
		if msg.Source != "" && msg.Source != "user" && msg.Source != "steer" {
			m.print(m.look.dim("· from " + terminal.OneLine(msg.Source, 80) + ": " + terminal.OneLine(text, 200)))
			return
		}
		m.print(m.ownText(text))
	case agent.RoleAssistant:
		if text != "" {
			m.print(m.look.markdown(text, m.width), "")
		}
		if msg.Partial {
			m.print(m.look.dim("  (broken off)"))
		}
		if msg.TurnID != m.turn.id { // else its events tell
			for _, call := range msg.ToolCalls {
				m.print(m.look.dim("→ " + terminal.CallText(call.Function.Name, json.RawMessage(call.Function.Arguments))))
			}
		}
	case agent.RoleTool:
		switch {
		case msg.TurnID == m.turn.id: // its events tell
		case msg.Status != "" && msg.Status != agent.CallSuccess:
			m.print(m.look.bad("✗ " + terminal.OneLine(msg.Name, 60) + " " + string(msg.Status)))
		case msg.Name == agent.ToolAskUser:
			m.print(m.ownText(text))
		}
	}
}

func (m *model) taken(msg agent.Message) {
	i := slices.IndexFunc(m.sent, func(s sent) bool { return s.id == msg.MessageID || s.turnID != "" && s.turnID == msg.TurnID })
	if i < 0 {
		i = slices.IndexFunc(m.sent, func(s sent) bool { return s.text == msg.Content.String() })
	}
	if i >= 0 {
		m.sent = slices.Delete(m.sent, i, i+1)
	}
}
