// Package llmtest is a fake OpenAI-compatible server. It answers from the
// scripts of package script, plays the failures a script asks for, records what
// it was asked and checks every request as strictly as the strictest providers
// do. In raw mode a test sends any bytes at any pace.
//
// It works inside a test (Run) and as a process of its own (New and Start),
// where GET /debug/records and GET /debug/violations give what Records and
// Violations return.
package llmtest
