package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for the page: a loaded machine is slow.
const patience = 2 * time.Minute

// Tab is one tab of a browser, with cookies of its own.
type Tab struct {
	t   testing.TB
	ctx context.Context
	mu  sync.Mutex
	// asked are the addresses that the page has asked for; said is what it has written
	// to the console.
	asked, said []string
	// Close closes the tab.
	Close context.CancelFunc
}

// find returns the browser of this machine.
func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("SPOOL_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium: install Debian's package chromium (`make deps`), or name one in SPOOL_TEST_CHROMIUM")
	return ""
}

// shared is the one browser of all tests.
var shared struct {
	sync.Once
	ctx  context.Context
	stop context.CancelFunc
}

// browser starts the browser, once.
func browser(t testing.TB) context.Context {
	t.Helper()
	shared.Do(func() {
		ctx, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(find(t)), chromedp.WSURLReadTimeout(2*time.Minute), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-background-networking", true))...)
		shared.ctx, _ = chromedp.NewContext(ctx)
		shared.stop = stop
		require.NoError(t, chromedp.Do(shared.ctx))
	})
	require.NotNil(t, shared.stop, "the browser did not start")
	return shared.ctx
}

// Open opens a page for a visitor of its own, with a view of a size in pixels.
func Open(t testing.TB, url string, width, height int) *Tab {
	t.Helper()
	return newTab(t, browser(t), url, width, height, chromedp.WithNewBrowserContext())
}

// Beside opens an address in another tab of the same visitor.
func (p *Tab) Beside(url string) *Tab {
	p.t.Helper()
	return newTab(p.t, p.ctx, url, 1000, 700)
}

// noteStreams keeps the page's event sources, and which of them the server streams to:
// one that it has told that it is busy is none.
const noteStreams = `window.sources = [];
window.EventSource = class extends EventSource {
	constructor(...args) {
		super(...args);
		sources.push(this);
		for (const name of ["thread", "listed", "update"]) this.addEventListener(name, () => (this.streams = true));
		for (const name of ["busy", "error"]) this.addEventListener(name, () => (this.streams = false));
	}
};`

// Streams is how many streams the page has open.
func (p *Tab) Streams() int {
	p.t.Helper()
	return Eval[int](p, "sources.filter((s) => s.streams && s.readyState === EventSource.OPEN).length")
}

func newTab(t testing.TB, browser context.Context, url string, width, height int, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, options...)
	t.Cleanup(cancel)
	p := &Tab{t: t, ctx: ctx, Close: cancel}
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	console := chromedp.Console(ctx)
	go func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			p.note(&p.asked, e.Request.URL)
		}
	}()
	go func() {
		for m, err := range console {
			if err != nil {
				return
			}
			p.note(&p.said, fmt.Sprintf("%+v", m))
		}
	}()
	p.do(chromedp.EmulateViewport(int64(width), int64(height)), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noteStreams})
		return err
	}))
	p.Go(url)
	t.Cleanup(func() {
		if t.Failed() {
			p.Shot(filepath.Join(os.TempDir(), strings.ReplaceAll(t.Name(), "/", "_")+".png"))
			t.Logf("console: %q", p.said)
		}
	})
	return p
}

func (p *Tab) note(list *[]string, s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, s)
}

func (p *Tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// Go opens an address.
func (p *Tab) Go(url string) { p.t.Helper(); p.do(chromedp.Navigate(url)) }

// See waits until the expression of JavaScript is true.
func (p *Tab) See(what string) {
	p.t.Helper()
	var last error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+what+")"))
		if err == nil && ok {
			return
		}
		last = err
	}
	text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	p.t.Fatalf("not seen within %s: %s (%v)\nthe page says:\n%s", patience, what, last, text)
}

// Text waits until an element shows a text.
func (p *Tab) Text(css, text string) {
	p.t.Helper()
	p.See(fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q))", css, text))
}

// Gone waits until no element fits.
func (p *Tab) Gone(css string) { p.t.Helper(); p.See(fmt.Sprintf("!document.querySelector(%q)", css)) }

