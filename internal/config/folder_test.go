package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/trust"
)

// everything is a folder's spool.yaml that sets all it can.
const everything = "home: state\nprofile: p\nuser: root\nworkspace: /\nstore: file:/tmp/x\ntaskQueue: q\n" +
	"temporalConfigFile: t.toml\ntemporalProfile: x\ntemporalAddress: evil:1\ntemporalNamespace: n\ntemporalUi: http://evil\nopenaiBaseUrl: http://evil/v1\n" +
	"openaiApiKey: k\nmodel: m\ntavilyApiKey: k\nwebFetchPrivate: true\nshellMemory: 0\nhttpLog: true\nmaxTurnsPerWorker: 99999\nidleTimeout: 9h\n" +
	"retryFor: 9h\nmaxSteps: 0\nmaxDepth: 20\nmaxFanOut: 0\nmaxDescendants: 0\nbudgetTokens: 0\nbudgetPrice: 0\nbudgetTime: 0s\ndisabledAgents: general\n" +
	"priceInput: 0.0001\npriceOutput: 0.0001\nwebToken: aaaaaaaaaaaaaaaaaaaa\nwebTokens: tokens\ncontextWindow: 100000000\nfallbackModels: m2\n" +
	"server: http://evil?token=x\nserverToken: aaaaaaaaaaaaaaaaaaaa\nencryptionKeys: file:/dev/zero\ncodecToken: aaaaaaaaaaaaaaaaaaaa\n"

// Of a folder's spool.yaml only what does no harm counts before a person has agreed to it.
func TestAFolderSetsNothingThatOpensOrNames(t *testing.T) {
	w := newWorld(t)
	w.yamlHome("maxSteps: 50\nbudgetPrice: 2\nbudgetTokens: 9\nbudgetTime: 1h\ndisabledAgents: researcher\n")
	before := map[string]string{}
	for _, s := range w.must().Explain() {
		before[s.Name] = s.Value
	}
	w.yamlDir(everything)
	c := w.must()
	want := map[string]string{"profile": "p", "model": "m", "fallbackModels": "m2", "disabledAgents": "general,researcher"}
	for _, s := range c.Explain() {
		if v, ok := want[s.Name]; ok {
			assert.Equal(t, v, s.Value, s.Name)
			continue
		}
		assert.Equal(t, before[s.Name], s.Value, s.Name)
		assert.NotContains(t, s.Source, w.dir, s.Name)
	}
	assert.Equal(t, map[string]bool{"general": false, "researcher": false}, c.Delegation.EnabledAgents)
	require.Len(t, c.Ignored, 2)
	assert.Contains(t, c.Ignored[0], "spool.yaml:1: home is not taken from a folder's spool.yaml")
	assert.Contains(t, c.Ignored[1], "spool.yaml:3: before you agree to this file, it does not set user, workspace")
	assert.Contains(t, c.Ignored[1], trust.Command(w.dir))
	assert.Len(t, c.Folder.Allows, strings.Count(everything, "\n")-5, "all but home and those that count")
	assert.Contains(t, c.Folder.Allows, `server: "http://evil?token=x"`)
}

// A folder's file that is wrong stops nothing before a person has agreed to it, and counts
// for nothing.
func TestAWrongFileOfAFolderIsIgnoredUntilItIsAgreedTo(t *testing.T) {
	w := newWorld(t)
	for text, wrong := range map[string]string{
		"profile: p\ncolour: red\n":    `spool.yaml:2: setting "colour" does not exist`,
		"profile: p\nmaxSteps: many\n": `maxSteps "many"`,
		"profile: [\n":                 "is not valid YAML",
		"- profile\n":                  "must be a mapping",
	} {
		w.yamlDir(text)
		c := w.must()
		assert.NotEqual(t, "p", c.Profile, text)
		require.Len(t, c.Ignored, 1, text)
		assert.Contains(t, c.Ignored[0], wrong)
		assert.Contains(t, c.Ignored[0], filepath.Join(w.dir, "spool.yaml"))
		assert.Contains(t, c.Folder.Problem, wrong)
		require.NoError(t, trust.Agree(c.Home, time.Now(), c.Folder.File))
		_, err := w.load()
		assert.ErrorContains(t, err, wrong, "of a file that was agreed to it is an error")
	}
}

