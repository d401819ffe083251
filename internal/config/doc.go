// Package config reads every setting of Spool and remembers where each value
// came from.
//
// Precedence, highest first: flag, environment, TOML profile that was named
// explicitly (TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE), live HOME/dev.json,
// spool.yaml in the directory, spool.yaml in HOME, the default TOML profile,
// the built-in default. An empty flag or variable counts as not set.
package config
