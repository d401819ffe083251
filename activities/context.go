package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/prompt"
	"github.com/spool-agents/spool/memory"
)

// Models tells what is known of models: how much they read and what they cost.
type Models interface {
	// Lookup returns what is known of a model; fields that are not are zero.
	Lookup(model string) agent.ModelInfo
}

// defaultWindow is assumed of a model that nothing is known of. A provider that
// takes less says so in its refusal.
const defaultWindow = 128_000

// conversation is what the model of a turn sees, before it is made to fit.
type conversation = prompt.Conversation

// transcripts keeps the conversations of turns under way, so that a step reads only
// what was added since. Within a turn messages are only ever appended.
type transcripts struct {
	mu sync.Mutex
	m  *simplelru.LRU[string, cached] // by thread; made at the first use
}

// get finds what is kept of a thread; the caller holds the lock.
func (t *transcripts) get(thread string) (cached, bool) {
	if t.m == nil {
		t.m, _ = simplelru.NewLRU[string, cached](maxTranscripts, nil) // it refuses sizes below 1 only
	}
	return t.m.Get(thread)
}

type cached struct {
	prompt.Conversation
	turn        string
	compactions int64
	warned      []string // codes of the warnings that a turn has once
}

// maxTranscripts bounds the cache: the one that was not used for longest goes. A turn
// that is not in it reads its thread anew.
const maxTranscripts = 256

