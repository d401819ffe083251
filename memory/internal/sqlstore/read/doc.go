// Package read is the reading side of the store.
package read
