package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func hash(n int) string { return fmt.Sprintf("%064x.png", n) }

// round is an assistant message with calls, and a result with an image for each.
func imageRound(from, n int) []agent.Message {
	call := agent.Message{Role: agent.RoleAssistant, Content: agent.NullContent()}
	var out []agent.Message
	for i := range n {
		id := fmt.Sprint("c", from+i)
		call.ToolCalls = append(call.ToolCalls, agent.NewCall(id, "look", "{}"))
		out = append(out, agent.Message{Role: agent.RoleTool, ToolCallID: id, Content: agent.Text("seen\n" + agent.ToolImage(hash(from+i), 3))})
	}
	return append([]agent.Message{call}, out...)
}

// Messages of tools hold no images: what results refer to follows them, after the
// last result of the calls.
func TestImagesOfResultsFollowTheCalls(t *testing.T) {
	stored := append([]agent.Message{{Role: agent.RoleUser, Content: agent.Text("[image:" + hash(9) + ", said a person]")}}, imageRound(1, 2)...)
	stored = append(stored, agent.Message{Role: agent.RoleUser, Content: agent.Text("and?")})
	got := agent.WithToolImages(agent.Transcript(stored), 20)
	var roles []string
	for _, m := range got {
		roles = append(roles, string(m.Role))
	}
	assert.Equal(t, "user assistant tool tool user user", strings.Join(roles, " "))
	assert.Len(t, got[4].Content.Parts, 3)
	assert.Equal(t, "image:"+hash(1), got[4].Content.Parts[1].ImageURL.URL)
	assert.Equal(t, "image:"+hash(2), got[4].Content.Parts[2].ImageURL.URL)
	assert.Greater(t, agent.ToolImageTokens(got), 2000)
	assert.Len(t, agent.WithToolImages(agent.Transcript(stored[:2]), 20), 4, "no result, no image")
}

// The newest images are shown; old ones go by the half, so that the beginning of
// requests stays the same.
func TestOldImagesOfResultsAreLeftOut(t *testing.T) {
	var stored []agent.Message
	counts := map[int]int{}
	for i := range 50 {
		stored = append(stored, imageRound(i, 1)...)
		shown, last := 0, ""
		for _, m := range agent.WithToolImages(stored, 20) {
			for _, p := range m.Content.Parts {
				if p.ImageURL != nil {
					shown, last = shown+1, p.ImageURL.URL
				}
			}
		}
		counts[i+1] = shown
		assert.Equal(t, "image:"+hash(i), last)
	}
	assert.Equal(t, []int{1, 20, 11, 20, 11, 20}, []int{counts[1], counts[20], counts[21], counts[30], counts[31], counts[50]})
}

// A model that takes no images is told of them in words, as plain text; what is given
// is not changed, and messages without images stay as they are.
func TestImagesInWords(t *testing.T) {
	image := agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: "https://example.com/a.png"}}
	in := []agent.Message{
		{Role: agent.RoleUser, Content: agent.Content{Parts: []agent.Part{{Type: "text", Text: "look"}, image}}},
		{Role: agent.RoleUser, Content: agent.Content{Parts: []agent.Part{{Type: "text", Text: "only text"}}}},
		{Role: agent.RoleAssistant, Content: agent.NullContent()},
	}
	out := agent.WithoutImages(in)
	assert.Equal(t, agent.Text("look\n[image https://example.com/a.png: this model cannot see images]"), out[0].Content)
	assert.Equal(t, agent.Text("only text"), out[1].Content)
	assert.Equal(t, in[2], out[2])
	assert.True(t, agent.HasImages(in))
	assert.False(t, agent.HasImages(out))
	assert.Equal(t, image, in[0].Content.Parts[1])
}
