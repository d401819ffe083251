// Package tool holds the built-in tools, the registry that runs tools and the
// approval policy.
//
// A tool is one .go file and one .md file of the same name, its description for
// the model. File tools work inside the thread's workspace root and cannot leave
// it. The shell starts there but is a shell: what it may do is what its user may
// do, which is why it asks by default.
package tool
