package copy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// restoredKey and a session's id are the key in meta of when it was imported
// last: until then it was not active, but it was not abandoned either.
const restoredKey = "restored:"

// importedText is why a turn ended that an imported file holds as open.
const importedText = "the conversation was imported, and this turn had not ended: go on with a message, or retry it"

// ImportThreads adds threads as they were, as closed history: nothing in a file
// makes a worker act, and no later turn gets a policy or a permission from it.
func (s *Store) ImportThreads(ctx context.Context, r memory.ImportRequest) (memory.ImportResult, error) {
	return writing(ctx, s, "import", func(u *unit) (res memory.ImportResult) {
		end := &closing{unit: u}
		for _, record := range r.Threads {
			added := false
			err := rows.Caught(func() { added = end.restore(r, record) })
			rows.Check(agent.Wrap(err, agent.CodeOf(s.rows.Fail("import", err)), "thread %s cannot be imported", record.Thread.ID))
			if !added {
				res.Present = append(res.Present, record.Thread.ID)
				continue
			}
			res.Added = append(res.Added, record.Thread.ID)
			u.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
				restoredKey+record.Thread.SessionID, rows.Stamp(u.Now).Format(restoredForm))
			// With a time to come it would be the newest for good, which --continue takes.
			u.Exec(`UPDATE threads SET updated_at = ? WHERE id = ? AND updated_at > ?`, u.Now, record.Thread.ID, u.Now)
		}
		rows.Check(s.rows.NotOurs(rows.Caught(end.close), "what is open in the threads cannot be closed"))
		res.Dropped = end.dropped
		end.checkClosed()
		return res
	})
}

// restore adds one thread, or reports that it is there as it should be.
func (c *closing) restore(r memory.ImportRequest, record memory.ThreadRecord) (added bool) {
	plain, strays := len(record.Rows) == 0, 0
	if plain {
		record.Messages, strays = pairUp(record.Messages)
		record.Thread.UserID, record.Thread.Profile = cmp.Or(r.UserID, record.Thread.UserID), cmp.Or(r.Profile, record.Thread.Profile)
	}
	checkRecord(r, record.Thread)
	if t := c.ThreadRow(record.Thread.ID); t != nil && t.UserID != record.Thread.UserID {
		rows.Refuse(agent.CodeConflict, "its id is taken")
	}
	if there := c.FindThread("", record.Thread.ID); there != nil {
		c.sameThread(there, record, plain)
		return false
	}
	c.parentOf(record.Thread)
	if plain {
		c.restorePlain(r, record)
		if strays > 0 {
			c.leaveOut(record.Thread.ID, fmt.Sprintf("%d results of tools that no call before them made: they are texts of the assistant now", strays))
		}
		return true
	}
	var a archive
	rows.Check(agent.Wrap(json.Unmarshal(record.Rows, &a), agent.CodeInvalid, "its rows cannot be read"))
	if unknown := a.unknownTables(); a.Version != archiveVersion || len(unknown) > 0 {
		rows.Refuse(agent.CodeInvalid, "it was exported by a newer program (version %d, tables %s): import it with that program, or leave its \"store\" out to import the messages alone",
			a.Version, strings.Join(unknown, ", "))
	}
	for _, part := range archived {
		c.check(part.table, a.Tables[part.table])
	}
	checkArchive(a, record.Thread)
	c.harmless(a, record.Thread)
	for _, part := range archived {
		if part.use&loaded == 0 {
			continue
		}
		c.load(part.table, a.Tables[part.table], part.use&shared != 0)
	}
	c.sessionOf(record.Thread)
	c.loadMessages(record)
	c.Refer(record.Thread.ID, string(record.Rows))
	c.list = append(c.list, c.Thread(record.Thread.ID))
	return true
}

