// Package layout holds tests of the repository itself: sizes, import rules,
// pinned names, and documents whose commands and symbols must exist.
package layout
