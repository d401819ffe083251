package httpapi_test

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// manages finds, renames, exports and deletes a conversation; not while it is at work.
func (b *bench) manages() {
	b.t.Helper()
	r := b.say("kept", script.Script(script.Task("general", "say the child ```found``` an albatross"), "say here is the pelican"))
	require.Equal(b.t, "completed", b.ends(r).Status)
	thread := "/api/v1/threads/" + id(r.ThreadID)
	var list struct{ Threads []memory.Found }
	b.get("/api/v1/threads?q=PELICAN+").is(200).into(&list)
	require.Len(b.t, list.Threads, 1)
	require.Equal(b.t, r.ThreadID, list.Threads[0].ID)
	require.Contains(b.t, list.Threads[0].Snippet, "here is the pelican")
	require.Empty(b.t, list.Threads[0].Config.SystemPrompt)
	require.Equal(b.t, "{\"threads\":[]}\n", b.send(as(b.request(http.MethodGet, "/api/v1/threads?q=pelican", nil), other)).is(200).body, "of another user")

	var named agent.Thread
	b.send(b.request(http.MethodPatch, thread, map[string]any{"topic": " Birds\nof the sea "})).is(200).into(&named)
	require.Equal(b.t, "Birds of the sea", named.Topic)
	for _, bad := range []string{"", " ", strings.Repeat("x", 201)} {
		b.send(b.request(http.MethodPatch, thread, map[string]any{"topic": bad})).fails(400, "invalid", "200")
	}
	b.get("/api/v1/threads?q=of+the+sea").is(200).into(&list)
	require.Equal(b.t, named.ID, list.Threads[0].ID)

	var file struct{ Threads []spool.View }
	json := b.get(thread + "/export").is(200).into(&file)
	require.Contains(b.t, json.header.Get("Content-Disposition"), "attachment; filename=\"kept-")
	require.Len(b.t, file.Threads, 2)
	require.NotEmpty(b.t, file.Threads[1].Events)
	md := b.get(thread + "/export?format=md").is(200)
	require.Equal(b.t, "text/markdown; charset=utf-8", md.header.Get("Content-Type"))
	for _, part := range []string{"# Birds of the sea\n", "## assistant\n\nhere is the pelican\n", "# Sub-agent general\n", "an albatross", "````\n"} {
		require.Contains(b.t, md.body, part)
	}
	b.get(thread+"/export?format=exe").fails(400, "invalid", "json or md")

	sub := "/api/v1/threads/" + id(file.Threads[1].Thread.ID)
	b.send(b.request(http.MethodDelete, sub, nil)).fails(400, "invalid", named.ID)
	b.send(b.request(http.MethodPatch, sub, map[string]any{"topic": "x"})).fails(400, "invalid", named.ID)
	busy := b.say("busy-one", script.Script(script.Call("ask_user", map[string]any{"question": "Which?"}), "say never"))
	require.Equal(b.t, "waiting_for_user", b.ends(busy).Status)
	at := "/api/v1/threads/" + id(busy.ThreadID)
	b.send(b.request(http.MethodDelete, at, nil)).fails(409, "conflict")
	b.send(b.request(http.MethodPatch, at, map[string]any{"topic": "x"})).fails(409, "conflict")
	b.post(at+"/cancel", map[string]any{"turnId": busy.TurnID}).is(200)
	require.Equal(b.t, "cancelled", b.ends(busy).Status)
	var gone memory.DeleteResult
	b.send(b.request(http.MethodDelete, thread, nil)).is(200).into(&gone)
	require.Len(b.t, gone.Threads, 2)
	b.get(thread).fails(404, "not_found")
	b.get(sub).fails(404, "not_found")
	b.send(b.request(http.MethodDelete, thread, nil)).fails(404, "not_found")
}
