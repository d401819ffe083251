// Package copy moves whole threads: export, import, fork, removal, and the images
// that their messages refer to.
package copy
