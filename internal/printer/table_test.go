package printer

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func TestATableGivesWay(t *testing.T) {
	var list []agent.Thread
	for id, topic := range map[string]string{
		"01a226ed-da07-7e46-b70d-ad725f824ce5/default":           strings.Repeat("世界", 40),
		"agent:researcher:researcher-1795949452330-1b114f9ca7e2": strings.Repeat("👩‍👩‍👧 שלום e\u0301 ", 20),
		"a-long-name-that-a-person-gave-to-it/other":             "one\n\x1b[2Jtwo",
	} {
		one := agent.Thread{ID: id, Status: agent.ThreadWaitingForApproval, UpdatedAt: time.Now()}
		if strings.HasPrefix(id, "agent:") {
			one.Kind, one.AgentType = agent.KindSubAgent, "researcher"
		}
		one.Topic, one.MessageCount = topic, 1000
		list = append(list, one)
	}
	for _, width := range []int{200, 80, 40, 20} {
		text := ThreadList(list, width)
		for _, line := range strings.Split(text, "\n") {
			assert.LessOrEqual(t, ansi.StringWidth(line), width, line)
		}
		assert.Equal(t, width >= 80, strings.Contains(text, "TOPIC"), text)
		assert.Equal(t, width == 200, strings.Contains(text, "1000 messages"), text)
		assert.Contains(t, text, "01a226ed-da07")
		assert.NotContains(t, text, "01a226ed-da07-")
		assert.Contains(t, text, "1b114f9c")
	}
	p := &Printer{} // a pipe
	piped := strings.Join(p.Threads(list, Status).Lines(0), "\n")
	assert.Contains(t, piped, "agent:researcher:researcher-1795949452330-1b114f9ca7e2  researcher  waiting_for_approval")
	assert.Contains(t, piped, "one two")
	assert.NotContains(t, piped, "TOPIC")
}
