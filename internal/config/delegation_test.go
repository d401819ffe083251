package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Rows 3, 4: the limits and budgets of delegation are settings.
func TestRow03_DelegationSettings(t *testing.T) {
	w := newWorld(t)
	want := agent.DefaultDelegationPolicy()
	want.EnabledAgents = map[string]bool{}
	assert.Equal(t, want, w.must().Delegation, "the defaults are those of the policy")

	for k, v := range map[string]string{
		"SPOOL_MAX_DEPTH": "0", "SPOOL_MAX_FAN_OUT": "2", "SPOOL_MAX_DESCENDANTS": "7", "SPOOL_BUDGET_TOKENS": "100000",
		"SPOOL_BUDGET_PRICE": "$2.50", "SPOOL_BUDGET_TIME": "90m", "SPOOL_DISABLED_AGENTS": "researcher, general",
		"SPOOL_PRICE_INPUT": "0.15", "SPOOL_PRICE_OUTPUT": "0.6",
	} {
		w.env[k] = v
	}
	c := w.must()
	assert.Equal(t, agent.DelegationPolicy{
		EnabledAgents: map[string]bool{"researcher": false, "general": false}, MaxFanOut: 2, MaxDescendants: 7,
		MaxTokens: 100000, MaxPrice: 2.5, MaxTime: 90 * time.Minute,
	}, c.Delegation)
	assert.Equal(t, agent.Price{Input: 0.15, Output: 0.6}, c.Price)

	for k, v := range map[string]string{
		"SPOOL_MAX_DEPTH": "-1", "SPOOL_BUDGET_TOKENS": "many", "SPOOL_BUDGET_PRICE": "-1", "SPOOL_BUDGET_TIME": "soon",
		"SPOOL_DISABLED_AGENTS": "No Agent", "SPOOL_PRICE_INPUT": "x",
	} {
		before := w.env[k]
		w.env[k] = v
		_, err := w.load()
		require.ErrorContains(t, err, "environment "+k)
		require.ErrorContains(t, err, v)
		w.env[k] = before
	}
}
