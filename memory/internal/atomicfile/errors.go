package atomicfile

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/spool-agents/spool/agent"
)

// Explain says what an error of a file means for a person and what to do. what
// names the file, as in "memory file /x/y.json". nil stays nil.
func Explain(err error, what string) error {
	var known *agent.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return agent.Wrap(err, agent.CodeUnavailable, "%s: the caller gave up waiting; nothing was changed", what)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be written, the disk or a quota is full: free some space, then try again; nothing was changed", what)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return agent.Wrap(err, agent.CodeUnavailable, "%s may not be used like that by this user: make the file and its folder writable, then try again; nothing was changed", what)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, errNotRegular):
		return agent.Wrap(err, agent.CodeInvalid, "%s is not possible as a file: choose another path", what)
	}
	return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be read or written: check the disk, then try again", what)
}