func (t *transcripts) load(ctx context.Context, store memory.Reader, ref contract.Ref, th agent.Thread) (conversation, error) {
	t.mu.Lock()
	have, _ := t.get(ref.Thread)
	t.mu.Unlock()
	if n := len(have.Own); have.turn == ref.Turn && have.compactions == th.Compactions && n > 0 {
		added, err := store.Messages(ctx, ref.Thread, have.Own[n-1].Seq, 0)
		if err != nil {
			return conversation{}, err
		}
		have.Own = append(have.Own[:n:n], added...)
		have.Tokens += prompt.Tokens(added)
	} else {
		c, err := prompt.Load(ctx, store, th, 0)
		if err != nil {
			return conversation{}, err
		}
		if have.turn != ref.Turn {
			have.warned = nil
		}
		have = cached{Conversation: c, turn: ref.Turn, compactions: th.Compactions, warned: have.warned}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m.Add(ref.Thread, have)
	return have.Conversation, nil
}

func (t *transcripts) drop(thread string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.get(thread); ok {
		t.m.Remove(thread)
	}
}

// calibration corrects our count of tokens by what providers report, per model. It
// lives as long as the worker: a new one starts with our count as it is.
type calibration struct {
	mu sync.Mutex
	m  map[string]float64
}

// enough is how many tokens a request needs for its size to tell anything.
const enough = 1000

func (c *calibration) ratio(model string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.m[model]; r > 0 {
		return r
	}
	return 1
}

func (c *calibration) learn(model string, estimated int, reported int64) {
	if estimated < enough || reported <= 0 {
		return
	}
	r := min(max(float64(reported)/float64(estimated), 0.5), 2.5)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.m[model]; old > 0 {
		r = (old + r) / 2
	}
	if c.m == nil {
		c.m = map[string]float64{}
	}
	c.m[model] = r
}

// room is how much of a model's context window a request may take.
type room struct {
	window int64
	// request is what is left for the request when the answer has its part, in
	// tokens as the provider counts them.
	request int64
	ratio   float64 // provider's tokens per one of ours
}

// ours turns the provider's tokens into those of our count.
func (r room) ours(tokens int64) int { return int(float64(tokens) / r.ratio) }

// full is the part of the room at which a summary is made, before the request: our
// count is a guess.
const full = 0.9

// roomOf is the room of a request; window, if not 0, replaces what is known of the
// model.
func (a *Activities) roomOf(r agent.ModelRequest, window int64) room {
	info := a.modelInfo(r.Model)
	if window > 0 && (info.Window == 0 || window < info.Window) {
		info.Window = window
	}
	if info.Window == 0 {
		info.Window = defaultWindow
	}
	answer := int64(8192)
	if info.MaxOutput > 0 {
		answer = min(answer, info.MaxOutput)
	}
	answer = min(answer, info.Window/4)
	if r.MaxTokens != nil {
		answer = min(int64(*r.MaxTokens), info.Window/2)
	}
	return room{window: info.Window, request: info.Window - answer, ratio: a.calibration.ratio(r.Model)}
}

func (a *Activities) modelInfo(model string) agent.ModelInfo {
	if a.Models == nil {
		return agent.ModelInfo{}
	}
	return a.Models.Lookup(model)
}

// worth is the least that a summary has to leave out, as a part of the room.
const worth = 0.1

// plan is how a conversation is cut into what a summary replaces and what stays.
type plan struct {
	replaced []agent.Message // an earlier summary included
	from, to int64
	tokens   int // of our count, that are replaced
}

// planSummary finds what a summary may replace; ok is false if that is too little
// to be worth it.
func (a *Activities) planSummary(c conversation, fixed int, r room) (p plan, ok bool) {
	all := c.Messages()
	free := max(r.ours(r.request)-fixed, 0)
	cut := agent.CutPoint(all, free*3/10)
	before := len(all) - len(c.Own) // summary or shared messages
	if cut < before && cut > 0 {
		cut = before // shared messages are replaced all together
	}
	if cut == 0 || c.Summary != nil && cut <= 1 {
		return p, false
	}
	p.replaced = all[:cut]
	if cut > before {
		p.from, p.to = c.Own[0].Seq, c.Own[cut-before-1].Seq
	}
	if c.Summary != nil {
		p.from = c.Summary.ReplacesFrom
		p.to = max(p.to, c.Summary.ReplacesTo)
	}
	for _, m := range p.replaced {
		p.tokens += agent.MessageTokens(m)
	}
	return p, float64(p.tokens) > worth*float64(free)
}

// contextError tells the workflow to have the context summarised and then to call
// the model again.
func contextError(cause memory.Cause, window int64, format string, args ...any) error {
	return &contextFull{need: contract.SummaryNeed{Cause: string(cause), Window: window}, text: fmt.Sprintf(format, args...)}
}

type contextFull struct {
	need contract.SummaryNeed
	text string
}

func (e *contextFull) Error() string { return e.text }

// fit makes a request fit its model's window. If it does not, and a summary may
// help, it returns the error that asks for one; else the longest messages are
// shortened. noImages are the models to which images are words.
func (a *Activities) fit(ctx context.Context, ref contract.Ref, r *agent.ModelRequest, c conversation, noImages []string) (fitting, error) {
	room := a.roomOf(*r, c.Windows[r.Model])
	fixed := agent.RequestTokens(agent.ModelRequest{Messages: r.Messages[:1], Tools: r.Tools})
	need := fixed + c.Tokens + agent.ToolImageTokens(r.Messages)
	if slices.Contains(noImages, r.Model) {
		need = agent.RequestTokens(*r)
	}
	if float64(need) <= full*float64(room.ours(room.request)) {
		return fitting{sent: need}, nil
	}
	if _, ok := a.planSummary(c, fixed, room); ok {
		made, err := a.summarised(ctx, ref, memory.CauseFull)
		if err != nil {
			return fitting{}, err
		}
		if !made {
			return fitting{}, contextError(memory.CauseFull, 0, "the conversation takes about %d tokens of the %d that %s reads: it is summarised first", int(float64(need)*room.ratio), room.window, r.Model)
		}
	}
	f := fitting{tight: tight(*r, fixed, room)}
	if fitted, left := agent.FitMessages(r.Messages[1:], room.ours(room.request)-fixed); left != nil {
		f.shortened = shortened(c.Own, r.Messages[1:], left, r.Model, room.window)
		r.Messages = append(r.Messages[:1:1], fitted...)
	}
	f.sent = agent.RequestTokens(*r)
	return f, nil
}

func (a *Activities) summarised(ctx context.Context, ref contract.Ref, cause memory.Cause) (bool, error) {
	summaries, err := a.Store.Summaries(ctx, ref.Thread)
	return slices.ContainsFunc(summaries, func(s memory.Summary) bool {
		return s.TurnID == ref.Turn && s.Step == ref.Step && s.Cause == cause
	}), err
}

// refused turns a provider's "too long" into a request for a summary, once per
// step.
func (a *Activities) refused(ctx context.Context, ref contract.Ref, r agent.ModelRequest, c conversation, e *agent.ModelError) error {
	made, err := a.summarised(ctx, ref, memory.CauseRefused)
	if err != nil {
		return err
	}
	if made {
		e.Message = "the conversation does not fit, even in short: " + e.Message
		return e
	}
	room := a.roomOf(r, c.Windows[r.Model])
	limit := e.Limit
	if limit <= 0 {
		// It is less than what was asked for; how much less, nobody says.
		const guess = 0.6
		asked := float64(agent.RequestTokens(r))*room.ratio + float64(room.window-room.request)
		limit = int64(guess * min(asked, float64(room.window)))
	}
	return errors.Join(e, contextError(memory.CauseRefused, limit, "%s refused a request of about %d tokens as too long: the conversation is summarised for %d",
		r.Model, int(float64(agent.RequestTokens(r))*room.ratio), limit))
}
