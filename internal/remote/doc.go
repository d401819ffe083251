// Package remote is the Go client of Spool behind a web server: it does over HTTP
// what spool.Client does on a store, for machines that reach neither store nor
// Temporal. Requests that may be repeated are, while a server cannot be reached for a moment;
// what follows a thread goes on where it was.
package remote
