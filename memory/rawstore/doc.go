// Package rawstore keeps the raw-key view of memory in a database: the
// memory.Persistence of one table, memory_items, over database/sql.
//
// Open chooses between database, JSON file and process memory by a location, so
// that they can be exchanged by configuration.
package rawstore
