package rows

import (
	"encoding/json"

	"github.com/spool-agents/spool/memory"
)

// PermissionKey is how a permission is stored: the rule, the agent, and where that came from.
func PermissionKey(p memory.Permission) string {
	key, _ := json.Marshal([]string{p.Rule, p.Agent, p.Source}) // texts can always be written
	return string(key)
}

// ParsePermission reads a PermissionKey. What earlier versions stored, the name of a tool
// alone, holds for nobody.
func ParsePermission(key string) (p memory.Permission, ok bool) {
	var parts []string
	if json.Unmarshal([]byte(key), &parts) != nil || len(parts) != 3 {
		return p, false
	}
	return memory.Permission{Rule: parts[0], Agent: parts[1], Source: parts[2]}, true
}

// OfSession is the condition that a permission is of a session which a user, "" = anyone,
// has a thread in.
const OfSession = ` session_id = ? AND EXISTS (SELECT 1 FROM threads t WHERE t.session_id = approved_tools.session_id AND (t.user_id = ? OR ? = ''))`
