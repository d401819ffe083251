package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// A user sends an image from a machine that shares nothing with the worker's but
// the store: the model gets it with the call, Temporal never holds more than the
// reference, and an export takes it along.
func TestImagesAreSentByReference(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	picture, data := drawn(t, 300)
	file := filepath.Join(t.TempDir(), "shot.png")
	require.NoError(t, os.WriteFile(file, picture, 0o600))
	elsewhere := t.TempDir()
	sender := func(args ...string) string {
		t.Helper()
		cmd := starterCommand(t, s, args...)
		cmd.Env = append(cmd.Env, "SPOOL_HOME="+elsewhere)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	sender("send", "-s", s.Session("s1"), "--image", file, "script: say seen")
	require.Equal(t, []string{"script: say seen", data}, partsSent(t, s))
	m := messages(t, s, s.Thread("s1"))[0]
	require.Regexp(t, `^image:[0-9a-f]{64}\.png$`, m.Content.Parts[1].ImageURL.URL)
	require.Less(t, historyOf(t, s, s.Thread("s1")).bytes, 20_000)
	require.Contains(t, sender("show", s.Thread("s1")), "[image "+m.Content.Parts[1].ImageURL.URL)
	require.NoDirExists(t, filepath.Join(elsewhere, "images"))

	dir := t.TempDir()
	require.Contains(t, sender("sessions", "export", s.Session("s1"), "--dir", dir), filepath.Join("images", m.Content.Images()[0]))
	other := filepath.Join(t.TempDir(), "other.db")
	cmd := starterCommand(t, s, "sessions", "import", dir)
	cmd.Env = append(cmd.Env, "SPOOL_STORE=sqlite:"+other)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	imported, err := sqlite.Open(t.Context(), other, sqlite.Options{})
	require.NoError(t, err)
	defer func() { _ = imported.Close() }()
	got, err := imported.Image(t.Context(), m.Content.Images()[0])
	require.NoError(t, err)
	require.Equal(t, picture, got)
}

// What cannot be shown is told in words and fails no turn; what can never be shown
// is refused when it is sent.
func TestImagesThatCannotBeShown(t *testing.T) {
	s := begin(t)
	s.Model.KeepBodies = true
	picture, data := drawn(t, 300)
	gone, _ := drawn(t, 100)
	file := filepath.Join(t.TempDir(), "shot.png")
	for path, bytes := range map[string][]byte{file: picture, filepath.Join(s.Work, "in.png"): picture, filepath.Join(s.Work, "text.png"): []byte("just text")} {
		require.NoError(t, os.WriteFile(path, bytes, 0o600))
	}
	require.NoError(t, os.Symlink(file, filepath.Join(s.Work, "out.png")))
	r := s.Message("s2", "")
	r.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: "script: say ok"}}}
	for _, url := range []string{"file:in.png", "file:" + filepath.Join(s.Work, "in.png"), "file:out.png", "file:../x.png", "file:/etc/passwd", "file:text.png", "https://example.com/a.png"} {
		r.Content.Parts = append(r.Content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: url}})
	}
	sent := send(t, s, r)
	require.Equal(t, "completed", s.Wait(sent).Status)
	got := partsSent(t, s)
	for i, want := range []string{"script: say ok", data, data, "cannot be shown", "cannot be shown", "cannot be shown", "is no PNG", "https://example.com/a.png"} {
		require.Contains(t, got[i], want)
	}
	for says, url := range map[string]string{"refer to it instead": data, "attach the image again": "image:" + nameOf(t, gone)} {
		r.Content.Parts[1].ImageURL.URL, r.MessageID = url, ""
		_, err := s.Client.Send(s.Ctx(), r)
		require.ErrorContains(t, err, says)
	}
	for _, wrong := range []string{filepath.Join(s.Work, "text.png"), filepath.Join(s.Work, "none.png"), s.Work} {
		says(t, s, 2, "send", "--image", wrong, "x")
	}
}

// drawn is a picture, and as a model gets it.
func drawn(t *testing.T, side int) (picture []byte, url string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))))
	return b.Bytes(), "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func nameOf(t *testing.T, picture []byte) string {
	t.Helper()
	name, err := agent.ImageName(picture)
	require.NoError(t, err)
	return name
}

// partsSent are the parts of the last user message of the last model call.
func partsSent(t *testing.T, s *tt.Stack) []string {
	t.Helper()
	records := s.Model.Records()
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(records[len(records)-1].Body, &body))
	var out []string
	for _, m := range body.Messages {
		var parts []agent.Part
		if m.Role != "user" || json.Unmarshal(m.Content, &parts) != nil {
			continue
		}
		out = nil
		for _, p := range parts {
			if p.ImageURL != nil {
				out = append(out, p.ImageURL.URL)
			} else {
				out = append(out, p.Text)
			}
		}
	}
	return out
}

