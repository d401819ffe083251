package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/rawstore"
	"github.com/spool-agents/spool/memory/sqlite"
)

// storeParts need no server of Temporal's.
var storeParts = []string{"append", "sync", "writers", "files"}

const (
	// writers at once, and how long they write.
	writers    = 20
	writersFor = 5 * time.Second
	// writersBar: all together at least half as much as one alone.
	writersBar = 2
)

func measureStores(ctx context.Context, dir string, t *table, o options) {
	if slices.Contains(o.only, "append") {
		where := [2]string{"sqlite:" + filepath.Join(dir, "append-short.db"), "sqlite:" + filepath.Join(dir, "append-long.db")}
		try(ctx, t, "sqlite", "append", func(ctx context.Context) error { return measureAppend(ctx, "sqlite", where, t, o.turns) })
		try(ctx, t, "postgres", "append", func(ctx context.Context) error { return measurePostgres(ctx, t, o.turns) })
	}
	for _, m := range []struct {
		server, part string
		f            func(context.Context) error
	}{
		{"sqlite", "sync", func(ctx context.Context) error { return measureSync(ctx, dir, t, o.turns) }},
		{"sqlite", "writers", func(ctx context.Context) error { return measureWriters(ctx, dir, t) }},
		{"file:", "files", func(ctx context.Context) error { return measureFiles(ctx, dir, t) }},
	} {
		if slices.Contains(o.only, m.part) {
			try(ctx, t, m.server, m.part, m.f)
		}
	}
}

// measurePostgres measures on a server of its own whose commits wait for the disk.
func measurePostgres(ctx context.Context, t *table, turns int) error {
	c, err := pgtest.New()
	if err != nil {
		return err
	}
	defer c.Close()
	// Two databases that every cluster has.
	return measureAppend(ctx, "postgres", [2]string{c.URL("postgres"), c.URL("template1")}, t, turns)
}

// measureSync compares a store whose commits wait for the disk with one whose
// commits do not.
func measureSync(ctx context.Context, dir string, t *table, turns int) error {
	var stores [2]*sqlite.Store
	for i, name := range []string{"full", "normal"} {
		var err error
		if stores[i], err = sqlite.Open(ctx, filepath.Join(dir, name+".db"), sqlite.Options{Relaxed: name == "normal"}); err != nil {
			return err
		}
		defer stores[i].Close()
	}
	var took [2][]time.Duration
	for n := range turns {
		for i, s := range stores {
			at := time.Now()
			if _, err := appendTurn(ctx, s, appendSession, n); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(at))
		}
	}
	full, normal := median(took[0]), median(took[1])
	t.add(row{
		Server: "sqlite", Figure: "a turn's writes, synchronous FULL ÷ NORMAL", Value: float64(full) / float64(normal), Unit: "×",
		Detail: fmt.Sprintf("median of %d turns of nine commits, %.2f and %.2f ms", turns, milliseconds(full), milliseconds(normal)),
	})
	return nil
}

// measureWriters lets one process and then twenty write into one file, each into
// a conversation of its own, and counts what is there in the end.
func measureWriters(ctx context.Context, dir string, t *table) error {
	path := filepath.Join(dir, "writers.db")
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	var rate [2]float64
	all := 0
	for i, n := range []int{1, writers} {
		said, err := write(ctx, path, fmt.Sprint("w", n), n)
		if err != nil {
			return err
		}
		all += said
		rate[i] = float64(said) / writersFor.Seconds()
	}
	threads, err := store.Threads(ctx, memory.ThreadFilter{})
	if err != nil {
		return err
	}
	there := 0
	for _, th := range threads {
		messages, err := store.Messages(ctx, th.ID, 0, 0)
		if err != nil {
			return err
		}
		there += len(messages)
	}
	if want := 4 * all; there != want {
		return fmt.Errorf("%d messages are there of the %d of %d turns", there, want, all)
	}
	t.add(row{
		Server: "sqlite", Figure: "turns per second of one process ÷ of twenty on one file", Value: rate[0] / rate[1], Unit: "×", Bar: writersBar,
		Detail: fmt.Sprintf("%.0f and %.0f per second; all %d are there, message by message", rate[0], rate[1], all),
	})
	return nil
}

