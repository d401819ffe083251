package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// asking is a stack whose general agent asks before it writes.
func asking(t *testing.T) *tt.Stack {
	t.Helper()
	s := tt.New(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.Agents(), "general.md"), []byte("---\nname: general\ndescription: asks\napproval:\n  file_write: ask\n---\nAsk before you write."), 0o600))
	s.StartWorker()
	return s
}

func assign(agent, task string, more ...any) string {
	args := map[string]any{"agent": agent, "task": task}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return script.Call("assign_task", args)
}

// B1, B10: tools, agents and thoughts stand where they came, and stay there.
func TestAll_TheOrderIsTrue(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script("think look first => "+script.Call("ls", map[string]any{"path": "."}), "think hand it out => "+assign("researcher", "script: say seen", "description", "Look around"), "think sum up => slow 50ms say it is all here"))
	p.Text("article.stream, article.assistant", "it is")
	const want = "user,rollup,thought,ls,thought,researcher,assistant,end"
	require.Equal(t, want, strings.TrimSuffix(order(p), ",end")+",end")
	p.Text(".end", "tokens")
	require.Equal(t, want, order(p))
	p.Go(Eval[string](p, "location.href"))
	p.Text(".end", "tokens")
	require.Equal(t, want, order(p), "after a reload")
	p.Click(".thought summary")
	p.Text(".thought", "look first")
	p.Text(".agent .brief", "Look around")
	s.Verify()
}

// B2: an output above 2 KB is shown in an open chat, all of it if asked.
func TestAll_ALongOutputIsShown(t *testing.T) {
	s := tt.New(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "long.txt"), []byte(strings.Repeat("a line of the file\n", 400)+"the very last line\n"), 0o600))
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script(script.Call("file_read", map[string]any{"path": "long.txt"}), "say read"))
	p.Text("article.assistant", "read")
	p.Click(".tool summary")
	p.Text(".tool .output", "a line of the file")
	p.Press(".tool .output:last-of-type", "Show all")
	p.Text(".tool .output", "the very last line")
}

// B3, B7, B14, B15, B16: what waits is said everywhere; a message waits behind it; the
// focus goes on; who answered in place of a call did not cancel it.
func TestAll_WaitingForAPerson(t *testing.T) {
	s := asking(t)
	p := Open(t, s.StartWeb().Link, 1300, 850)
	write := script.Call("file_write", map[string]any{"path": "a.txt", "content": "x"})
	p.Say(script.Script(assign("general", script.Script(write, "echo it said"), "description", "Write it"), "say all done"))
	p.Text(".card h2", "General asks to run file_write")
	p.Text(".card .label", "Write it")
	p.Text(".bar .status", "Waiting for approval")
	p.Text(".sidebar .needs", "1")
	p.Text(".inbox", "Needs you (1)")
	p.Text(".agent.waiting_for_approval", "Agent: General - Waiting for approval")
	p.Text(".rollup", "1 needs you")
	require.Contains(t, Eval[string](p, "document.title"), "(1) script:")
	p.Say("script: say from the queue")
	p.Text(".queued", "waits for its turn")
	p.Press(".sidebar", "New conversation")
	p.See("document.title === '(1) Spool'")
	p.Click(".inbox button")
	p.Press(".inbox .pop", "file_write")
	p.Press(".card", "Reply instead")
	p.See("document.activeElement.matches('.card textarea')")
	p.Key(kb.Escape)
	p.See("document.activeElement.dataset.key === 'r'")
	p.Press(".card", "Reply instead")
	p.Type(".card textarea", "use another name")
	p.Press(".card", "Tell it")
	p.Gone(".card")
	p.See("document.activeElement.id === 'text'")
	p.Text("article.assistant", "from the queue")
	p.Click(".agent .task-block")
	p.Text("aside .tool.edited summary", "told otherwise")
	require.NotContains(t, Eval[string](p, "document.querySelector('aside .log').innerText"), "Cancelled")
	p.Click("aside .tool.edited summary")
	p.Text("aside .output", "use another name")
	p.Key(kb.Escape)
	p.See("document.activeElement.matches('.task-block')")
	require.Equal(t, "", s.File("a.txt"))
	s.Verify()
}

// B5: an agent that works in the background is seen, and can be stopped.
func TestAll_ABackgroundAgentIsSeen(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script(assign("general", "script: slow 500ms say "+words(400), "background", true, "description", "Dig on"), "say started"))
	p.Text("article.assistant", "started")
	p.Text(".bar .background", "1 agent in the background")
	p.Text(".agent", "Agent: General - Running")
	p.Press(".agent", "Stop")
	p.Text(".agent.cancelled", "Agent: General - Cancelled")
	p.Gone(".bar .background")
	s.Verify()
}

