// Package copycases has the rules of what is copied or changed: archives, edits, pictures, forks.
package copycases

import "github.com/spool-agents/spool/memory/memorytest/internal/suite"

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "archive", Rules: archiveRules},
	{Name: "edit", Rules: editRules},
	{Name: "image", Rules: imageRules},
	{Name: "fork", Rules: forkRules},
}
