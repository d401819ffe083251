// Package audit looks for damage in what is stored, and repairs it.
package audit
