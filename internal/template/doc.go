// Package template loads agent templates: Markdown files with YAML front matter.
//
// The body is the system prompt, the only part that is required. Defaults: name
// is the file's name without .md; tools are all the agent may have; model is the
// worker's, then the parent's; stream is true; maxSteps is the worker's setting for
// a main thread and 100 for a sub-agent, and 0, if stated, is no limit; all else
// is the parent's or the provider's.
// Agent files of Claude Code are understood as they are.
package template
