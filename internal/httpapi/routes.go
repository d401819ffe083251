package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// handler answers a request with a document. nil means that it has written its answer
// itself.
type handler func(*Server, *call) (any, error)

// route is one operation of the API, as openapi.yaml describes it. Its path is
// written the same there.
type route struct {
	method, path string
	handle       handler
	// query names the parameters that the operation knows; "*" = any.
	query string
	// status is that of a good answer; 0 = 200.
	status int
	// public needs no user.
	public bool
	// packs compresses the answer for who takes that: those of the page, which are long.
	packs bool
	// bound limits the body, in bytes; 0 = maxBody.
	bound int64
}

// Beginnings of paths.
const (
	oneThread = "/api/v1/threads/{thread}"
	chats     = "/api/v1/users/{user}/orch-chats"
	oneChat   = chats + "/{chatId}"
	subAgent  = oneChat + "/sub-agents/{id}"
)

// operations are all routes but the page.
var operations = []route{
	{method: "GET", path: "/healthz", handle: (*Server).health, public: true},
	{method: "GET", path: "/livez", handle: (*Server).livez, public: true},
	{method: "GET", path: "/readyz", handle: (*Server).readyz, public: true},
	{method: "GET", path: "/metrics", handle: (*Server).metrics, query: "*"},
	{method: "GET", path: "/api/v1/openapi.json", handle: (*Server).document, public: true},
	{method: "POST", path: "/api/v1/login", handle: (*Server).login, public: true},
	{method: "POST", path: "/api/v1/logout", handle: (*Server).logout},
	{method: "GET", path: "/api/v1/me", handle: (*Server).me},
	{method: "GET", path: "/api/v1/open", handle: (*Server).first, query: "thread inspect last", packs: true},
	{method: "GET", path: "/api/v1/views", handle: (*Server).views, query: "thread last", packs: true},
	{method: "GET", path: "/api/v1/agents", handle: (*Server).agents},

	{method: "GET", path: "/api/v1/threads", handle: (*Server).threads, query: "all session workdir root parent working prefix status after limit q", packs: true},
	{method: "GET", path: oneThread, handle: (*Server).thread, query: "events last", packs: true},
	{method: "PATCH", path: oneThread, handle: (*Server).rename},
	{method: "DELETE", path: oneThread, handle: (*Server).remove},
	{method: "GET", path: oneThread + "/export", handle: (*Server).export, query: "format", packs: true},
	{method: "GET", path: oneThread + "/messages", handle: (*Server).messages, query: messagePages, packs: true},
	{method: "GET", path: oneThread + "/events", handle: (*Server).events, query: "after limit"},
	{method: "GET", path: oneThread + "/tasks", handle: reads("tasks", (*spool.Client).Tasks)},
	{method: "GET", path: oneThread + "/tool-calls", handle: reads("toolCalls", (*spool.Client).ToolCalls)},
	{method: "GET", path: oneThread + "/trace", handle: reads("", (*spool.Client).Trace)},
	{method: "GET", path: oneThread + "/tails", handle: reads("tails", (*spool.Client).TailTree)},
	{method: "GET", path: oneThread + "/turns", handle: reads("turns", (*spool.Client).Turns)},
	{method: "GET", path: oneThread + "/turns/{turn}", handle: (*Server).turn, query: "wait patient served"},
	{method: "GET", path: oneThread + "/spans", handle: func(_ *Server, c *call) (any, error) {
		return c.client.Spans(c.r.Context(), c.thread, c.query().Get("turn"))
	}, query: "turn", packs: true},
	{method: "GET", path: oneThread + "/turns/{turn}/steps/{step}", handle: func(_ *Server, c *call) (any, error) {
		n, _ := strconv.Atoi(c.path("step")) // there is no step 0
		return c.client.Sent(c.r.Context(), c.thread, c.path("turn"), n)
	}, packs: true},
	{method: "GET", path: "/api/v1/tool-calls/{call}", handle: func(_ *Server, c *call) (any, error) {
		return c.client.ToolCall(c.r.Context(), c.path("call"))
	}},
	{method: "GET", path: "/api/v1/tool-calls/{call}/before", handle: (*Server).before},
	{method: "GET", path: oneThread + "/follow", handle: (*Server).followThread, query: "from untilIdle untilTurn"},
	{method: "POST", path: oneThread + "/follow", handle: (*Server).followTree},
	{method: "GET", path: "/api/v1/follow", handle: (*Server).followMany, query: "thread threads from since once"},
	{method: "GET", path: "/api/v1/tool-calls/{call}/output", handle: (*Server).toolOutput},

	{method: "POST", path: "/api/v1/images", handle: (*Server).keepImage, bound: maxImage},
	{method: "GET", path: "/api/v1/images/{name}", handle: (*Server).image},
	{method: "POST", path: "/api/v1/messages", handle: (*Server).send, status: http.StatusAccepted, bound: maxMessage},
	{method: "POST", path: oneThread + "/cancel", handle: command((*spool.Client).Cancel, func(r *memory.CancelRequest, c *call) { r.ThreadID = c.thread })},
	{method: "POST", path: oneThread + "/retry", handle: (*Server).retry, status: http.StatusAccepted},
	{method: "POST", path: oneThread + "/fork", handle: command((*spool.Client).Fork, func(r *spool.ForkRequest, c *call) { r.ThreadID, r.RequestID = c.thread, c.keyed(r.RequestID) })},
	{method: "GET", path: "/api/v1/approvals", handle: (*Server).approvals, query: "thread"},
	{method: "POST", path: "/api/v1/approvals/{approval}/decision", handle: (*Server).decide},
	{method: "GET", path: "/api/v1/decisions", handle: (*Server).decisions},
	{method: "GET", path: "/api/v1/permissions", handle: (*Server).permissions, query: "session"},
	{method: "DELETE", path: "/api/v1/permissions", handle: (*Server).revoke, query: "session rule agent source"},
	{method: "GET", path: "/api/v1/questions", handle: reads("questions", (*spool.Client).Questions), query: "thread"},
	{method: "GET", path: "/api/v1/waits", handle: reads("waits", (*spool.Client).ModelWaits), query: "thread"},
	{method: "POST", path: "/api/v1/questions/{question}/answer", handle: (*Server).answer},

	{method: "POST", path: "/v1/chat/completions", handle: (*Server).complete, bound: maxMessage, query: "*"},
	{method: "GET", path: "/v1/models", handle: (*Server).models, query: "*"},
	{method: "GET", path: "/v1/models/{model}", handle: (*Server).model, query: "*"},

	// The collections of a user: chats, and in each its messages, tasks and sub-agents.
	{method: "GET", path: chats, handle: (*Server).chats, query: "after limit"},
	{method: "GET", path: oneChat, handle: reads("", (*spool.Client).Thread)},
	{method: "GET", path: oneChat + "/messages", handle: (*Server).messages, query: messagePages},
	{method: "POST", path: oneChat + "/messages", handle: (*Server).chatSend, status: http.StatusAccepted, bound: maxMessage},
	{method: "GET", path: oneChat + "/tasks", handle: (*Server).chatTasks, query: "all"},
	{method: "GET", path: oneChat + "/tasks/{task}", handle: (*Server).chatTask},
	{method: "GET", path: oneChat + "/sub-agents", handle: reads("subAgents", (*spool.Client).SubAgents)},
	{method: "GET", path: subAgent, handle: func(_ *Server, c *call) (any, error) {
		return c.client.SubAgent(c.r.Context(), c.path("chatId"), c.path("id"))
	}},
	{method: "GET", path: subAgent + "/messages", handle: (*Server).messages, query: messagePages},
	{method: "GET", path: subAgent + "/tool-calls", handle: (*Server).ownedCalls},
	{method: "GET", path: subAgent + "/tasks", handle: reads("tasks", (*spool.Client).Tasks)},
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
		mux.Handle(path, s.guarded(route{handle: func(_ *Server, c *call) (any, error) {
			c.w.Header().Set("Allow", strings.Join(known, ", "))
			if strings.Contains(path, "/sub-agents") {
				return nil, &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "a sub-agent's thread takes work from its parent only: write to its chat"}
			}
			return nil, &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "this path knows " + strings.Join(known, " and ") + ", not " + c.r.Method}
		}, query: "*"}))
	}
	for _, prefix := range []string{"/api/", "/v1/"} {
		mux.Handle(prefix, s.guarded(route{handle: func(_ *Server, c *call) (any, error) {
			return nil, agent.Errorf(agent.CodeNotFound, "there is no %s here: see /api/v1/openapi.json", c.r.URL.Path)
		}, query: "*"}))
	}
	if s.o.Page != nil {
		mux.Handle("/", s.page())
	}
	return mux
}
