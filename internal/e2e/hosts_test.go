//go:build postgres

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/health"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// One of two workers loses its store, Temporal or the model: all messages are answered by
// the other one, what it was about included, and it works again when the link is back.
func TestAll_AWorkerThatLosesAPartLeavesTheWorkToOthers(t *testing.T) {
	t.Parallel()
	tt.OnPostgres(t)
	for _, part := range []string{health.StorePart, health.TemporalPart, health.ModelPart} {
		for name, how := range map[string]linkState{"refused": linkRefused, "silent": linkSilent} {
			t.Run(part+" "+name, func(t *testing.T) { testLosesAPart(t, part, how) })
		}
	}
}

func testLosesAPart(t *testing.T, part string, how linkState) {
	s := stack(t)
	ways := map[string]*link{health.StorePart: newLink(t, s.StoreSpec()), health.TemporalPart: newLink(t, "tcp://"+s.Server.Address), health.ModelPart: newLink(t, s.Model.URL())}
	way := ways[part]
	// A model may be silent for long, so only this timeout tells that it is gone.
	cut := s.StartWorker(anyPort, "SPOOL_STORE="+ways[health.StorePart].url, "TEMPORAL_ADDRESS="+ways[health.TemporalPart].at,
		"OPENAI_BASE_URL="+ways[health.ModelPart].url, "SPOOL_IDLE_TIMEOUT=3s")
	streamed := s.Send("streamed", "script: slow 50ms say "+strings.Repeat("word ", 300)+"end")
	streaming(t, s, streamed.ThreadID)
	// A call without a model is made again by any worker, after up to a minute in the
	// end. Of four workers one gets the same call again and again too rarely to matter.
	others := []*tt.Process{s.StartWorker()}
	for part == health.ModelPart && len(others) < 3 {
		others = append(others, s.StartWorker())
	}
	way.set(how)
	var sent []spool.Reply
	for i := range 12 {
		sent = append(sent, s.Send(fmt.Sprint("s", i), "script: say answered"))
	}
	for _, r := range sent {
		require.Equal(t, "answered", s.Wait(r).Response)
	}
	require.True(t, strings.HasSuffix(s.Wait(streamed).Response, "word end"))
	tt.Eventually(t, "it says what is missing", func() bool {
		status, r := readiness(t, cut)
		// Another worker would meet the same model.
		said := !r.Parts[part].OK && (status == http.StatusServiceUnavailable) == (part != health.ModelPart)
		if part == health.StorePart {
			said = said && !r.Parts[health.WorkerPart].OK && strings.Contains(cut.Log(), "takes no tasks until what is missing is back")
		}
		return said
	})

	for _, other := range others {
		other.Kill()
	}
	way.set(linkWhole)
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
	tt.Eventually(t, "it is ready", func() bool {
		status, r := readiness(t, cut)
		return status == http.StatusOK && r.Parts[part].OK
	})
}