// harmless takes out of the rows what a later turn would be run with: what a
// person allowed, which model was chosen, and the agents' configurations but for
// what describes them.
func (c *closing) harmless(a archive, t agent.Thread) {
	if n := len(a.Tables["approved_tools"].all()); n > 0 && t.Kind == agent.KindMain {
		c.leaveOut(t.ID, fmt.Sprintf("%d tools that were allowed for the session: the next call of each asks again", n))
	}
	hashes := map[string]string{}
	for _, r := range a.Tables["configs"].all() {
		var old agent.SpecialistAgentConfig
		rows.Check(agent.Wrap(json.Unmarshal([]byte(r.text("body")), &old), agent.CodeInvalid, "its configuration cannot be read"))
		described := agent.SpecialistAgentConfig{
			Name: old.Name, Description: old.Description, Model: old.Model, Provider: old.Provider,
			ShareContext: old.ShareContext, SharedSeq: old.SharedSeq,
		}
		if t.Kind == agent.KindSubAgent { // each of its turns gets its configuration from a call
			described.SystemPrompt = old.SystemPrompt
		}
		hashes[r.text("hash")] = c.KeepConfig(described)
	}
	for _, name := range []string{"threads", "inbox"} {
		for _, r := range a.Tables[name].all() {
			r.set("config_hash", hashes[r.text("config_hash")])
		}
	}
	for _, r := range a.Tables["threads"].all() {
		if model := r.text("pick_model"); model != "" {
			c.leaveOut(t.ID, "the choice of model "+model+": send with --model to choose it again")
		}
		r.set("pick_model", "")
	}
	for _, name := range []string{"steps", "tool_calls"} {
		for _, r := range a.Tables[name].all() {
			r.set("worker", "")
		}
	}
}

// checkRecord refuses ids that do not fit together, and other users' threads.
func checkRecord(r memory.ImportRequest, t agent.Thread) {
	p := rows.Must(agent.ParseThreadID(t.ID))
	switch {
	case t.UserID == "":
		rows.Refuse(agent.CodeInvalid, "it has no user: name one")
	case r.UserID != "" && t.UserID != r.UserID:
		rows.Refuse(agent.CodeInvalid, "it belongs to user %q: import it as that user", t.UserID)
	case p.Kind != t.Kind, p.Kind == agent.KindMain && (p.SessionID != t.SessionID || p.ConversationID != t.ConversationID),
		p.Kind == agent.KindSubAgent && (p.AgentType != t.AgentType || p.AgentID != t.AgentID),
		(p.Kind == agent.KindSubAgent) != (t.ParentThreadID != ""),
		p.Kind == agent.KindMain && t.RootThreadID != t.ID:
		rows.Refuse(agent.CodeInvalid, "its ids contradict each other")
	}
	rows.Check(agent.CheckName("session", t.SessionID))
}

// parentOf makes sure that a sub-agent gets a parent, its own user's.
func (u *unit) parentOf(t agent.Thread) {
	if t.Kind == agent.KindMain {
		return
	}
	parent := u.FindThread(t.UserID, t.ParentThreadID)
	if parent == nil {
		rows.Refuse(agent.CodeInvalid, "its parent %s is not there: import it with its parent", t.ParentThreadID)
	}
	if parent.RootThreadID != t.RootThreadID || parent.SessionID != t.SessionID || parent.Depth+1 != t.Depth {
		rows.Refuse(agent.CodeInvalid, "it does not fit below its parent %s (root %s, session %s, depth %d)", parent.ID, parent.RootThreadID, parent.SessionID, parent.Depth)
	}
}

// sessionOf makes sure that the session is the thread's user's.
func (u *unit) sessionOf(t agent.Thread) {
	var owner string
	if !u.One(`SELECT user_id FROM sessions WHERE id = ?`, t.SessionID).Into(&owner) {
		rows.Refuse(agent.CodeInvalid, "its session %s is missing", t.SessionID)
	}
	if owner != t.UserID {
		rows.Refuse(agent.CodeConflict, "the id of its session, %s, is taken", t.SessionID)
	}
}

