// Package rows is the lowest floor of the store: the rows of its tables, the write
// transaction (Unit), the reader, the schema, and what each back end supplies
// (Backend, Dialect). It knows no rule of docs/state-machine.md.
//
// Each operation is a unit of work: it loads the thread row and the turn row it
// is fenced by, writes the new rows as it goes, and puts the changed thread and
// turn rows back with one statement each before the commit. Counters live in
// those rows, so that no operation gets slower as a thread gets longer.
package rows
