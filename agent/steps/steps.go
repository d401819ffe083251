// Package steps is for work that ends at its first error: a transaction, a reading
// of many parts. Its steps return no errors. They end the work by Check, Must or
// Refuse, and whoever began it (Run, Get) returns the error: nothing of it counts
// then. Such work starts no goroutines, and no panic of this package leaves the
// package that began it.
package steps

import "github.com/spool-agents/spool/agent"

// aborted is what the panic of work that ends carries.
type aborted struct{ err error }

// Check ends the work with an error, unless it is nil.
func Check(err error) {
	if err != nil {
		panic(aborted{err})
	}
}

// Must is the value of a call, whose error ends the work.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Found is a value that may be missing (agent.CodeNotFound), and whether it is there.
func Found[T any](v T, err error) (T, bool) {
	if agent.CodeOf(err) != agent.CodeNotFound {
		Check(err)
	}
	return v, err == nil
}

// Refuse ends the work with an error of its own.
func Refuse(code agent.Code, format string, args ...any) {
	Check(agent.Errorf(code, format, args...))
}

// Run is the error that f ends with; other panics pass.
func Run(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case aborted:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Get is the value of f, or the error that it ends with.
func Get[T any](f func() T) (v T, err error) {
	err = Run(func() { v = f() })
	return v, err
}