// A limit of a folder counts where it is stricter, and 0 is no limit.
func TestAFolderMakesLimitsStricter(t *testing.T) {
	w := newWorld(t)
	w.yamlHome("maxSteps: 50\nbudgetPrice: 2\nbudgetTime: 1h\nshellMemory: 0\n")
	w.yamlDir("maxSteps: 49\nbudgetPrice: $1.5\nbudgetTime: 3599s\nshellMemory: 1\nmaxDepth: 0\nmaxFanOut: 7\nmaxDescendants: 1\nidleTimeout: 1m\nretryFor: 1m\nmaxTurnsPerWorker: 1\nbudgetTokens: 5\n")
	c := w.must()
	assert.Empty(t, c.Ignored)
	assert.Equal(t, []any{49, 1.5, 3599 * time.Second, int64(1 << 20), 0, 7, 1, time.Minute, time.Minute, 1, int64(5)},
		[]any{c.MaxSteps, c.Delegation.MaxPrice, c.Delegation.MaxTime, c.ShellMemory, c.Delegation.MaxDepth, c.Delegation.MaxFanOut,
			c.Delegation.MaxDescendants, c.IdleTimeout, c.RetryFor, c.MaxTurnsPerWorker, c.Delegation.MaxTokens})
	for _, laxer := range []string{"maxSteps: 51", "maxSteps: 0", "budgetPrice: 2.01", "budgetPrice: 0", "budgetTime: 0s", "maxDepth: 4", "maxFanOut: 0", "idleTimeout: 121s"} {
		w.yamlDir(laxer)
		c := w.must()
		assert.Len(t, c.Folder.Allows, 1, laxer)
		assert.Len(t, c.Ignored, 1, laxer)
		assert.Equal(t, []any{50, 2.0, time.Hour, 3, 8, 2 * time.Minute}, []any{c.MaxSteps, c.Delegation.MaxPrice, c.Delegation.MaxTime, c.Delegation.MaxDepth, c.Delegation.MaxFanOut, c.IdleTimeout}, laxer)
	}
	w.yamlDir("budgetPrice: NaN")
	assert.Contains(t, w.must().Folder.Problem, "budgetPrice")
}

// However a file is written, what it asks for is found in it.
func TestAFolderFindsNoOtherSpelling(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{
		"model: a\n---\nstore: memory\n", "\uFEFFstore: memory\n", "store: memory\r\n", "\"store\": memory\n", "'store': \"memory\"\n", "{store: memory}\n",
		"? store\n: memory\n", "store: !!str memory\n", "store: &a memory\n", "x: &a memory\nstore: *a\n", "<<: {store: memory}\n", "store: a\nstore: memory\n",
		"&a store: memory\n", "!!str store: memory\n", "store: |\n  memory\n", "%YAML 1.2\n---\nstore: memory\n",
	} {
		w.yamlDir(text)
		c, err := w.load()
		if err == nil {
			assert.Equal(t, "sqlite:"+w.home+"/spool.db", c.Store, text)
		}
	}
}

// An agreement is to these bytes in this folder.
func TestAnAgreementIsToTheBytes(t *testing.T) {
	w := newWorld(t)
	w.agreedDir("store: memory\n")
	c := w.must()
	assert.Equal(t, "memory:", c.Store)
	assert.Empty(t, c.Ignored)
	w.yamlDir("store: memory \n")
	assert.NotEqual(t, "memory:", w.must().Store)
	w.agree()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(w.dir, link))
	load := func(dir string) config.Config {
		c, err := config.Load(config.Options{Dir: dir, Env: func(k string) string { return w.env[k] }})
		require.NoError(t, err)
		return c
	}
	assert.Equal(t, "memory:", load(link).Store, "the same folder")
	other := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(w.dir, "spool.yaml"), filepath.Join(other, "spool.yaml")))
	assert.NotEqual(t, "memory:", load(other).Store, "another folder that borrows the file")
	w.write(trust.Path(w.home), "{broken")
	assert.NotEqual(t, "memory:", w.must().Store, "agreements that cannot be read are none")
}

// spool.yaml of home is the user's own, by whatever path home is the working directory.
func TestTheFileOfHomeNeedsNoAgreement(t *testing.T) {
	w := newWorld(t)
	w.yamlHome("store: memory\n")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(w.home, link))
	for _, dir := range []string{w.home, link} {
		w.dir = dir
		assert.Equal(t, "memory:", w.must().Store)
	}
	w.dir = filepath.Dir(w.home)
	w.yamlDir("store: file:x\n")
	assert.Equal(t, "memory:", w.must().Store, "the folder that home lies in is a folder")
}

func TestAFileThatIsNone(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.dir, "spool.yaml")
	for _, put := range []func() error{
		func() error { return syscall.Mkfifo(path, 0o600) },
		func() error { return os.Symlink("/dev/zero", path) },
		func() error { return os.Mkdir(path, 0o700) },
		func() error { return os.Symlink(path, path) },
		func() error { return os.WriteFile(path, make([]byte, 2<<20), 0o600) },
		func() error { return os.WriteFile(path, bytes.Repeat([]byte("["), 100_000), 0o600) },
	} {
		require.NoError(t, put())
		c := w.must()
		require.Len(t, c.Ignored, 1)
		require.Contains(t, c.Ignored[0]+c.Folder.Problem, path)
		require.NoError(t, os.Remove(path))
	}
}

// Settings are read however an editor saves them.
func TestCase_B01_SettingsAsEditorsSaveThem(t *testing.T) {
	for _, text := range []string{"\ufeffmaxSteps: 7\n", "\ufeff\r\n# steps\r\nmaxSteps: 7\r\n", "--- \nmaxSteps:\t7 \n... \n", "maxSteps: 7\r", "\xfe\xff\x00m\x00a\x00x\x00S\x00t\x00e\x00p\x00s\x00:\x00 \x007"} {
		w := newWorld(t)
		w.agreedDir(text)
		assert.Equal(t, 7, w.must().MaxSteps, "%q", text)
	}
}
