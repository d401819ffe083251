package tool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

//go:embed web_search.md
var webSearchDoc string

// tavilyURL is the search service's address.
const tavilyURL = "https://api.tavily.com/search"

type webSearchArgs struct {
	Query string `json:"query"`
}

type searchReply struct {
	Answer  string `json:"answer"`
	Results []struct {
		Title   string `json:"title"`
		URL     string `json:"url"`
		Content string `json:"content"`
	} `json:"results"`
}

// WebSearch asks Tavily. An empty endpoint means Tavily's own.
func WebSearch(key, endpoint string) agent.Tool {
	if endpoint == "" {
		endpoint = tavilyURL
	}
	client := &http.Client{}
	spec := readOnly("web_search", webSearchDoc, `{"type":"object","properties":{
		"query":{"type":"string","minLength":1,"description":"What to search for."}},
		"required":["query"],"additionalProperties":false}`, time.Minute)
	return Func(spec, func(ctx context.Context, _ agent.ToolRun, a webSearchArgs) agent.ToolResult {
		body, _ := json.Marshal(map[string]any{"query": a.Query, "max_results": 8})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
		if err != nil {
			return agent.ToolFailed(agent.ErrUnknown, "Error: the search service's address is not valid: %v.", err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return webFailure(ctx, "The search", err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes))
		if err != nil {
			return webFailure(ctx, "The search", err)
		}
		return searchResult(resp, raw, a.Query)
	})
}

func searchResult(resp *http.Response, raw []byte, query string) agent.ToolResult {
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return agent.ToolFailed(agent.ErrPermissionDenied, "Error: the search service refused the key (%s); check TAVILY_API_KEY of the worker.", resp.Status)
	}
	if resp.StatusCode >= 400 {
		return agent.ToolFailed(statusReason(resp.StatusCode), "Error: the search service answered %s: %s", resp.Status, Clip(string(raw), 500))
	}
	var reply searchReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		return agent.ToolFailed(agent.ErrNetwork, "Error: the search service sent an answer that is not JSON: %s", Clip(string(raw), 500))
	}
	if len(reply.Results) == 0 {
		return agent.ToolOK("No results for " + query + ".")
	}
	var b strings.Builder
	if reply.Answer != "" {
		fmt.Fprintf(&b, "%s\n\n", reply.Answer)
	}
	for i, r := range reply.Results {
		fmt.Fprintf(&b, "%d. %s\n   %s\n   %s\n", i+1, oneLine(r.Title), oneLine(r.URL), oneLine(r.Content))
	}
	return agent.ToolOK(b.String())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
