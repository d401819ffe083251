package browser

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

func TestMain(m *testing.M) {
	tt.Main(m, func() {
		if shared.stop != nil {
			shared.stop()
		}
	})
}

// A person opens the link, writes, and sees the task block under the message, its
// state as it changes, the answer, and the sidebar.
func TestRow101_SidebarAndChatWindow(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.See("document.querySelector('#text')")
	require.NotContains(t, Eval[string](p, "location.href"), tt.WebToken, "the token leaves the address")
	p.Say(script.Script(script.Call("ls", map[string]any{"path": "."}),
		script.Call("assign_task", map[string]any{"agent": "researcher", "task": script.Script("slow 60ms say one two three four five six seven eight nine ten eleven twelve")}), "say # Found\\n\\nit **all**"))
	p.Text(".task-block", "Agent: Researcher - Running")
	p.Text(".sidebar a.task", "Researcher")
	p.See("document.querySelector('.sidebar a.task .status.running')")
	// By what it is to do; a tool stands there, too.
	p.Text(".sidebar a.task", "script: slow 60ms")
	p.Text(".sidebar .tool-task", "ls .")
	p.Text(".task-block", "Agent: Researcher - Completed")
	p.Text("article.assistant h2", "Found")
	p.See("document.querySelector('article.assistant strong')?.textContent === 'all'")
	p.See("document.querySelector('.sidebar a.chat .status.completed')")
	// Folded as nothing works any more; a click shows it.
	p.Gone(".sidebar a.task")
	p.Click(".sidebar .twist[aria-expanded]")
	p.See("document.querySelector('.sidebar a.task .status.success')")
	// Directly under the message that led to it, and each call behind the reply that made it.
	require.Equal(t, "user,rollup,ls,researcher,assistant,end", order(p))
	p.Text(".rollup", "1 agent · 1 tool · ")
	require.Equal(t, 1, p.Count(".task-block"))
	require.Regexp(t, `^\d+$|k$`, Eval[string](p, "document.querySelector('.task-block .figures span:nth-child(2)').firstChild.textContent"))
	// Only the person and the orchestrator: what the child wrote is not in the chat.
	require.Equal(t, 1, p.Count("article.assistant"))
	p.Text(".tool summary", "ls")
	p.Click(".tool summary")
	p.Text(".tool .output", "path")
	s.Verify()
}

// order is what the chat shows, in order.
func order(p *Tab) string {
	p.t.Helper()
	return Eval[string](p, `[...document.querySelectorAll(".chat .turn > *, .chat .calls > .call")].filter(e => !e.matches(".calls")).map(e => e.matches(".call") ? (e.querySelector("summary b, .into b").innerText.toLowerCase()) : ["user", "rollup", "thought", "assistant", "qa", "report", "end"].find(k => e.classList.contains(k))).join()`)
}

// A conversation can be left and found again; drafts stay; a new one begins empty.
func TestAll_ConversationsAreFoundAgain(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	p.Say("script: say first")
	p.Text("article.assistant", "first")
	one := p.Thread()
	p.Press(".sidebar", "New conversation")
	p.Text(".welcome h1", "Spool")
	p.Say("script: say second")
	p.Text("article.assistant", "second")
	require.NotEqual(t, one, p.Thread())
	p.Type("#text", "half a thought")
	p.Press(".sidebar a.chat", "say first")
	p.Text("article.assistant", "first")
	require.Equal(t, "", Eval[string](p, "document.querySelector('#text').value"))
	p.do(chromedp.NavigateBack())
	p.Text("article.assistant", "second")
	p.See("document.querySelector('#text').value === 'half a thought'")
	p.Go(web.URL + "/?thread=nobody/default")
	p.Text("main", "does not exist")
}

