// Package web holds the files of the page, which any server of static files
// could serve: it talks to the API under /api/v1 only.
package web

import "embed"

// Files are index.html and what it loads.
//
//go:embed index.html assets
var Files embed.FS
