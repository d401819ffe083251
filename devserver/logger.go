package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger is the server's log on stderr, with a switch for the shutdown: a
// server that stops logs an error for every loop it interrupts.
type logger struct {
	log.Logger
	level    zap.AtomicLevel
	verbose  bool
	stopping *atomic.Bool
}

func newLogger(o options, stderr io.Writer) logger {
	l := logger{
		level:    zap.NewAtomicLevelAt(o.logLevel),
		verbose:  o.logLevel < zapcore.WarnLevel,
		stopping: new(atomic.Bool),
	}
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(log.DefaultZapEncoderConfig), zapcore.Lock(zapcore.AddSync(stderr)), l.level)
	l.Logger = log.NewZapLogger(zap.New(core, zap.WithFatalHook(fatalHook{stderr: stderr, stopping: l.stopping})))
	return l
}

// quiet mutes the log from the shutdown on, unless it was asked to be verbose.
func (l logger) quiet() {
	l.stopping.Store(true)
	if !l.verbose {
		// Not above fatal: a muted Fatal would return to a caller that does
		// not expect it to.
		l.level.SetLevel(zapcore.FatalLevel)
	}
}

// fatalHook decides what the server's Fatal calls do, most of all a listener
// whose port was taken after it had been picked.
type fatalHook struct {
	stderr   io.Writer
	stopping *atomic.Bool
}

// OnWrite ends the process, or only the calling goroutine if it is ending anyway.
func (h fatalHook) OnWrite(entry *zapcore.CheckedEntry, _ []zapcore.Field) {
	if h.stopping.Load() {
		runtime.Goexit()
	}
	fmt.Fprintf(h.stderr, "devserver: the Temporal server gave up: %s (details in the line above); "+
		"if a port was taken in that moment, start again\n", entry.Message)
	os.Exit(exitFailed)
}