// A tool of an MCP server answers with an image, a sound and a document: a model that
// takes images is shown the first, by reference, and all are kept where a person
// finds them. A model that takes none reads their names.
func TestAll_ImagesOfToolsAreShown(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	servers(t, home(s), free)
	models(t, s, "models:\n  - {match: \"seer*\", images: true}\n")
	template(t, s, "seer", "description: sees\nmodel: seer-1\n", "You see.")
	s.StartWorker()
	text := script.Script(call("contents", nil), "say seen")
	r := s.Message("s1", text)
	r.Agent = "seer"
	sent := send(t, s, r)
	require.Equal(t, "completed", s.Wait(sent).Status)
	parts := partsSent(t, s)
	require.Len(t, parts, 2, "text and image, after the results")
	require.Contains(t, parts[1], "data:image/png;base64,")
	result := messages(t, s, s.Thread("s1"))[2].Content.String()
	image := regexp.MustCompile(`\[image:([0-9a-f]{64}\.png), \d+ bytes\]`).FindStringSubmatch(result)
	require.NotNil(t, image, result)
	kept, err := s.Store.Image(s.Ctx(), image[1])
	require.NoError(t, err)
	require.Equal(t, "data:image/png;base64,"+base64.StdEncoding.EncodeToString(kept), parts[1])
	for _, ending := range []string{"wav", "pdf"} {
		path := regexp.MustCompile(`kept as (/\S+\.` + ending + `)\]`).FindStringSubmatch(result)
		require.NotNil(t, path, result)
		require.FileExists(t, path[1])
	}
	require.Less(t, historyOf(t, s, s.Thread("s1")).bytes, 30_000)

	require.Equal(t, "completed", s.Ask("s2", text).Status)
	require.Empty(t, partsSent(t, s), "nothing but text")
}

// shown sends a message with an image and waits for the answer.
func shown(t *testing.T, s *tt.Stack, session, text string) spool.Reply {
	t.Helper()
	picture, _ := drawn(t, 40)
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "shot.png"), picture, 0o600))
	m := s.Message(session, "")
	m.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: text}, {Type: "image_url", ImageURL: &agent.ImageURL{URL: "file:shot.png"}}}}
	sent := send(t, s, m)
	return s.Wait(sent)
}

// modelCalls lists the model calls so far as "model status", with an image or without.
func modelCalls(s *tt.Stack) (calls []string) {
	for _, r := range s.Model.Records() {
		call := r.Model + map[int]string{200: " answers", 400: " refuses", 404: " is unknown"}[r.Status]
		if strings.Contains(string(r.Body), `"image_url"`) {
			call += ", image"
		}
		calls = append(calls, call)
	}
	return calls
}

const told = "[image file:shot.png: this model cannot see images]"

// A model that refuses images is told of them in words, once for all steps and turns
// of the conversation, whatever worker runs them.
func TestModelThatRefusesImages(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies, s.Model.NoImages = true, []string{"fake"}
	w := s.StartWorker()
	r := shown(t, s, "s1", script.Script(add(1, 2), "say done"))
	require.Equal(t, "done", r.Response, "%s %v", r.Error, modelCalls(s))
	require.Equal(t, []string{"fake refuses, image", "fake answers", "fake answers"}, modelCalls(s))
	require.Contains(t, string(s.Model.Records()[2].Body), told)
	require.Equal(t, []string{agent.WarnNoImages}, warnings(t, s, r.ThreadID))
	require.EqualValues(t, 3, thread(t, s, r.ThreadID).RequestCount, "the refused call is counted")
	w.Kill()
	s.StartWorker()
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
	require.Equal(t, "more", shown(t, s, "s1", "script: say more").Response)
	require.Equal(t, []string{"fake answers", "fake answers"}, modelCalls(s)[3:], "nothing is refused twice")
	require.Len(t, warnings(t, s, r.ThreadID), 1)
	require.NotNil(t, messages(t, s, r.ThreadID)[0].Content.Parts[1].ImageURL, "the message keeps its image")

	// In another conversation of the same model it is found out anew.
	require.Equal(t, "other", shown(t, s, "s2", "script: say other").Response)
	require.Equal(t, "fake refuses, image", modelCalls(s)[5])
}

// A model that sees is out of order and text models take over: the turn goes on, one
// of them found blind by its refusal, and so does the next turn.
func TestFallbackToModelsWithoutImages(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies, s.Model.NoImages = true, []string{"second", "third"}
	models(t, s, "models:\n  - {match: second, images: false}\n")
	s.StartWorker("SPOOL_FALLBACK_MODELS=second,third")
	r := shown(t, s, "s1", script.Script("fail 404 x1 "+add(1, 2), "say done"))
	require.Equal(t, "done", r.Response, "%s %v", r.Error, modelCalls(s))
	require.Equal(t, []string{"fake is unknown, image", "second is unknown", "third refuses, image", "third answers", "third answers"}, modelCalls(s))
	require.Equal(t, []string{agent.WarnFallback, agent.WarnNoImages, agent.WarnFallback, agent.WarnNoImages}, warnings(t, s, r.ThreadID))
	require.Equal(t, "seen", s.Ask("s1", "script: say seen").Response)
	calls := modelCalls(s)
	require.Equal(t, "fake answers, image", calls[len(calls)-1], "the thread's own model sees the image")
}
