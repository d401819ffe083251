// Command worker runs Spool's turns: it serves the task queue of its store on a
// Temporal server.
package main

import "github.com/spool-agents/spool/internal/work"

func main() { work.Main() }
