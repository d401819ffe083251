package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// host is the only address anything here listens on.
	host = "127.0.0.1"
	// portTries is how far a taken port moves on before giving up.
	portTries = 50
	// Free ports come from below the range that Linux hands out to outgoing
	// connections (32768 and up): one picked from there could be taken by a
	// connection between the pick and the listen.
	freePortLow, freePortHigh = 20000, 32000
)

// ports are the listen ports of one run.
type ports struct {
	frontend, ui              int
	history, matching, worker int
}

// pickPorts finds ports for all listeners. A taken port moves on to the next
// free one, which is told on stderr. The server opens its ports itself, so each
// is only known to have been free a moment ago.
func pickPorts(o options, stderr io.Writer) (p ports, err error) {
	var held []net.Listener // kept open while picking, so that no port is picked twice
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	pick := func(name string, wanted int, into *int) {
		if err != nil || wanted == noUI {
			return
		}
		var l net.Listener
		if l, err = listenFrom(wanted); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		held = append(held, l)
		*into = l.Addr().(*net.TCPAddr).Port
		if wanted != 0 && wanted != *into {
			fmt.Fprintf(stderr, "devserver: port %d (%s) is taken, using %d\n", wanted, name, *into)
		}
	}
	pick("--port", o.port, &p.frontend)
	pick("--ui-port", o.uiPort, &p.ui)
	for _, internal := range []*int{&p.history, &p.matching, &p.worker} {
		pick("internal port", 0, internal)
	}
	return p, err
}

// listenFrom listens on the first free port from wanted on; 0 means any.
func listenFrom(wanted int) (net.Listener, error) {
	next := func(i int) int { return wanted + i }
	if wanted == 0 {
		next = func(int) int { return freePortLow + rand.IntN(freePortHigh-freePortLow) }
	}
	var last error
	for i := range portTries {
		if next(i) > 65535 {
			break
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next(i))))
		if err == nil {
			return l, nil
		}
		last = err
	}
	if wanted == 0 {
		return nil, fmt.Errorf("no free port found on %s: %w", host, last)
	}
	return nil, errors.Join(fmt.Errorf("none of the %d ports from %d on is free on %s: give another one, or 0 for any", portTries, wanted, host), last)
}
