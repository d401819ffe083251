package config_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/encryption"
)

// Rule: a wrong value names the setting, the value, what is allowed and where
// it came from.
func TestWrongValues(t *testing.T) {
	const stores = "sqlite:PATH, postgres://USER@HOST/DB, file:DIR or memory:"
	for _, c := range []struct{ env, setting, value, allowed string }{
		{"SPOOL_STORE", "store", "mysql://x", stores},
		{"SPOOL_STORE", "store", "sqlite:", stores},
		{"SPOOL_STORE", "store", "memory:x", stores},
		{"SPOOL_STORE", "store", "postgres:db", stores},
		{"SPOOL_PROFILE", "profile", "a/b", "a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -"},
		{"SPOOL_USER", "user", "a/b", "up to 128 characters without spaces and /"},
		{"SPOOL_WORKSPACE", "workspace", "/no/such/dir", "an existing directory"},
		{"SPOOL_TEMPORAL_UI", "temporalUi", "localhost:8233", "an http:// or https:// URL"},
		{"OPENAI_BASE_URL", "openaiBaseUrl", "api.example.com", "an http:// or https:// URL"},
		{"SPOOL_HTTP_LOG", "httpLog", "maybe", "true, false, 1, 0, yes, no, on or off"},
		{"SPOOL_MAX_STEPS", "maxSteps", "-1", "a whole number from 0 to 1000000"},
		{"SPOOL_MAX_TURNS_PER_WORKER", "maxTurnsPerWorker", "0", "a whole number from 1 to 100000"},
		{"SPOOL_IDLE_TIMEOUT", "idleTimeout", "5", "a duration above zero such as 90s, 15m or 2h"},
		{"SPOOL_HEALTH_ADDRESS", "healthAddress", "nowhere", "a port, or HOST:PORT such as 0.0.0.0:9464"},
		{"SPOOL_RETRY_FOR", "retryFor", "-1m", "a duration above zero such as 90s, 15m or 2h"},
		{"TEMPORAL_ADDRESS", "temporalAddress", "localhost", "HOST:PORT, for instance localhost:7233"},
		{"SPOOL_WEB_APPROVALS", "webApprovals", "shell(git", "rules TOOL or TOOL(PATTERN), separated by commas"},
		{"SPOOL_WEB_APPROVALS", "webApprovals", "ls,shell: auto", "rules TOOL or TOOL(PATTERN), separated by commas"},
		{"SPOOL_ENCRYPTION_KEYS", "encryptionKeys", " ", encryption.Allowed + "; here: there is no key in it"},
	} {
		t.Run(c.env+"="+c.value, func(t *testing.T) {
			w := newWorld(t)
			w.env[c.env] = c.value
			_, err := w.load()
			require.EqualError(t, err, fmt.Sprintf("%s %q (from environment %s) is not valid: use %s", c.setting, c.value, c.env, c.allowed))
		})
	}
}

// A port alone is one of loopback: nobody else can ask unless somebody says so.
func TestAHealthAddressIsOneOfLoopback(t *testing.T) {
	for value, want := range map[string]string{"9464": "127.0.0.1:9464", "0.0.0.0:9464": "0.0.0.0:9464", "[::1]:1": "[::1]:1"} {
		w := newWorld(t)
		w.env["SPOOL_HEALTH_ADDRESS"] = value
		cfg, err := w.load()
		require.NoError(t, err)
		assert.Equal(t, want, cfg.HealthAddress)
	}
}

