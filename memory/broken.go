package memory

import "errors"

// ErrBroken is in the chain of an error that says that what a store was to be opened
// on, or has read, is damaged or no store at all. Trying again does not help.
var ErrBroken = errors.New("no usable store")
