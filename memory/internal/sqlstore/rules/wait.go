package rules

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// holdModel keeps when the call of a failed attempt is made again, and logs it.
// What a limiter holds back for a moment, again and again, is not logged.
func (u *Unit) holdModel(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.ModelFailure) error {
	step.Wait = ""
	if r.Wait == nil {
		return nil
	}
	name, err := u.agentName(t)
	if err != nil {
		return err
	}
	w := *r.Wait
	w.ThreadID, w.RootThread, w.TurnID, w.Agent, w.Reason = t.ID, t.RootThreadID, turn.ID, name, rows.Clean(w.Reason)
	if step.Wait, err = rows.Encode(w); err != nil {
		return err
	}
	if now := rows.Stamp(u.Now); !r.NotCalled || w.Until.Sub(now) >= agent.ShortWait {
		return u.surface(t, turn, agent.EventWarning, agent.Warning{Code: agent.WarnModelWait, Message: w.Text(now.UTC()), Wait: &w})
	}
	return nil
}