// sameThread makes sure that a thread which is there holds the messages of one to
// be imported, and perhaps later ones.
func (u *unit) sameThread(there *rows.Thread, record memory.ThreadRecord, plain bool) {
	have := u.Messages(there.ID)
	same := len(have) >= len(record.Messages)
	for i, m := range record.Messages {
		if !same || plain && m.Role == have[i].Role && m.Content.String() == have[i].Content.String() {
			continue
		}
		m.SupersededBy, have[i].SupersededBy = "", ""
		same = rows.Must(rows.Encode(m)) == rows.Must(rows.Encode(have[i]))
	}
	if !same {
		rows.Refuse(agent.CodeConflict, "it is there already, with other messages: delete it first, or keep what is there")
	}
}

// turnForm is the form of the ids of turns: a fork renames what is of that form.
var turnForm = regexp.MustCompile(`^t[0-9a-f]{16}$`)

// checkArchive refuses rows that belong to another thread.
func checkArchive(a archive, t agent.Thread) {
	if len(a.Tables["threads"].all()) != 1 || len(a.Tables["sessions"].all()) != 1 {
		rows.Refuse(agent.CodeInvalid, "its rows are not those of one thread of one session")
	}
	turns, calls := map[string]bool{}, map[string]bool{}
	for _, r := range a.Tables["turns"].all() {
		turns[r.text("id")] = turnForm.MatchString(r.text("id"))
	}
	for _, r := range a.Tables["tool_calls"].all() {
		calls[r.text("id")] = r.text("id") != ""
	}
	one := func(id string) map[string]bool { return map[string]bool{id: true} }
	thread, root, user := one(t.ID), one(t.RootThreadID), one(t.UserID)
	for _, part := range archived {
		belongs := map[string]map[string]bool{"thread_id": thread, "root_id": root, "user_id": user, "session_id": one(t.SessionID), "turn_id": turns, "call_id": calls}
		switch part.table {
		case "threads":
			belongs["id"], belongs["parent_id"], belongs["kind"], belongs["profile"] = thread, one(t.ParentThreadID), one(string(t.Kind)), one(t.Profile)
			belongs["conversation_id"], belongs["agent_type"], belongs["agent_id"] = one(t.ConversationID), one(t.AgentType), one(t.AgentID)
		case "sessions":
			belongs["id"] = one(t.SessionID)
		case "turns":
			belongs["id"] = turns
		case "tool_calls":
			belongs["id"] = calls
		case "budgets":
			belongs["root_id"] = thread
		case "inbox": // the turn that it opens, the call that ordered it
			delete(belongs, "turn_id")
			delete(belongs, "call_id")
		case "asks": // an approval is of several calls
			belongs["call_id"] = maps.Clone(calls)
			belongs["call_id"][""] = true
		case "events": // some belong to no turn
			delete(belongs, "turn_id")
		}
		for _, r := range a.Tables[part.table].all() {
			for column, allowed := range belongs {
				if v, is := r.get(column).(string); slices.Contains(r.columns, column) && !(is && allowed[v]) {
					rows.Refuse(agent.CodeInvalid, "a row of %s is not its own: %s is %.80q", part.table, column, fmt.Sprint(r.get(column)))
				}
			}
		}
	}
}

// loadMessages inserts messages under the seq that they have.
func (u *unit) loadMessages(record memory.ThreadRecord) {
	for i, m := range record.Messages {
		if m.Seq != int64(i+1) {
			rows.Refuse(agent.CodeInvalid, "message %d has seq %d: restore the file, or leave its \"store\" out to number its messages anew", i+1, m.Seq)
		}
		u.insertMessage(record.Thread.ID, m)
	}
}

// insertMessage inserts a message under its seq.
func (u *unit) insertMessage(threadID string, m agent.Message) {
	superseded := m.SupersededBy
	m.SupersededBy = ""
	body := rows.Must(rows.Encode(m))
	u.Exec(`INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, ?, ?)`, threadID, m.Seq, m.ID, superseded, body)
	u.Refer(threadID, body)
}
