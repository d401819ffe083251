package memorytest

import (
	"regexp"
	"strings"
)

var (
	// openOnly are the indexes of what is under way: they do not grow with what is done.
	openOnly = regexp.MustCompile(`^(turns_open|turns_delegated|turns_cancelled|inbox_waiting|inbox_overdue|inbox_assigned|steps_in_flight|steps_waiting|tool_calls_in_flight|images_unused|asks_open)$`)
	// wholeStore are statements that are for all threads: of verify, of file: stores when they
	// are opened, of clients without a user. Those for columns read no row.
	wholeStore = regexp.MustCompile(` WHERE 1 = 0$| FROM threads WHERE (1 = 1|kind = 'main')( AND kind = \S+)? ORDER BY updated_at DESC, id LIMIT | FROM (schema_version|changes)$`)
	// sweeps are statements of the sweep that begin with what changed: thousands may be open.
	sweeps = regexp.MustCompile(` settled_at > |\.cancel_at <= `)
)

// MayScan reports whether a statement may read a whole index, or, if that is empty, a
// whole table.
func MayScan(query, index string) bool {
	return index != "" && openOnly.MatchString(index) && (index != "turns_open" || !sweeps.MatchString(query)) || wholeStore.MatchString(query)
}

// HasPlan reports whether a database makes a plan for a statement.
func HasPlan(query string) bool {
	switch verb, _, _ := strings.Cut(strings.TrimSpace(query), " "); strings.ToUpper(verb) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH":
		return true
	}
	return false
}