// write starts processes, lets them write at the same time and adds up what each
// says was acknowledged.
func write(ctx context.Context, path, name string, n int) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	type writer struct {
		*process
		out *bufio.Reader
	}
	var all []writer
	for i := range n {
		r, w := io.Pipe()
		p, err := spawn(name, self, []string{"store-writer", path, name + "-" + strconv.Itoa(i)}, nil, "", w)
		if err != nil {
			return 0, err
		}
		defer p.kill()
		go func() {
			<-p.done
			_ = w.CloseWithError(fmt.Errorf("a writer ended: %s", p.log)) // closing a pipe never fails
		}()
		all = append(all, writer{p, bufio.NewReader(r)})
	}
	for _, w := range all {
		if _, err := w.out.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	for _, w := range all {
		_ = w.in.Close() // the sign to begin
	}
	total := 0
	for _, w := range all {
		var said int
		if _, err := fmt.Fscan(w.out, &said); err != nil {
			return 0, err
		}
		total += said
	}
	return total, ctx.Err()
}

// storeWriter is this program as a writer: it waits until its input ends, writes
// for a while and says how much was acknowledged.
func storeWriter(ctx context.Context, path, session string) int {
	err := func() error {
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		fmt.Println("ready")
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
		n := 0
		for end := time.Now().Add(writersFor); time.Now().Before(end); n++ {
			if _, err := appendTurn(ctx, s, session, n); err != nil {
				return err
			}
		}
		fmt.Println(n)
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench store-writer:", err)
		return 1
	}
	return 0
}

// fileLengths are how many messages of 200 bytes the files hold.
var fileLengths = []int{100, 1000, 10_000}

// measureFiles says what JSON files cost: an append to a file of items, and the
// file of a thread in a file: store. Neither has a bar: both grow with the file.
func measureFiles(ctx context.Context, dir string, t *table) error {
	for _, n := range fileLengths {
		took, err := jsonAppend(ctx, filepath.Join(dir, fmt.Sprint("items-", n, ".json")), n)
		if err != nil {
			return err
		}
		t.add(row{Server: "json file", Figure: fmt.Sprintf("append of an item behind %d", n), Value: milliseconds(took), Unit: "ms"})
	}
	for _, n := range fileLengths {
		took, size, err := threadFile(ctx, filepath.Join(dir, fmt.Sprint("threads-", n)), n)
		if err != nil {
			return err
		}
		t.add(row{Server: "file:", Figure: fmt.Sprintf("writing the file of a thread of %d messages", n), Value: milliseconds(took), Unit: "ms", Detail: size})
	}
	return nil
}

type item struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func jsonAppend(ctx context.Context, path string, n int) (time.Duration, error) {
	p, err := rawstore.Open("file:"+path, rawstore.Options{})
	if err != nil {
		return 0, err
	}
	m := memory.NewPersistedMemory(p, func(i item) string { return i.ID })
	defer m.Close()
	items := make([]item, n)
	for i := range items {
		items[i] = item{strconv.Itoa(i), filler(200)}
	}
	if err := m.Set(ctx, "k", items); err != nil {
		return 0, err
	}
	var took []time.Duration
	for i := range 20 {
		at := time.Now()
		if err := m.Append(ctx, "k", item{fmt.Sprint("new-", i), filler(200)}); err != nil {
			return 0, err
		}
		took = append(took, time.Since(at))
	}
	return median(took), nil
}

func threadFile(ctx context.Context, dir string, n int) (time.Duration, string, error) {
	s, err := filestore.Open(ctx, dir, filestore.Options{Delay: time.Hour})
	if err != nil {
		return 0, "", err
	}
	defer s.Close()
	if err := lengthen(ctx, s, n); err != nil {
		return 0, "", err
	}
	if err := s.Flush(); err != nil {
		return 0, "", err
	}
	var took []time.Duration
	for i := range 5 {
		if _, err := appendTurn(ctx, s, appendSession, i); err != nil {
			return 0, "", err
		}
		at := time.Now()
		if err := s.Flush(); err != nil {
			return 0, "", err
		}
		took = append(took, time.Since(at))
	}
	files, err := filepath.Glob(filepath.Join(dir, "session_*.json"))
	if err != nil || len(files) != 1 {
		return 0, "", errors.Join(fmt.Errorf("files %v", files), err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		return 0, "", err
	}
	return median(took), "a file of " + size(int(info.Size())), nil
}
