package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// route is one operation of the API, as openapi.yaml describes it. Its path is
// written the same there.
type route struct {
	method, path string
	handle       func(*Server, *call) error
	// public needs no user.
	public bool
	// bound limits the body, in bytes; 0 = maxBody.
	bound int64
}

// operations are all routes but the page.
var operations = []route{
	{method: "GET", path: "/healthz", handle: (*Server).health, public: true},
	{method: "GET", path: "/api/v1/openapi.json", handle: (*Server).document, public: true},
	{method: "POST", path: "/api/v1/login", handle: (*Server).login, public: true},
	{method: "POST", path: "/api/v1/logout", handle: (*Server).logout},
	{method: "GET", path: "/api/v1/me", handle: (*Server).me},
	{method: "GET", path: "/api/v1/agents", handle: (*Server).agents},

	{method: "GET", path: "/api/v1/threads", handle: (*Server).threads},
	{method: "GET", path: "/api/v1/threads/{thread}", handle: (*Server).thread},
	{method: "GET", path: "/api/v1/threads/{thread}/messages", handle: (*Server).messages},
	{method: "GET", path: "/api/v1/threads/{thread}/events", handle: (*Server).events},
	{method: "GET", path: "/api/v1/threads/{thread}/tasks", handle: (*Server).tasks},
	{method: "GET", path: "/api/v1/threads/{thread}/tool-calls", handle: (*Server).toolCalls},
	{method: "GET", path: "/api/v1/threads/{thread}/trace", handle: (*Server).trace},
	{method: "GET", path: "/api/v1/threads/{thread}/tails", handle: (*Server).tails},
	{method: "GET", path: "/api/v1/threads/{thread}/turns", handle: (*Server).turns},
	{method: "GET", path: "/api/v1/threads/{thread}/turns/{turn}", handle: (*Server).turn},
	{method: "GET", path: "/api/v1/threads/{thread}/turns/{turn}/timeline", handle: (*Server).timeline},
	{method: "GET", path: "/api/v1/threads/{thread}/follow", handle: (*Server).followThread},
	{method: "POST", path: "/api/v1/threads/{thread}/follow", handle: (*Server).followTree},
	{method: "GET", path: "/api/v1/follow", handle: (*Server).followMany},
	{method: "GET", path: "/api/v1/tool-calls/{call}/output", handle: (*Server).toolOutput},

	{method: "POST", path: "/api/v1/images", handle: (*Server).keepImage, bound: maxImage},
	{method: "GET", path: "/api/v1/images/{name}", handle: (*Server).image},
	{method: "POST", path: "/api/v1/messages", handle: (*Server).send, bound: maxMessage},
	{method: "POST", path: "/api/v1/threads/{thread}/cancel", handle: (*Server).cancel},
	{method: "POST", path: "/api/v1/threads/{thread}/retry", handle: (*Server).retry},
	{method: "POST", path: "/api/v1/threads/{thread}/fork", handle: (*Server).fork},
	{method: "GET", path: "/api/v1/approvals", handle: (*Server).approvals},
	{method: "POST", path: "/api/v1/approvals/{approval}/decision", handle: (*Server).decide},
	{method: "GET", path: "/api/v1/decisions", handle: (*Server).decisions},
	{method: "GET", path: "/api/v1/questions", handle: (*Server).questions},
	{method: "GET", path: "/api/v1/waits", handle: (*Server).waits},
	{method: "POST", path: "/api/v1/questions/{question}/answer", handle: (*Server).answer},

	{method: "POST", path: "/v1/chat/completions", handle: (*Server).complete, bound: maxMessage},
	{method: "GET", path: "/v1/models", handle: (*Server).models},
	{method: "GET", path: "/v1/models/{model}", handle: (*Server).model},

	{method: "GET", path: "/api/v1/users/{user}/orch-chats", handle: (*Server).chats},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}", handle: (*Server).chat},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/messages", handle: (*Server).chatMessages},
	{method: "POST", path: "/api/v1/users/{user}/orch-chats/{chatId}/messages", handle: (*Server).chatSend, bound: maxMessage},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/tasks", handle: (*Server).chatTasks},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/sub-agents", handle: (*Server).subAgents},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/sub-agents/{id}", handle: (*Server).subAgent},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/sub-agents/{id}/messages", handle: (*Server).subAgentMessages},
	{method: "GET", path: "/api/v1/users/{user}/orch-chats/{chatId}/sub-agents/{id}/tool-calls", handle: (*Server).subAgentCalls},
}

// routes makes the handler of all routes. A path that exists answers other methods
// with those it has; all other paths below /api and /v1 are not found.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range operations {
		mux.Handle(r.method+" "+r.path, s.guarded(r))
		methods[r.path] = append(methods[r.path], r.method)
	}
	for path, known := range methods {
		mux.Handle(path, s.guarded(route{path: path, handle: func(_ *Server, c *call) error {
			c.w.Header().Set("Allow", strings.Join(known, ", "))
			if strings.Contains(path, "/sub-agents") {
				return &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "a sub-agent's thread takes work from its parent only: write to its chat"}
			}
			return &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "this path knows " + strings.Join(known, " and ") + ", not " + c.r.Method}
		}}))
	}
	for _, prefix := range []string{"/api/", "/v1/"} {
		mux.Handle(prefix, s.guarded(route{path: prefix, handle: func(_ *Server, c *call) error {
			return agent.Errorf(agent.CodeNotFound, "there is no %s here: see /api/v1/openapi.json", c.r.URL.Path)
		}}))
	}
	if s.o.Page != nil {
		mux.Handle("/", s.page())
	}
	return mux
}

func isRead(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}