func TestApprovalsOnThePage(t *testing.T) {
	s := tt.New(t)
	careful := "---\nname: general\ndescription: asks\napproval:\n  file_write: ask\n---\nAsk before you write."
	require.NoError(t, os.WriteFile(filepath.Join(s.Agents(), "general.md"), []byte(careful), 0o644))
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	write := func(name string) string {
		return script.Call("file_write", map[string]any{"path": name, "content": "x"})
	}
	ask := func(calls ...string) string {
		return script.Script(script.Call("assign_task", map[string]any{"agent": "general", "task": script.Script(strings.Join(calls, " && "), "echo it said")}), "echo root got")
	}
	// The question of a child stands in the chat, with the agent's name.
	p.Say(ask(write("a.txt"), write("b.txt")))
	p.Text(".card h2", "General asks to run 2 tools")
	p.Text(".card .decide", "Approve all 2")
	p.Text(".task-block", "Waiting for approval")
	p.Text(".sidebar", "Waiting for approval")
	require.Contains(t, Eval[string](p, "document.title"), "(1)")
	// Partly: the other is denied.
	p.Click(".card .asked:nth-of-type(2) input, .card .asked ~ .asked input")
	p.Press(".card", "Approve 1, deny the rest")
	p.Text("article.assistant", "root got")
	p.Gone(".card")
	require.Equal(t, "x", s.File("a.txt"))
	require.Equal(t, "", s.File("b.txt"))

	p.Say(ask(write("c.txt")))
	p.Press(".card", "Deny")
	p.Gone(".card")
	p.See("document.querySelectorAll('.end').length === 2")
	require.Equal(t, "", s.File("c.txt"))

	p.Say(ask(write("d.txt")))
	p.Press(".card", "Reply instead")
	p.Type(".card textarea", "use another name")
	p.Press(".card", "Tell it")
	p.See("document.querySelectorAll('.end').length === 3")
	require.Equal(t, "", s.File("d.txt"))

	// With arguments of the person's: shown before, run, and told afterwards, here and on
	// the sub-agent's thread.
	p.Say(ask(write("not-this.txt")))
	p.Press(".card", "Edit")
	p.See("document.activeElement.matches('.card .fields textarea')")
	require.Equal(t, "content,path", Eval[string](p, "[...document.querySelectorAll('.fields .label')].map(e => e.innerText).slice(0, 2).sort().join()"))
	Eval[bool](p, `(e => { e.focus(); e.select(); return document.execCommand("insertText", false, "but-this\u200b.txt") })([...document.querySelectorAll(".fields textarea")].find(e => e.value === "not-this.txt"))`)
	p.Text(".card .diff", "but-this⟨U+200B⟩.txt")
	require.NotContains(t, Eval[string](p, "document.querySelector('.card').innerText"), "Ask no more")
	Eval[bool](p, `(e => { e.focus(); e.select(); return document.execCommand("insertText", false, "but-this.txt") })([...document.querySelectorAll(".fields textarea")].find(e => e.value.includes("but-this")))`)
	p.Text(".card .diff", "but-this.txt")
	p.Press(".card", "Approve as edited")
	p.Gone(".card")
	p.See("document.querySelectorAll('.end').length === 4")
	require.Equal(t, "x", s.File("but-this.txt"))
	require.Equal(t, "", s.File("not-this.txt"))
	Eval[bool](p, "[...document.querySelectorAll('.task-block')].at(-1).click(), true")
	p.Text("aside .tool .tag", "edited by a person")
	p.Text("aside .tool summary", "but-this.txt")
	p.Key("\u001b")
	p.Gone("aside")

	// A file that is there is shown with what goes from it.
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "e.txt"), []byte("x\nthe old line\n"), 0o600))
	p.Say(ask(write("e.txt")))
	p.Text(".card .diff pre > .minus", "the old line")
	p.Text(".card .diff .label .minus", "−1")
	p.Press(".card", "Ask no more for file_write in this session")
	p.See("document.querySelectorAll('.end').length === 5")
	require.Equal(t, "x", s.File("e.txt"))
	p.Say(ask(write("f.txt")))
	p.See("document.querySelectorAll('.end').length === 6")
	require.Equal(t, "x", s.File("f.txt"))
	s.Verify()
}

func TestStopSteerQueueRetryOnThePage(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: slow 300ms say a b c d e f g h i j k l m n o p q r s t u v w x y z")
	p.Text("article.stream", "a b")
	p.Say("script: say from the queue")
	p.Text(".queued", "waits for its turn")
	p.Press(".composer", "Stop")
	p.Text(".end.cancelled", "cancel")
	p.Text("article.assistant", "from the queue")
	p.Gone(".queued")
	p.Text("article.assistant .label", "cut off")
	p.Press(".end", "Retry")
	p.Text("article.assistant", "2/2")
	require.Equal(t, 2, p.Count("article.user"), "a retry adds no message of the user")
	p.Say(script.Script("call shell "+`{"command":"sleep 2"}`, "say the end"))
	p.Text(".tool", "sleep 2")
	p.Choose(".composer select", "steer")
	p.Say("also say hello")
	p.Text(".user", "also say hello")
	p.Text("article.assistant", "the end")
	v, err := s.Client.Show(s.Ctx(), p.Thread(), false)
	require.NoError(t, err)
	var steered []string
	for _, m := range v.Messages {
		if m.Source == "steer" {
			steered = append(steered, m.Content.String())
		}
	}
	require.Equal(t, []string{"also say hello"}, steered)
	s.Verify()
}

