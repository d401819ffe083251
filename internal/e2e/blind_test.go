package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

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

// Of a model that the table knows to take no images nothing is asked in vain. A model
// of the same conversation that takes them goes on seeing them.
func TestModelWithoutImagesByTheTable(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies, s.Model.NoImages = true, []string{"fake"}
	models(t, s, "models:\n  - {match: fake, images: false}\n")
	s.StartWorker()
	r := shown(t, s, "s1", script.Script(add(1, 2), "say done"))
	require.Equal(t, "done", r.Response, "%s %v", r.Error, modelCalls(s))
	require.Equal(t, []string{"fake answers", "fake answers"}, modelCalls(s))
	require.Contains(t, string(s.Model.Records()[0].Body), told)
	require.Equal(t, []string{agent.WarnNoImages}, warnings(t, s, r.ThreadID))
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
	require.Len(t, warnings(t, s, r.ThreadID), 1, "a person is told once")
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