// Count is how many elements fit.
func (p *Tab) Count(css string) int {
	p.t.Helper()
	return Eval[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", css))
}

// Eval reads an expression of JavaScript. A promise is waited for.
func Eval[T any](p *Tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, js)
	return v
}

// Click waits for an element and clicks it.
func (p *Tab) Click(css string) {
	p.t.Helper()
	p.See(fmt.Sprintf("document.querySelector(%q)", css))
	p.do(chromedp.Click(chromedp.CSS(css)))
}

// Press clicks the first button, link or summary within css that says text.
func (p *Tab) Press(css, text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find(e => e.matches('button, a, summary') && !e.disabled && e.textContent.trim().includes(%q))", css+", "+css+" *", text)
	p.See(find)
	Eval[bool](p, "("+find+").setAttribute('data-pressed', ''), true")
	p.do(chromedp.Click(chromedp.CSS("[data-pressed]")), chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('[data-pressed]').forEach(e => e.removeAttribute('data-pressed'))"))
}

// Type writes into a field.
func (p *Tab) Type(css, text string) {
	p.t.Helper()
	p.See(fmt.Sprintf("document.querySelector(%q)", css))
	p.do(chromedp.SendKeys(chromedp.CSS(css), text))
}

// Choose sets the value of a list.
func (p *Tab) Choose(css, value string) {
	p.t.Helper()
	p.See(fmt.Sprintf("document.querySelector(%q)", css))
	Eval[bool](p, fmt.Sprintf("(e => (e.value = %q, e.dispatchEvent(new Event('change', {bubbles: true}))))(document.querySelector(%q))", value, css))
}

// Say writes a message, as if it were pasted, and sends it with the Enter key.
func (p *Tab) Say(text string) {
	p.t.Helper()
	p.See("document.querySelector('#text')")
	js, err := json.Marshal(text)
	require.NoError(p.t, err)
	require.True(p.t, Eval[bool](p, fmt.Sprintf("document.querySelector('#text').focus(), document.execCommand('insertText', false, %s)", js)))
	p.See("document.activeElement.id === 'text' && !document.querySelector('.composer button.main').disabled")
	p.Key(kb.Enter)
	p.See("document.querySelector('#text').value === ''")
}

// Key presses a key, such as Escape.
func (p *Tab) Key(key string) { p.t.Helper(); p.do(chromedp.KeyEvent(key)) }

// command sends a command to the browser, about the tab.
func command[P, R any](p *Tab, c cdp.Command[P, R], params func(of cdp.BrowserContextID) P) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		this, err := cdp.Call(ctx, t, target.GetTargetInfo, target.GetTargetInfoParams{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, c, params(this.TargetInfo.BrowserContextID))
		return err
	}))
}

// Drop drops a file from elsewhere in the middle of the page.
func (p *Tab) Drop(path string) {
	p.t.Helper()
	for _, typ := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		command(p, input.DispatchDragEvent, func(cdp.BrowserContextID) input.DispatchDragEventParams {
			return input.DispatchDragEventParams{Type: typ, X: 150, Y: 300, Data: &input.DragData{Items: []*input.DragDataItem{}, Files: []string{path}, DragOperationsMask: 1}}
		})
	}
}

// Shortcut presses a key where nothing is being written, before the page moves the focus.
func (p *Tab) Shortcut(key string) {
	p.t.Helper()
	Eval[bool](p, fmt.Sprintf("document.activeElement.blur(), document.body.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true})), true", key))
}

// Thread is the conversation that the page shows.
func (p *Tab) Thread() string {
	p.t.Helper()
	p.See("new URLSearchParams(location.search).get('thread')")
	return Eval[string](p, "new URLSearchParams(location.search).get('thread')")
}

// Shot saves a picture of what is seen.
func (p *Tab) Shot(path string) {
	b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("no picture: %v", err)
		return
	}
	if err := os.WriteFile(path, b, 0o644); err == nil {
		p.t.Logf("picture: %s", path)
	}
}

// Resize changes the size of the view.
func (p *Tab) Resize(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// Asked are the addresses that were asked for so far.
func (p *Tab) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.asked...)
}
