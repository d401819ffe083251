// Package sqlstore is the ConversationMemoryStore over database/sql. A package per
// technology supplies a Backend (transactions and reads) and a Dialect (what
// differs in SQL); everything else is here, once, in floors:
//
//	rows    the tables: rows, the write transaction, the reader, the schema
//	rules   what docs/state-machine.md says: one file per table of it
//	read    the reading side
//	copy    export, import, fork, removal, images
//	audit   looking for damage, and repair
//
// A floor uses what is below it only: rules and read stand on rows; copy and audit
// stand on rules. This package puts them together.
package sqlstore
