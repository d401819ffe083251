package trust_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/trust"
)

func TestAgreements(t *testing.T) {
	home, folder := filepath.Join(t.TempDir(), "home"), t.TempDir()
	file := func(folder, name, text string) trust.File {
		return trust.File{Folder: folder, Name: name, Raw: []byte(text)}
	}
	a := file(folder, "a", "x")
	assert.False(t, trust.Open(home).Agreed(a))
	require.NoError(t, trust.Agree(home, time.Now(), a, file(filepath.Join(folder, "in"), "a", "x")))
	info, err := os.Stat(trust.Path(home))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left behind")
	book := trust.Open(home)
	assert.True(t, book.Agreed(a))
	for _, other := range []trust.File{file(folder, "a", "y"), file(folder, "b", "x"), file(t.TempDir(), "a", "x"), file(folder, "a", ""), {Folder: folder, Name: "a"}} {
		assert.False(t, book.Agreed(other), other)
	}
	n, err := trust.Forget(home, folder)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.False(t, trust.Open(home).Agreed(a))
	assert.True(t, trust.Open(home).Agreed(file(filepath.Join(folder, "in"), "a", "x")), "a folder in it is another one")
}

// Without a home there are no agreements, whatever lies in the working directory.
func TestNoHomeNoAgreements(t *testing.T) {
	dir := t.TempDir()
	f := trust.File{Folder: dir, Name: "a", Raw: []byte("x")}
	require.NoError(t, trust.Agree(dir, time.Now(), f))
	t.Chdir(dir)
	assert.False(t, trust.Open("").Agreed(f))
	assert.Error(t, trust.Agree("", time.Now(), f))
}

func TestWhatIsShown(t *testing.T) {
	assert.Equal(t, `runs "a b" "\n\x1b[31m\u202e\u3164\u0430\""`, trust.Line("runs", "a b", "\n\x1b[31m\u202e\u3164а\""))
	assert.Equal(t, "starter trust /a/b-c", trust.Command("/a/b-c"))
	assert.Equal(t, "starter trust", trust.Command("/a $(b)"))
	assert.Equal(t, "starter trust", trust.Command("/a\nb"))
}

// A file is agreed to byte by byte, and read however an editor saves it.
func TestCase_B01_TheBytesAreAgreedTo(t *testing.T) {
	dir := t.TempDir()
	hashes := map[string]bool{}
	for _, text := range []string{"a: 1\n", "a: 1\r\n", "\ufeffa: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := trust.Read(dir, "x")
		if err != nil || string(f.Raw) != "a: 1\n" || hashes[f.Hash()] {
			t.Errorf("%q: %q %s %v", text, f.Raw, f.Hash(), err)
		}
		hashes[f.Hash()] = true
	}
}

// Several programs may agree at once: no agreement replaces another, and nothing is left behind.
func TestAgreementsMadeAtOnceAreAllKept(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "trust.json.new"), []byte("{ half"), 0o600))
	var all sync.WaitGroup
	files := make([]trust.File, 20)
	for i := range files {
		files[i] = trust.File{Folder: t.TempDir(), Name: "a", Raw: []byte("x")}
		all.Go(func() { assert.NoError(t, trust.Agree(home, time.Now(), files[i])) })
	}
	all.Wait()
	book := trust.Open(home)
	for _, f := range files {
		assert.True(t, book.Agreed(f), f.Folder)
	}
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
