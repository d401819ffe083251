package rows

import "github.com/spool-agents/spool/agent"

// NotOurs makes an error that rows of a file have led to a refusal of the file.
func (s *Store) NotOurs(err error, format string, args ...any) error {
	switch agent.CodeOf(s.Fail("import", err)) {
	case "", agent.CodeUnavailable:
		return err
	}
	return agent.Wrap(err, agent.CodeInvalid, format, args...)
}
