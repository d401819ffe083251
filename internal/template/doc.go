// Package template loads agent templates: Markdown files with YAML front matter.
//
// The body is the system prompt, the only part that is required. Defaults: name
// is the file's name without .md; tools are all the agent may have; model is the
// parent's, or the worker's for a main thread; stream is true; maxSteps is 0 for a
// main thread (no limit) and 100 for a sub-agent; all else is the provider's.
// Agent files of Claude Code are understood as they are.
package template
