package browser

import (
	"context"
	"fmt"
	"slices"
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

// On a slow line a conversation of 500 messages is there soon, for a browser that has
// nothing of the page yet. Of several tries the best counts: others share the machine.
func TestFirstPaintOnASlowLine(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	long(t, s, "long-session", 500)
	url := s.StartWeb().URL
	var paints, messages []float64
	for range 5 {
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
		paints = append(paints, Eval[float64](p, "performance.getEntriesByName('first-contentful-paint')[0].startTime"))
		messages = append(messages, Eval[float64](p, "articleAt"))
		if t.Logf("requests: %s", Eval[string](p, "performance.getEntriesByType('resource').map((r) => r.name.replace(/.*\\//, '') + ' ' + Math.round(r.startTime) + '-' + Math.round(r.responseEnd)).join('; ')")); paints[len(paints)-1] <= 800 && messages[len(messages)-1] <= 1500 {
			break
		}
		p.Close()
	}
	t.Logf("first paint after %.0f ms, messages after %.0f ms, at 100 ms and 1.5 Mbit/s", paints, messages)
	require.LessOrEqual(t, slices.Min(paints), 800.0)
	require.LessOrEqual(t, slices.Min(messages), 1500.0)
}