// B6, B13: an agent that failed says why; how long it took is told once.
func TestAll_AFailedAgentSaysWhy(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script(assign("general", "script: repeat 300 "+script.Call("calculator", map[string]any{"expression": "1+1"}), "description", "Never ends"), "say it failed"))
	p.Text("article.assistant", "it failed")
	p.See("document.querySelector('.agent.failed .why').innerText.length > 10")
	took := func() time.Duration {
		d, err := time.ParseDuration(strings.ReplaceAll(Eval[string](p, "document.querySelector('.agent .took').innerText"), " ", ""))
		require.NoError(t, err)
		return d
	}
	before := took()
	p.Go(Eval[string](p, "location.href"))
	p.See("document.querySelector('.agent.failed .why').innerText.length > 10")
	require.InDelta(t, before, took(), float64(200*time.Millisecond))
	// Only its parent can have it go on, so Retry tells the orchestrator which one.
	p.Press(".agent", "Retry")
	agents, err := s.Store.Children(s.Ctx(), p.Thread())
	require.NoError(t, err)
	p.Text(".chat .turn:last-of-type .user", "Try this again with the same agent, general (resume "+agents[0].AgentID+").")
	p.Click(".agent .task-block")
	p.See("document.querySelector('aside .facts').innerText.startsWith(document.querySelector('.agent .took').innerText + ' · ')")
	s.Verify()
}

// B8, B17, B18: tables scroll, text of all directions reads from its side, questions are
// drawn, and images stay in the draft.
func TestTextsReadWell(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 390, 844)
	wide := strings.Repeat("|international", 9) + "|"
	p.Say(`script: say ` + wide + `\n` + strings.Repeat("|-", 9) + `|\n` + wide + `\n\nשלום עולם`)
	p.Text("article.assistant", "שלום")
	require.Equal(t, 1, Eval[int](p, "(e => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length })(document.querySelector('td'))"), "a word stays on its line")
	require.True(t, Eval[bool](p, "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.wide'))"))
	require.LessOrEqual(t, Eval[int](p, "document.documentElement.scrollWidth"), 390)
	require.Equal(t, "rtl", Eval[string](p, "getComputedStyle([...document.querySelectorAll('article.assistant p')].at(-1)).direction"))
	p.Type("#text", "שלום")
	require.Equal(t, "rtl", Eval[string](p, "getComputedStyle(document.querySelector('#text')).direction"))
	Eval[bool](p, "document.querySelector('#text').select(), true")
	p.Say(script.Script(script.Call("ask_user", map[string]any{"question": "The **first** one?"}), "say fine"))
	p.See("document.querySelector('.card .question strong')?.textContent === 'first'")
	p.Type(".card textarea", "the second")
	p.Press(".card", "Answer")
	// The question and its answer stay where they were.
	p.Text(".qa .answer", "the second")
	p.See("document.querySelector('.qa strong')?.textContent === 'first'")
	p.Text("article.assistant", "fine")
	// The hint lies over the page, so that nothing moves under the pointer.
	places := func() string {
		return Eval[string](p, "JSON.stringify([...document.querySelectorAll('.log, .composer, #text')].map(e => e.getBoundingClientRect()))")
	}
	before := places()
	Eval[bool](p, `(d => (d.items.add(new File(["x"], "x.png", { type: "image/png" })), document.body.dispatchEvent(new DragEvent("dragenter", { dataTransfer: d, bubbles: true, cancelable: true })), true))(new DataTransfer())`)
	p.Text(".drop", "Drop images here")
	require.Equal(t, before, places())
	p.Drop(picture(t))
	p.See("document.querySelector('.thumb img')?.naturalWidth === 30")
	p.Gone(".drop")
	p.Type("#text", "half a thought")
	p.Go(Eval[string](p, "location.href"))
	p.See("document.querySelector('.thumb img')?.naturalWidth === 30 && document.querySelector('#text').value === 'half a thought'")
	p.Text(".qa .answer", "the second")
	// Enter makes a line on a phone, as it has no Shift.
	command(p, emulation.SetTouchEmulationEnabled, func(cdp.BrowserContextID) emulation.SetTouchEmulationEnabledParams {
		return emulation.SetTouchEmulationEnabledParams{Enabled: true}
	})
	p.See("matchMedia('(pointer: coarse) and (hover: none)').matches")
	Eval[bool](p, "(e => (e.focus(), e.setSelectionRange(4, 4), true))(document.querySelector('#text'))")
	p.Key(kb.Enter)
	p.See(`document.querySelector('#text').value === 'half\n a thought'`)
	require.Equal(t, 2, p.Count("article.user"))
	p.Press(".composer", "Send")
	p.See("document.querySelectorAll('article.user').length === 3 && document.querySelectorAll('.end').length === 3")
	s.Verify()
}

