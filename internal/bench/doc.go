// Command bench measures what the README and docs/figures.md promise and prints
// it as one table: the size of histories, the time per step against a
// hand-written floor, how soon a turn goes on after its worker was killed, how
// soon a cancel takes effect, how soon a token is seen, what a hundred followers
// cost, and what an append costs in a long thread.
//
// Everything is real: the Temporal server, the workers and the floor's worker
// are processes of their own, the store is a file. Only the model is a stub
// that answers at once. Ratios compare two things of the same run, measured in
// turn; absolute times depend on the machine.
//
// A figure that misses its bar is printed as such and is no error: the program
// ends with 1 only if something could not be measured.
package main
