// Package activities is the I/O of a turn: model calls, tool runs, hints to
// other threads, and the store's transactions as local activities.
//
// Model calls and tool runs begin with a conditional write that makes their
// attempt current and end with one that stores the outcome; both are fenced, so
// an attempt that was paused, cut off or timed out changes nothing. What is
// stored is never produced again.
package activities