// B9, B11: Back leaves the address of a sub-agent; what could not be read while the
// server was away is read when it is back.
func TestAll_AddressesAndAServerThatComesBack(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	p.Say("script: say one")
	p.Text("article.assistant", "one")
	one := p.Thread()
	p.Press(".sidebar", "New conversation")
	p.Text(".welcome h1", "Spool")
	p.Say(script.Script(assign("researcher", "script: say seen"), "say two"))
	p.Text("article.assistant", "two")
	p.Click(".agent .task-block")
	p.Text("aside h2", "Researcher")
	child := Eval[string](p, "document.querySelector('aside').dataset.thread")
	p.Go(web.URL + "/?thread=" + one)
	p.Text("article.assistant", "one")
	p.Go(web.URL + "/?thread=" + child)
	p.Text("aside h2", "Researcher")
	Eval[bool](p, "history.back(), true")
	p.Text("article.assistant", "one")
	web.Kill()
	p.Text(".live", "reconnecting")
	Eval[bool](p, "[...document.querySelectorAll('.sidebar a.chat')].find(e => e.innerText.includes('script: call assign_task')).click(), true")
	p.Text("main h1", "Not here")
	web.Restart()
	p.Text("article.assistant", "two")
	p.Text(".live", "live")
	require.NotContains(t, Eval[string](p, "document.querySelector('main').innerText"), "Not here")
	s.Verify()
}

