package chat

import (
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

const banner = "Ctrl-C: cancel the turn. Ctrl-C twice: quit; the turn goes on. At a prompt, Ctrl-C quits at once. Help: /help"

type session struct {
	*Talk
	req memory.SendRequest
	// done are the questions and approvals that were put here, and the turns that
	// were followed.
	done map[string]bool
	// code is the one that send would have ended with for the last message.
	code int
	// asks says that the last turn asks one thing, and the input is a pipe: its next line is
	// the answer.
	asks bool
}

// Run reads messages until the input ends or the person leaves.
func Run(ctx context.Context, p *Person, c Conversations, req memory.SendRequest) error {
	s := &session{Talk: &Talk{Person: p, C: c, Prompt: p.Present, Stream: true}, req: req, done: map[string]bool{}}
	p.Progress("%s", banner)
	if err := s.past(ctx); err != nil {
		return err
	}
	for {
		p.Talking.Store(p.Present)
		quit, err := s.next(ctx)
		if left(err) {
			p.Progress("")
			quit, err = true, nil
		}
		if quit || exit.Code(err) == exit.Waiting {
			s.bye()
		}
		if quit && err == nil {
			return exit.With(s.code)
		}
		if exit.Code(err) == exit.Waiting {
			if n := s.Typed.Rest(); n > 0 {
				s.Progress("%s not sent: a person has to decide first", printer.Plural(n, "line"))
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) past(ctx context.Context) error {
	const most = 6
	if !s.Prompt {
		return nil
	}
	v, err := s.C.Show(ctx, ThreadOf(s.req), false)
	if agent.CodeOf(err) == agent.CodeNotFound { // the thread is made with its first message
		return nil
	}
	var said []string
	for _, msg := range v.Messages {
		text := terminal.OneLine(msg.Content.String(), 300)
		switch {
		case text != "" && msg.Role == agent.RoleUser:
			said = append(said, "> "+text)
		case text != "" && msg.Role == agent.RoleAssistant:
			said = append(said, text)
		}
	}
	if n := len(said) - most; n > 0 {
		s.Progress("… %s show %s has all", s.Name, ThreadOf(s.req))
		said = said[n:]
	}
	for _, line := range said {
		s.Progress("%s", line)
	}
	return err
}

func (s *session) next(ctx context.Context) (quit bool, err error) {
	thread := ThreadOf(s.req)
	open, _, err := s.putOpen(ctx, thread, s.done)
	if err == nil && open == 0 {
		err = s.join(ctx, thread)
	}
	if err != nil {
		return false, err
	}
	line, err := s.readLine(ctx, "> ")
	if err != nil {
		return false, terminal.ErrLeft
	}
	text := strings.TrimSpace(line)
	switch name := command(line); {
	case name == "/quit" || name == "/exit":
		return true, nil
	case name == "/allowed":
		said, err := Allowed(ctx, s.C, thread, strings.TrimSpace(strings.TrimPrefix(line, name)))
		if err != nil {
			said = terminal.Clean(err.Error())
		}
		s.Progress("%s", said)
		return false, nil
	case name != "":
		s.Progress("%s", help(name))
		return false, nil
	case text == "":
		return false, nil
	case !utf8.ValidString(text):
		s.Progress("this is not valid UTF-8; nothing was sent")
		return false, nil
	}
	s.req.MessageID, s.req.Content, s.req.WhenBusy = "", agent.Text(text), ""
	open, asked, err := s.putOpen(ctx, thread, s.done)
	if err != nil {
		return false, err
	}
	if asked {
		s.Progress("now your message is sent: %s", terminal.OneLine(text, 100))
	}
	if open > 0 {
		s.req.WhenBusy = memory.Queue
	}
	err = s.exchange(ctx)
	if s.code = exit.Code(err); left(err) {
		s.code = exit.Interrupted
	}
	if exit.Reported(err) && (s.code != exit.Waiting || s.asks) { // else nobody here can be asked
		err = nil
	}
	s.req.Agent, s.req.Model = "", "" // the choice stays with the thread once it was sent
	return false, err
}

// word is what may be a command; /usr/bin/ls is none.
var word = regexp.MustCompile(`^/[A-Za-z]*$`)

// command is the command in a line, or "" for a message.
func command(line string) string {
	first, _, _ := strings.Cut(strings.TrimRight(line, " \t"), " ")
	if !word.MatchString(first) {
		return ""
	}
	return first
}

func help(name string) string {
	if name != "/help" {
		return name + " is no command of chat, and nothing was sent; /help lists them. A message that begins with / needs a blank before it"
	}
	return "/quit, /exit  leave; so does Ctrl-D\n" +
		"/allowed [revoke N]  what was allowed for this session; take number N back\n" +
		"/help         this text\n" +
		"All else is sent. A blank before / sends it as text.\n" + banner
}

// join follows a turn that runs already, each once, until it ends: a person at the
// prompt would see nothing of it.
func (s *session) join(ctx context.Context, threadID string) error {
	if !s.Prompt {
		return nil
	}
	tails, err := s.C.TailTree(ctx, threadID)
	if err != nil || len(tails) == 0 { // the thread is made with its first message
		return err
	}
	v, err := s.C.Show(ctx, threadID, false)
	turn := v.Thread.OpenTurnID
	if err != nil || turn == "" || s.done[turn] {
		return err
	}
	s.Progress("a turn is running; this is how it goes on:")
	err = s.await(ctx, spool.Reply{ThreadID: threadID, TurnID: turn}, tails)
	if exit.Reported(err) {
		return nil
	}
	return err
}

// exchange sends one message and shows the answer. What a person can mend is
// said and does not end the chat.
func (s *session) exchange(ctx context.Context) error {
	tails, err := s.C.TailTree(ctx, ThreadOf(s.req))
	if err != nil {
		return err
	}
	s.asks = false
	sent, err := s.C.Send(ctx, s.req)
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeConflict, agent.CodeLimit, agent.CodeUnavailable:
		s.Progress("%v", err)
		return exit.With(exit.Code(err))
	default:
		return err
	}
	s.answered(sent)
	if sent.Note != "" {
		s.Progress("%s", terminal.Clean(sent.Note))
		if sent.Status == spool.StatusStored {
			return exit.With(exit.Unavailable)
		}
		return nil
	}
	if sent.Answered != nil && sent.TurnID == "" {
		return nil
	}
	return s.await(ctx, sent, tails)
}

// await waits for a turn and reports what was not shown while it ran.
func (s *session) await(ctx context.Context, sent spool.Reply, tails map[string]string) error {
	s.done[sent.TurnID] = true
	reply, err := s.Until(ctx, sent, tails)
	if err != nil {
		return err
	}
	s.incomplete(reply)
	switch status := agent.ThreadStatus(reply.Status); {
	case status == agent.ThreadCompleted:
		return nil
	case status.Final() && s.Seen.Failure == printer.FailureLine(reply.ErrorCode, reply.Error):
		return exit.With(exit.Failed)
	}
	s.asks = !s.Prompt && reply.Status == string(agent.ThreadWaitingForUser) && len(reply.Questions) == 1 && len(reply.Pending) == 0
	return s.Report(reply, s.Seen)
}

func (s *session) bye() {
	where := "-t " + s.req.ThreadID
	if s.req.ThreadID == "" {
		where = "-s " + s.req.SessionID
		if s.req.ConversationID != "" {
			where += " -c " + s.req.ConversationID
		}
	}
	s.Progress("go on with: %s chat %s", s.Name, where)
}
