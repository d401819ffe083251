package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// farOff makes each request of a tab take 100 ms more, over 1.5 Mbit/s.
func (p *Tab) farOff() {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Latency: 100, DownloadThroughput: 1.5e6 / 8, UploadThroughput: 1.5e6 / 8}},
		})
		return err
	}))
}

// noteArticle keeps when a message was there.
const noteArticle = `new MutationObserver((_, o) => {
	if (document.querySelector("article")) {
		window.articleAt = performance.now();
		o.disconnect();
	}
}).observe(document, { childList: true, subtree: true });`

// On a slow line a browser that has nothing of the page yet asks for all that it needs at
// once, the conversation included: nothing waits for another answer. How long it takes is
// logged; docs/figures.md has it.
func TestAll_FirstPaintOnASlowLine(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	long(t, s, "long-session", 500)
	url := s.StartWeb().URL
	p := Open(t, url+"/api/v1/openapi.json", 1280, 800) // loads nothing of the page
	Eval[bool](p, fmt.Sprintf("fetch('/api/v1/login', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({token: %q})}).then((r) => r.ok)", tt.WebToken))
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noteArticle})
		return err
	}))
	p.farOff()
	p.Go(url + "/?thread=long-session%2Fdefault")
	p.See("window.articleAt && performance.getEntriesByName('first-contentful-paint').length")
	p.Text("article", "answer 249")
	t.Logf("first paint after %.0f ms, messages after %.0f ms, at 100 ms and 1.5 Mbit/s",
		Eval[float64](p, "performance.getEntriesByName('first-contentful-paint')[0].startTime"), Eval[float64](p, "articleAt"))
	require.Greater(t, Eval[int](p, "performance.getEntriesByType('resource').filter((r) => r.startTime < articleAt).length"), 10)
	require.Equal(t, "", Eval[string](p, `(() => {
		// Messages do not need the stream, the list of the tree (asked for once they are here) and the tab's icon.
		const all = performance.getEntriesByType("resource").filter((r) => r.startTime < articleAt && !/\/follow|\/threads\?root=|\/icon\.svg$/.test(r.name));
		// What the page itself names is asked for while it is read; on a busy machine that takes until after the first answer.
		const named = new Set([...document.querySelectorAll("head [href], script[src]")].map((e) => e.href || e.src));
		const first = Math.min(...all.map((r) => r.responseStart).filter((at) => at > 0));
		return all.filter((r) => r.startTime > first && !named.has(r.name)).map((r) => r.name).join(" ");
	})()`), "what is asked for only after the first answer")
	require.Less(t, Eval[float64](p, "performance.getEntriesByName('first-contentful-paint')[0].startTime"), Eval[float64](p, "articleAt"), "the page is painted before its messages are there")
}
