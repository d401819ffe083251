// Package mcp gives agents the tools of MCP servers.
//
// Servers stand in mcpServers JSON, as other programs have it: .mcp.json of the
// workspace, which starts nothing before a person agreed to its content, and
// mcp.json of the home directory. A Manager keeps one session with each, opens
// it again when it died, and follows changes of files and of lists of tools.
// Whatever a server does wrong is a result for the model, never a failed turn.
//
// Servers over stdio run under package supervise, so none outlives its worker.
package mcp
