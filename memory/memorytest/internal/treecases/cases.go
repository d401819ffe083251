// Package treecases has the rules of sub-agents, and of cancelling whole trees.
package treecases

import "github.com/spool-agents/spool/memory/memorytest/internal/suite"

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "delegation", Rules: delegationRules},
	{Name: "background", Rules: backgroundRules},
	{Name: "resume", Rules: resumeRules},
	{Name: "agents", Rules: agentRules},
	{Name: "cascade", Rules: cascadeRules},
	{Name: "cancel", Rules: cancelRules},
	{Name: "cancel-all", Rules: cancelAllRules},
	{Name: "usage", Rules: usageRules},
}
