// Package pgtest gives tests a PostgreSQL server: the one that
// SPOOL_TEST_POSTGRES names (as a user who may create databases), else a
// throw-away cluster made from the installed server programs. It is shared by a
// package's tests, listens on loopback only, and ends with the test program,
// however that ends.
//
// A server that cannot be had fails the test; such tests carry the build tag
// postgres, which .ci/test leaves out where there is none.
package pgtest
