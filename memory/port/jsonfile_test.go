package port_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
)

func jsonPort(path string, o port.JSONFileOptions) *port.PersistedMemory[json.RawMessage] {
	return port.NewPersistedMemory[json.RawMessage](port.NewJSONFile(path, o))
}

// sample is a file as JSONFile writes it, with the key that it holds.
func sample(t *testing.T) (text []byte, want []json.RawMessage) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.json")
	p := jsonPort(path, port.JSONFileOptions{})
	want = []json.RawMessage{json.RawMessage(`{"id":"a","content":"ü \"x\" {[,"}`), json.RawMessage(`{"id":"b","n":[1,2,{}]}`), json.RawMessage(`"bare"`)}
	require.NoError(t, errors.Join(p.Set(t.Context(), "cli", want), p.Set(t.Context(), "s/two", want[:1]), p.Close()))
	text = memorytest.Must(os.ReadFile(path))(t)
	return text, want
}

// aside are the files that were set aside next to path.
func aside(t *testing.T, path string) []string {
	t.Helper()
	found := memorytest.Must(filepath.Glob(path + ".damaged-*"))(t)
	return found
}

// damaged checks what the first accesses to a file with this text do: it is set
// aside with all its bytes, reported once, and a write begins a new file.
func damaged(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
	p := jsonPort(path, port.JSONFileOptions{})
	defer p.Close()
	item := json.RawMessage(`{"id":"new"}`)
	err := p.Append(t.Context(), "new", item)
	var d *port.DamagedError
	if !errors.As(err, &d) {
		t.Fatalf("%q: %v, want a DamagedError", text, err)
	}
	for _, w := range []string{path, d.SetAside, "set aside"} {
		if d.SetAside == "" || !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	require.NoError(t, p.Append(t.Context(), "new", item), "the second access")
	keys, err := p.Keys(t.Context())
	if err != nil || !slices.Equal(keys, []string{"new"}) {
		t.Errorf("%q: keys %v, %v", text, keys, err)
	}
	files := aside(t, path)
	if len(files) != 1 || files[0] != d.SetAside {
		t.Fatalf("set aside: %v, want %s", files, d.SetAside)
	}
	if kept, err := os.ReadFile(files[0]); err != nil || string(kept) != string(text) {
		t.Errorf("set aside was %q, %v; want %q", kept, err, text)
	}
}

// TestFault_C11_FileCutAnywhere cuts a file at every byte: what is left is
// either the whole or set aside.
func TestFault_C11_FileCutAnywhere(t *testing.T) {
	text, want := sample(t)
	whole := 0
	for n := range len(text) + 1 {
		path := filepath.Join(t.TempDir(), "m.json")
		if n < len(text)-1 {
			damaged(t, path, text[:n])
			continue
		}
		whole++ // only the newline at its end may go
		require.NoError(t, os.WriteFile(path, text[:n], 0o600))
		p := jsonPort(path, port.JSONFileOptions{})
		got, err := p.Get(t.Context(), "cli")
		if err != nil || !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Errorf("cut at %d of %d: %s, %v", n, len(text), got, err)
		}
		if files := aside(t, path); len(files) > 0 {
			t.Errorf("a whole file was set aside: %v", files)
		}
		_ = p.Close()
	}
	if whole != 2 {
		t.Errorf("%d files were whole", whole)
	}
}

// TestRow28_DamageIsReportedOnce: with a callback the access goes on.
func TestRow28_DamageIsReportedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	now := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	var reports []*port.DamagedError
	p := jsonPort(path, port.JSONFileOptions{
		Now: func() time.Time { return now }, OnDamage: func(d *port.DamagedError) { reports = append(reports, d) },
	})
	defer p.Close()
	for n := 1; n <= 3; n++ {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		for range 3 {
			if got, err := p.Get(t.Context(), "k"); err != nil || len(got) != 0 {
				t.Fatalf("%v, %v", got, err)
			}
		}
		if len(reports) != n || len(aside(t, path)) != n {
			t.Fatalf("%d reports, %v set aside, want %d", len(reports), aside(t, path), n)
		}
	}
	want := path + ".damaged-20260301T120000.000000005Z"
	if reports[0].SetAside != want || reports[1].SetAside != want+"-1" {
		t.Errorf("set aside as %s and %s", reports[0].SetAside, reports[1].SetAside)
	}
}