// What needs a person in other conversations is told here, and one key decides it.
func TestAll_InboxAndKeys(t *testing.T) {
	s := asking(t)
	p := Open(t, s.StartWeb().Link, 1300, 850)
	ask := func(name string) {
		p.Say(script.Script(assign("general", script.Script(script.Call("file_write", map[string]any{"path": name, "content": "one\ntwo\n"}), "echo it said")), "say "+name+" is done"))
		p.Text(".card h2", "asks to run file_write")
		p.Text(".card .diff", name)
		require.Equal(t, 2, p.Count(".card .diff .plus[class=plus]")-1, "two lines are new")
		p.Press(".sidebar", "New conversation")
		p.Text(".welcome h1", "Spool")
	}
	ask("a.txt")
	// Who wants to is notified while they look elsewhere, also after a reload.
	allowed := browserdomain.PermissionDescriptor{Name: "notifications"}
	command(p, browserdomain.SetPermission, func(of cdp.BrowserContextID) browserdomain.SetPermissionParams {
		return browserdomain.SetPermissionParams{Permission: &allowed, Setting: browserdomain.PermissionSettingGranted, BrowserContextID: of}
	})
	p.Click(".inbox button")
	p.Text(".inbox .pop", "Notify me")
	require.False(t, Eval[bool](p, "document.querySelector('.inbox input').checked"), "nobody is notified unasked")
	p.Click(".inbox input")
	p.See("localStorage.notify === 'yes' && document.querySelector('.inbox input').checked")
	p.Go(Eval[string](p, "location.href"))
	p.Click(".inbox button")
	p.See("document.querySelector('.inbox input').checked")
	p.Click(".inbox button")
	Eval[bool](p, `(window.notes = [], Notification = class extends Notification {
		constructor(title, options) { super(title, options); notes.push(title + ": " + options.body); }
	}, Object.defineProperty(document, "hidden", { configurable: true, get: () => true }), true)`)
	r, err := s.Client.Send(s.Ctx(), memory.SendRequest{SessionID: "elsewhere", Content: agent.Text(script.Script(assign("general", script.Script(script.Call("file_write", map[string]any{"path": "n.txt", "content": "x"}), "echo it said")), "say n.txt is done"))})
	require.NoError(t, err)
	p.See("notes.join() === 'General needs you: asks to run file_write'")
	Eval[bool](p, "delete document.hidden")
	waits, err := s.Client.Approvals(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	_, err = s.Client.Decide(s.Ctx(), memory.Decision{By: "tester", Target: waits[0].ApprovalID, Verdict: memory.Deny})
	require.NoError(t, err)
	p.Text(".inbox", "Needs you (1)")
	ask("b.txt")
	p.Text(".inbox", "Needs you (2)")
	p.See("document.title === '(2) Spool'")
	Eval[bool](p, "document.activeElement.blur(), true")
	p.Click(".inbox button")
	p.Press(".inbox .pop", "General")
	p.Text(".card .diff", "a.txt")
	p.Shortcut("a")
	p.Text("article.assistant", "a.txt is done")
	p.Text(".inbox", "Needs you (1)")
	require.Equal(t, "one\ntwo\n", s.File("a.txt"))
	// The palette finds the way to the other one.
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.Text(".palette", "Go to what needs you (1)")
	p.Key(kb.Enter)
	p.Text(".card .diff", "b.txt")
	p.Shortcut("d")
	p.Gone(".card")
	p.Text("article.assistant", "b.txt is done")
	require.Equal(t, "", s.File("b.txt"))
	p.Text(".inbox", "Nothing needs you")
	p.Shortcut("?")
	p.Text("[role=dialog]", "find a conversation or a command")
	p.Key(kb.Escape)
	p.Gone("[role=dialog]")
	s.Verify()
}

// A message is sent again otherwise, in a conversation of its own; answers of retries
// stand side by side; code is coloured and copied; a link leads to its message.
func TestBasicsOfAConversation(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	p.Say(script.Script(script.Call("calculator", map[string]any{"expression": "6*7"}), "say one"))
	p.Text("article.assistant", "one")
	p.Say("script: say two\\n\\n```go\\nfunc main() {}\\n```")
	p.See("document.querySelector('.hl-keyword')?.textContent === 'func'")
	original := p.Thread()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		allowed := browserdomain.PermissionDescriptor{Name: name}
		command(p, browserdomain.SetPermission, func(of cdp.BrowserContextID) browserdomain.SetPermissionParams {
			return browserdomain.SetPermissionParams{Permission: &allowed, Setting: browserdomain.PermissionSettingGranted, BrowserContextID: of}
		})
	}
	copied := func(button, want string) {
		t.Helper()
		p.Click(button)
		tt.Eventually(t, want+" is in the clipboard", func() bool { return Eval[string](p, "navigator.clipboard.readText()") == want })
	}
	p.See("document.querySelectorAll('.end').length === 2")
	answer := Eval[string](p, "[...document.querySelectorAll('article.assistant')].at(-1).id")
	copied(fmt.Sprintf(`[id=%q] .acts [aria-label="Copy the message"]`, answer), "two\n\n```go\nfunc main() {}\n```")
	copied(fmt.Sprintf(`[id=%q] .acts [aria-label="Copy a link to the message"]`, answer), web.URL+Eval[string](p, "location.pathname + location.search")+"#"+answer)
	copied(`.code [aria-label="Copy the code"]`, "func main() {}")
	p.Click(".tool summary")
	p.Text(".tool .output", "42")
	copied(`.tool .output:last-of-type .copy`, Eval[string](p, "[...document.querySelectorAll('.tool .output pre')].at(-1).innerText"))
	p.Press(".end", "Retry")
	p.Text(".versions", "2/2")
	require.Equal(t, 2, p.Count("article.assistant"), "the answer before is not shown twice")
	p.See("document.querySelectorAll('.end').length === 2")
	p.Click(`.versions button[aria-label="The answer before"]`)
	p.Text(".versions", "1/2")

	last := Eval[string](p, "[...document.querySelectorAll('article.user')].at(-1).id")
	Eval[bool](p, fmt.Sprintf("document.getElementById(%q).querySelector('.edit').click(), true", last))
	p.See("document.activeElement.matches('.again textarea')")
	Eval[bool](p, "document.activeElement.select(), document.execCommand('insertText', false, 'script: say three'), true")
	p.Press(".again", "Send again")
	p.See(fmt.Sprintf("new URLSearchParams(location.search).get('thread') !== %q", original))
	p.Text("article.assistant", "three")
	require.Equal(t, "one,three", Eval[string](p, "[...document.querySelectorAll('article.assistant .markdown')].map(e => e.innerText.trim()).join()"))

	p.Go(web.URL + "/?thread=" + original + "#" + last)
	p.See("document.querySelector('.target')?.id === " + fmt.Sprintf("%q", last))
	// Far from the end, a button leads back.
	p.Say("script: say " + strings.Repeat("a line\\n\\n", 60))
	p.Text(".end", "tokens")
	Eval[bool](p, "document.querySelector('.chat .log').scrollTop = 0, true")
	p.Click(".latest")
	p.See("(b => b.scrollHeight - b.scrollTop - b.clientHeight < 5)(document.querySelector('.chat .log'))")
	p.Gone(".latest")
	s.Verify()
}

