// Package turncases has the rules of turns: messages, model calls, tools, budgets, losses, reads.
package turncases

import "github.com/spool-agents/spool/memory/memorytest/internal/suite"

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "send", Rules: sendRules},
	{Name: "turn", Rules: turnRules},
	{Name: "close", Rules: closeRules},
	{Name: "model", Rules: modelRules},
	{Name: "summary", Rules: summaryRules},
	{Name: "wait", Rules: waitRules},
	{Name: "tool", Rules: toolRules},
	{Name: "round", Rules: roundRules},
	{Name: "budget", Rules: budgetRules},
	{Name: "waited", Rules: waitedRules},
	{Name: "account", Rules: accountRules},
	{Name: "losses", Rules: lossRules},
	{Name: "retry", Rules: retryRules},
	{Name: "keeper", Rules: keeperRules},
	{Name: "read", Rules: readRules},
	{Name: "window", Rules: windowRules},
	{Name: "event", Rules: eventRules},
	{Name: "edge", Rules: edgeRules},
	{Name: "lives", Rules: livesRules},
}
