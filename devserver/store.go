package main

import (
	"go.temporal.io/server/common/config"
)

// store is where one running server keeps its data. It belongs to this process
// alone from openStore to close; a killed process leaves nothing to clean up.
type store interface {
	// persistence returns the server's configuration for it.
	persistence() config.Persistence
	// describe names it in the ready line and in messages, without a password.
	describe() string
	// close releases the claim. Call it when the server has stopped.
	close()
}

// openStore claims the store for this process and creates the schema if it is new.
func openStore(o options, log logger) (store, error) {
	if o.postgres != "" {
		return openPostgres(o, log)
	}
	return openSQLite(o)
}

func persistence(shards int32, main, visibility *config.SQL) config.Persistence {
	return config.Persistence{
		DefaultStore:     "main",
		VisibilityStore:  "visibility",
		NumHistoryShards: shards,
		DataStores: map[string]config.DataStore{
			"main":       {SQL: main},
			"visibility": {SQL: visibility},
		},
	}
}