// Questions of two agents at once, each answered where the person is; a message answers
// the only one that is open.
func TestRow98_QuestionsOnThePage(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	ask := func(question string) string {
		return script.Call("assign_task", map[string]any{"agent": "general", "task": script.Script(script.Call("ask_user", map[string]any{"question": question}), "echo it was")})
	}
	p.Say(script.Script(ask("Which colour?")+" && "+ask("Which size?"), "echo all in all"))
	p.Text(".card h2", "General asks")
	p.See("document.querySelectorAll('.card').length === 2")
	p.Text(".task-block", "Waiting for an answer")
	answer := func(question, text string) {
		t.Helper()
		card := fmt.Sprintf("[...document.querySelectorAll('.card')].find(e => e.innerText.includes(%q))", question)
		Eval[bool](p, card+".id = 'this', true")
		p.Type("#this textarea", text)
		p.Press("#this", "Answer")
		p.Gone("#this")
	}
	answer("Which size?", "tall")
	p.See("document.querySelectorAll('.card').length === 1")
	p.Say("blue")
	p.Gone(".card")
	p.Text("article.assistant", "all in all")
	p.Text("article.assistant", "tall") // it streams
	text := Eval[string](p, "document.querySelector('article.assistant').innerText")
	require.Contains(t, text, "tall")
	require.Contains(t, text, "blue")
	require.Less(t, strings.Index(text, "blue"), strings.Index(text, "tall"), "each answer reached its own")
	p.Say(script.Script(script.Call("ask_user", map[string]any{"question": "Which one?", "options": []string{"the <b>red</b> one", "none"}}), "echo chosen"))
	require.Equal(t, 1, p.Count(".rollup"), "a question alone has none")
	p.See("document.querySelector('.card .row').getBoundingClientRect().bottom + 4 < document.querySelector('.card .reply').getBoundingClientRect().top")
	p.Press(".card", "the <b>red</b> one")
	p.Gone(".card")
	p.Text("article.assistant:last-of-type", "the <b>red</b> one")
	s.Verify()
}

// A fork goes on from a message in a new conversation; the old one stays.
func TestAll_ForkOnThePage(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: say one")
	p.Text("article.assistant", "one")
	p.Say("script: say two")
	p.Text("article.assistant", "two")
	original := p.Thread()
	p.Press("article.assistant", "Fork from here")
	p.See(fmt.Sprintf("new URLSearchParams(location.search).get('thread') !== %q", original))
	p.Text("article.assistant", "one")
	p.Say("script: say another two")
	p.Text("article.assistant", "another two")
	require.Equal(t, 2, p.Count("article.assistant"))
	p.Go(strings.Split(Eval[string](p, "location.href"), "?")[0] + "?thread=" + original)
	p.See("document.querySelectorAll('article.assistant').length === 2")
	require.NotContains(t, Eval[string](p, "document.querySelector('.log').innerText"), "another")
	s.Verify()
}

// picture is the path of an image, 30 pixels wide.
func picture(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "red.png")
	var raw bytes.Buffer
	red := image.NewRGBA(image.Rect(0, 0, 30, 20))
	draw.Draw(red, red.Bounds(), image.NewUniform(color.RGBA{200, 0, 0, 255}), image.Point{}, draw.Src)
	require.NoError(t, png.Encode(&raw, red))
	require.NoError(t, os.WriteFile(file, raw.Bytes(), 0o600))
	return file
}

// An image is kept by the server and shown from there.
func TestAll_ImageOnThePage(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.See("document.querySelector('.file input')")
	p.do(chromedp.SetUploadFiles(chromedp.CSS(".file input"), []string{picture(t)}))
	p.See("document.querySelector('.thumb img')?.naturalWidth === 30")
	p.Say("script: say seen")
	p.Text("article.assistant", "seen")
	p.See("document.querySelector('article.user .images img')?.naturalWidth === 30")
	s.Verify()

	// One that is gone is told in words.
	id := s.Thread("gone")
	parsed, err := agent.ParseThreadID(id)
	require.NoError(t, err)
	now := time.Now().UTC()
	_, err = s.Store.ImportThreads(s.Ctx(), memory.ImportRequest{UserID: "tester", Profile: "default", Threads: []memory.ThreadRecord{{
		Thread: agent.Thread{ID: id, Kind: agent.KindMain, SessionID: parsed.SessionID, ConversationID: parsed.ConversationID, RootThreadID: id, CreatedAt: now, UpdatedAt: now},
		Messages: []agent.Message{
			{ID: "m", Role: agent.RoleUser, Content: agent.Content{Parts: []agent.Part{{Type: "text", Text: "look"}, {Type: "image_url", ImageURL: &agent.ImageURL{URL: "image:" + strings.Repeat("0", 64) + ".png"}}}}},
			{ID: "a", Role: agent.RoleAssistant, Content: agent.Text("seen")},
		},
	}}})
	require.NoError(t, err)
	p.Go(strings.Split(Eval[string](p, "location.href"), "?")[0] + "?thread=" + id)
	p.Text("article.user .images", "not kept any more")
}
