// Package peoplecases has the rules of what people are asked: approvals and questions.
package peoplecases

import "github.com/spool-agents/spool/memory/memorytest/internal/suite"

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "ask", Rules: askRules},
	{Name: "approval", Rules: approvalRules},
	{Name: "verdict", Rules: verdictRules},
	{Name: "question", Rules: questionRules},
	{Name: "plain answer", Rules: plainAnswerRules},
}
