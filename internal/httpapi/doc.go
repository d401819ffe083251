// Package httpapi serves what the Go client of package spool does over HTTP: a
// JSON API with server-sent events under /api/v1, described by openapi.yaml, the
// page, and a chat completions endpoint for clients of the OpenAI API.
//
// Every request has a user, and sees that user's threads only: what belongs to
// another is not found. The server holds nothing: any number of them may serve a
// store, and a stream goes on at any of them from its last event id.
package httpapi
