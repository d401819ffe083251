package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// delegation reads the limits and budgets of delegation. The values were checked
// by get, so that parsing cannot fail.
func (r *resolver) delegation() (agent.DelegationPolicy, agent.Price) {
	count := func(name string) int64 {
		n, _ := strconv.ParseInt(r.get(name), 10, 64)
		return n
	}
	dollars := func(name string) float64 {
		f, _ := strconv.ParseFloat(r.get(name), 64)
		return f
	}
	p := agent.DelegationPolicy{
		EnabledAgents: map[string]bool{},
		MaxDepth:      int(count(MaxDepth)), MaxFanOut: int(count(MaxFanOut)), MaxDescendants: int(count(MaxDescendants)),
		MaxTokens: count(BudgetTokens), MaxPrice: dollars(BudgetPrice),
	}
	p.MaxTime, _ = time.ParseDuration(r.get(BudgetTime))
	for _, name := range strings.FieldsFunc(r.get(DisabledAgents), func(c rune) bool { return c == ',' }) {
		p.EnabledAgents[name] = false
	}
	return p, agent.Price{Input: dollars(PriceInput), Output: dollars(PriceOutput)}
}
