// Package archive moves conversations between a store and the files of sessions
// (package sessionfile), both ways and whole: an export that is imported into an
// empty store gives an equal history. Files of older programs, which hold messages
// and little else, are imported too.
package archive
