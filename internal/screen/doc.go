// Package screen is chat at a terminal: a conversation that is shown as it goes on, with
// a line to type into below it. There is one model; update.go changes it, view.go shows it.
// What is finished is printed above and belongs to the terminal, so that it can be
// scrolled, searched and copied; only what still changes is drawn.
package screen
