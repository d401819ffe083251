package follow

import (
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// Cursor is a place in what a thread emits: the last event seen and, while a model
// call streams, how much of which attempt was seen.
type Cursor struct {
	Seq     int64
	Attempt int
	// Offset counts the bytes of an attempt: its reasoning, then its text.
	Offset int
}

// ParseCursor reads `seq` or `seq:attempt:offset`; empty is the beginning.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	bad := agent.Errorf(agent.CodeInvalid, "cursor %q is not valid: use SEQ or SEQ:ATTEMPT:OFFSET as printed with an update", s)
	parts := strings.Split(s, ":")
	if len(parts) != 1 && len(parts) != 3 {
		return Cursor{}, bad
	}
	var n [3]int64
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 62)
		if err != nil {
			return Cursor{}, bad
		}
		n[i] = int64(v)
	}
	return Cursor{Seq: n[0], Attempt: int(n[1]), Offset: int(n[2])}, nil
}

// String writes what ParseCursor reads.
func (c Cursor) String() string {
	seq := strconv.FormatInt(c.Seq, 10)
	if c.Attempt == 0 {
		return seq
	}
	return seq + ":" + strconv.Itoa(c.Attempt) + ":" + strconv.Itoa(c.Offset)
}