func TestWrongSources(t *testing.T) {
	w := newWorld(t)
	w.flags["retryFor"] = "x"
	w.flags["colour"] = "red"
	w.agreedDir("model: m\nstoer: memory\nhttpLog: [1]\nmaxSteps: many\n")
	w.yamlHome("home: /x\n")
	_, err := w.load()
	require.Error(t, err)
	for _, want := range []string{
		`retryFor "x" (from flag --retry-for)`,
		`flag --colour does not exist; allowed: home, profile`,
		w.dir + `/spool.yaml:2: setting "stoer" does not exist; allowed: home, profile`,
		w.dir + `/spool.yaml:3: httpLog must be a single value`,
		`maxSteps "many" (from ` + w.dir + `/spool.yaml:4) is not valid`,
		w.home + `/spool.yaml:1: home cannot be set inside the home directory`,
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestWrongYAMLAndTOML(t *testing.T) {
	w := newWorld(t)
	w.agreedDir("a: [\n")
	_, err := w.load()
	assert.ErrorContains(t, err, w.dir+"/spool.yaml is not valid YAML")
	w.agreedDir("store: memory:\n")
	_, err = w.load()
	assert.ErrorContains(t, err, "in quotes")
	w.agreedDir("- a\n")
	_, err = w.load()
	assert.ErrorContains(t, err, "must be a mapping of settings to values")
	w.yamlDir("")
	w.must()

	path := w.toml("[profile.default]\naddress = \"a:1\"\n")
	w.env["TEMPORAL_PROFILE"] = "prod"
	_, err = w.load()
	assert.EqualError(t, err, `temporalProfile "prod" (from environment TEMPORAL_PROFILE) is not valid: use a profile of `+path)
	w.env["TEMPORAL_CONFIG_FILE"] = "/no/such.toml"
	_, err = w.load()
	assert.ErrorContains(t, err, `temporalConfigFile "/no/such.toml" (from environment TEMPORAL_CONFIG_FILE) cannot be read`)
	delete(w.env, "TEMPORAL_CONFIG_FILE")
	w.toml("[profile")
	_, err = w.load()
	assert.ErrorContains(t, err, path+" is not usable")
}

func TestWrongTLS(t *testing.T) {
	w := newWorld(t)
	w.env["TEMPORAL_TLS"] = "perhaps"
	_, err := w.load()
	assert.ErrorContains(t, err, `TEMPORAL_TLS "perhaps" (from environment) is not valid: use true, false, 1 or 0`)
	w.env["TEMPORAL_TLS"] = "true"
	w.env["TEMPORAL_TLS_SERVER_CA_CERT_PATH"] = "/no/ca.pem"
	_, err = w.load()
	assert.ErrorContains(t, err, "the Temporal connection")
	delete(w.env, "TEMPORAL_TLS_SERVER_CA_CERT_PATH")
	c := w.must()
	assert.NotNil(t, c.Temporal.ConnectionOptions.TLS)
	assert.Equal(t, "environment TEMPORAL_TLS", source(c, "temporalTls"))
}

func TestSecretsAreMasked(t *testing.T) {
	w := newWorld(t)
	const key = "sk-proj-1234567890abcdef"
	w.env["OPENAI_API_KEY"] = key
	w.env["SPOOL_STORE"] = "postgres://u:hunter2@h/db?sslmode=disable"
	c := w.must()
	assert.Equal(t, key, c.OpenAIKey.Reveal())
	assert.False(t, c.Demo())
	raw, err := json.Marshal(struct{ K config.Secret }{c.OpenAIKey})
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprint(c.OpenAIKey), fmt.Sprintf("%+v %#v %q %d %x", c.OpenAIKey, c.OpenAIKey, c.OpenAIKey, c.OpenAIKey, c.OpenAIKey),
		fmt.Sprint(c.Explain()), string(raw),
	} {
		assert.NotContains(t, text, "1234567890")
		assert.NotContains(t, text, "hunter2")
		assert.NotContains(t, text, fmt.Sprintf("%x", "1234567890"))
	}
	assert.Equal(t, "****", config.NewSecret("short").String())
	assert.Equal(t, "****cdef", c.OpenAIKey.String())

	w.env["SPOOL_STORE"] = "postgres://u:hunter2@"
	_, err = w.load()
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestExplainIsStable(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, w.must().Explain(), w.must().Explain())
}