// The panel shows the main thread, too, and all that the store has of it; its width is
// changed and kept.
func TestAll_ThePanel(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script(assign("researcher", "script: say seen"), "say done"))
	p.Text("article.assistant", "done")
	p.Press(".bar", "Inspect")
	p.Text("aside h2", "Orchestrator")
	p.Press("aside .system", "System prompt")
	p.Text("aside .system", "You are a test")
	p.Press("aside [role=tablist]", "Raw")
	p.Press("aside .raw", "events")
	p.Text("aside .raw", "sub_agent_completed")
	p.Press("aside [role=tablist]", "Agent")
	p.Press("aside .call", "Researcher")
	p.Text("aside h2", "Researcher")
	require.Equal(t, "Chat,Researcher", Eval[string](p, "[...document.querySelectorAll('aside .crumbs li')].map(e => e.innerText.trim()).join()"))
	width := func() float64 {
		return Eval[float64](p, "document.querySelector('aside').getBoundingClientRect().width")
	}
	before := width()
	Eval[bool](p, "document.querySelector('.grip').focus(), true")
	p.Key(kb.ArrowLeft)
	p.Key(kb.ArrowLeft)
	require.InDelta(t, before+48, width(), 2)
	p.Go(Eval[string](p, "location.href"))
	p.Text("aside h2", "Researcher")
	require.InDelta(t, before+48, width(), 2)
}

// Conversations are found by what stands in them, renamed and deleted.
func TestAll_TheListOfConversations(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: say the needle is here" + strings.Repeat(" and stays", 20))
	p.Text("article.assistant", "needle")
	p.Text(".sidebar a.chat", "Completed") // what comes while nobody looks is new
	one := p.Thread()
	p.Press(".sidebar", "New conversation")
	p.Text(".welcome h1", "Spool")
	p.Say("script: say hay")
	p.Text("article.assistant", "hay")
	// One that went on elsewhere is new until it is looked at.
	p.Gone(".sidebar .unread")
	_, err := s.Client.Send(s.Ctx(), memory.SendRequest{ThreadID: one, Content: agent.Text("script: say it went on")})
	require.NoError(t, err)
	p.See("document.querySelectorAll('.sidebar .unread').length === 1")
	require.True(t, Eval[bool](p, "(e => e.scrollWidth <= e.clientWidth)(document.querySelector('nav.sidebar'))"), "a long name does not widen the list")
	p.Click(".sidebar .unread a.chat")
	p.Text("article.assistant", "it went on")
	p.Gone(".sidebar .unread")
	p.Go(Eval[string](p, "location.href"))
	p.Text("article.assistant", "it went on")
	require.Equal(t, 0, p.Count(".sidebar .unread"), "after a reload")
	p.Type("#find", "needle is")
	p.Text(".sidebar [role=status]", "1 found")
	p.Text(".sidebar .snippet mark", "needle is")
	p.Click(".sidebar a.chat")
	p.Text("article.assistant", "needle")
	p.Key(kb.Escape)
	Eval[bool](p, "document.querySelector('#find').select(), document.execCommand('delete'), true")
	p.See("document.querySelectorAll('.sidebar a.chat').length === 2")
	menu := func(what string) {
		Eval[bool](p, "document.querySelector('.chat-row:has([aria-current]) .more').click(), true")
		p.Press(".menu-of .pop", what)
	}
	folder := t.TempDir()
	command(p, browserdomain.SetDownloadBehavior, func(of cdp.BrowserContextID) browserdomain.SetDownloadBehaviorParams {
		return browserdomain.SetDownloadBehaviorParams{Behavior: browserdomain.SetDownloadBehaviorBehaviorAllow, BrowserContextID: of, DownloadPath: folder}
	})
	for _, as := range []string{"Markdown", "JSON"} {
		menu("Export as " + as)
	}
	tt.Eventually(t, "both exports are there", func() bool {
		there := 0
		for _, pattern := range []string{"*.md", "*.json"} {
			files, err := filepath.Glob(filepath.Join(folder, pattern))
			require.NoError(t, err)
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "the needle is here") {
					there++
				}
			}
		}
		return there == 2
	})
	menu("Rename")
	p.See("document.activeElement.matches('.sidebar form input')")
	Eval[bool](p, "document.activeElement.select(), document.execCommand('insertText', false, 'Where the needle is'), true")
	p.Key(kb.Enter)
	p.Text(".bar h1", "Where the needle is")
	p.Text(".sidebar a.chat", "Where the needle is")
	menu("Delete…")
	p.Press(".menu-of .pop", "Delete it for good")
	p.Text(".welcome h1", "Spool")
	p.See("document.querySelectorAll('.sidebar a.chat').length === 1")
	_, err = s.Client.Show(s.Ctx(), one, false)
	require.Error(t, err)
	s.Verify()
}
