// Package browser holds the tests of the web page. They drive it in a headless
// Chromium, as a person would, on whole stacks: workers, web server, Temporal, store.
package browser
