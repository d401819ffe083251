// Package encryption keeps what Spool hands to Temporal unreadable to whoever
// runs the server: arguments, results, summaries, details and failures.
//
// The first of a list of keys encrypts, all of them decrypt. What is not
// encrypted passes, so that runs which began without keys go on with them.
// Search attributes, names and ids are Temporal's own and stay plain.
package encryption