// TestEditedFileIsReadAgain: people may edit the file between two accesses.
func TestEditedFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	p := jsonPort(path, port.JSONFileOptions{})
	defer p.Close()
	require.NoError(t, p.Set(t.Context(), "k", []json.RawMessage{json.RawMessage(`{"id":"a"}`)}))
	require.NoError(t, os.WriteFile(path, []byte("{ \"k\": [ {\"id\": \"a\" , \"x\":1}, 2 ] , \"empty\": [] }"), 0o600))
	got, err := p.Get(t.Context(), "k")
	if err != nil || len(got) != 2 || string(got[0]) != `{"id":"a","x":1}` {
		t.Errorf("%s, %v", got, err)
	}
	require.NoError(t, p.Append(t.Context(), "k", json.RawMessage(`{"x":1,"id":"a"}`)), "the same item, spelled otherwise")
	if keys, err := p.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("%v, %v", keys, err)
	}
	require.NoError(t, os.Remove(path))
	if keys, err := p.Keys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("after the file was removed: %v, %v", keys, err)
	}
}

// TestWhatIsNoFileIsRefused: a folder or a pipe of that name, a file as folder.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	for _, path := range []string{dir, filepath.Join(file, "m.json"), filepath.Join(dir, strings.Repeat("n", 300))} {
		p := jsonPort(path, port.JSONFileOptions{})
		if err := p.Append(t.Context(), "k", json.RawMessage(`1`)); agent.CodeOf(err) != agent.CodeInvalid || !strings.Contains(err.Error(), "another path") {
			t.Errorf("%s: %v", path, err)
		}
		_ = p.Close()
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}

// TestGivingUpWaitingForTheLock: the caller's context and the longest wait end it.
func TestGivingUpWaitingForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	holder, waiter := port.NewJSONFile(path, port.JSONFileOptions{}), jsonPort(path, port.JSONFileOptions{Wait: 50 * time.Millisecond})
	defer holder.Close()
	defer waiter.Close()
	item := json.RawMessage(`{"id":"a"}`)
	err := holder.Update(t.Context(), func(r port.Records) error {
		if err := waiter.Append(t.Context(), "k", item); agent.CodeOf(err) != agent.CodeUnavailable || !strings.Contains(err.Error(), "another process") {
			t.Errorf("after the longest wait: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := waiter.Append(ctx, "k", item); !errors.Is(err, context.DeadlineExceeded) || agent.CodeOf(err) != agent.CodeUnavailable {
			t.Errorf("after the caller gave up: %v", err)
		}
		memorytest.Must(waiter.Get(t.Context(), "k"))(t) // reading needs no lock
		_, err := r.Append("k", []port.Record{{ID: "a", Body: item}})
		return err
	})
	require.NoError(t, err)
	require.NoError(t, waiter.Append(t.Context(), "k", item))
}

// TestBadItemsAreRefused: what JSON cannot hold, or could not be read again.
func TestBadItemsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	p := jsonPort(path, port.JSONFileOptions{})
	defer p.Close()
	for _, item := range []string{`{`, "\"\xff\"", `1 2`, ` `} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(p.Append(t.Context(), "k", json.RawMessage(`1`), json.RawMessage(item))))
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	numbers := port.NewPersistedMemory[int](port.NewJSONFile(path, port.JSONFileOptions{}))
	require.NoError(t, p.Append(t.Context(), "k", json.RawMessage(`"text"`)))
	if _, err := numbers.Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("an item of another type: %v", err)
	}
}
