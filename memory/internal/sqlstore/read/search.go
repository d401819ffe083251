package read

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// What a search looks through: so many of the newest conversations, and in each the last
// messages. mostFound bounds what it finds, mostTried the messages in which a word may
// stand that is none of the text.
const (
	searchedThreads  = 300
	searchedMessages = 2000
	mostFound        = 50
	mostTried        = 20
	longestSearch    = 1000 // bytes; SQLite takes no pattern above 50,000
	snippetAround    = 60
)

// Search finds conversations by their topics and texts, the newest first.
func (s *Store) Search(ctx context.Context, userID, profile, text string) ([]memory.Found, error) {
	text = strings.ToLower(strings.TrimSpace(rows.Clean(text)))
	if text == "" {
		return nil, nil
	}
	if len(text) > longestSearch {
		return nil, agent.Errorf(agent.CodeInvalid, "a search for %d bytes: at most %d are looked for", len(text), longestSearch)
	}
	written, err := rows.Encode(text) // as it stands in a message's body
	if err != nil {
		return nil, err
	}
	inTopic, inBody := like(text), like(strings.Trim(written, `"`))
	where, args := `kind = 'main'`, []any{}
	for _, c := range [][2]string{{userID, "user_id = ?"}, {profile, "COALESCE(NULLIF(profile, ''), '" + memory.DefaultProfile + "') = ?"}} {
		if c[0] != "" {
			where, args = where+" AND "+c[1], append(args, c[0])
		}
	}
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.Found {
		found := []memory.Found{}
		threads := rows.List(q, "", (*rows.Thread).Targets, q.Listed, rows.SelectThread+
			` WHERE id IN (SELECT id FROM threads WHERE `+where+` ORDER BY updated_at DESC, id LIMIT `+strconv.Itoa(searchedThreads)+`)`+
			` AND (LOWER(topic) LIKE ? ESCAPE '!' OR EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = threads.id AND m.seq > threads.last_message - `+strconv.Itoa(searchedMessages)+
			` AND LOWER(m.body) LIKE ? ESCAPE '!')) ORDER BY updated_at DESC, id LIMIT `+strconv.Itoa(mostFound), append(args, inTopic, inBody)...)
		for _, t := range threads {
			f := memory.Found{Thread: t}
			messages := rows.Find(q, func(m *rows.Message) []any { return []any{&m.Seq, &m.Body, &m.SupersededBy} }, nil,
				`SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? AND seq > ? AND LOWER(body) LIKE ? ESCAPE '!' ORDER BY seq DESC LIMIT `+strconv.Itoa(mostTried),
				t.ID, t.MessageCount-searchedMessages, inBody)
			for _, row := range messages {
				var m agent.Message
				if rows.Caught(func() { m = row.Message(t.ID) }) != nil {
					continue // damaged
				}
				if f.Snippet = snippet(m.Content.String(), text); f.Snippet != "" {
					f.Seq = m.Seq
					break
				}
			}
			if f.Snippet != "" || strings.Contains(strings.ToLower(t.Topic), text) {
				found = append(found, f)
			}
		}
		return found
	})
}

// like is a pattern for a text that stands anywhere.
func like(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// snippet is what stands around the first place of a text, in one line; "" if it is not
// there.
func snippet(content, text string) string {
	runes, wanted := []rune(content), []rune(text)
	for at := 0; at+len(wanted) <= len(runes); at++ {
		if !slices.EqualFunc(runes[at:at+len(wanted)], wanted, func(r, w rune) bool { return unicode.ToLower(r) == w }) {
			continue
		}
		from, to := max(0, at-snippetAround), min(len(runes), at+len(wanted)+snippetAround)
		out := strings.Join(strings.Fields(string(runes[from:to])), " ")
		if from > 0 {
			out = "…" + out
		}
		if to < len(runes) {
			out += "…"
		}
		return out
	}
	return ""
}
