// Package atomicfile writes files that are the old or the new one, never
// something in between, whatever happens to the process or the machine; locks
// them between processes; and sets damaged ones aside.
package atomicfile
