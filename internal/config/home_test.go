package config_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/config"
)

// Without HOME the list of users says where ~ is, and no folder is called ~.
func TestHomeWithoutHOME(t *testing.T) {
	w := newWorld(t)
	delete(w.env, "SPOOL_HOME")
	for _, home := range []string{"", "not/absolute"} {
		w.env["HOME"] = home
		c, err := w.load()
		u, unknown := user.LookupId(strconv.Itoa(os.Getuid()))
		if unknown != nil {
			assert.ErrorContains(t, err, "HOME is not set")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(u.HomeDir, ".spool"), c.Home)
		w.env["SPOOL_STORE"] = "file:~/threads"
		assert.Equal(t, "file:"+filepath.Join(u.HomeDir, "threads"), w.must().Store)
		w.env["SPOOL_STORE"] = "sqlite:~/s.db?x=1"
		assert.Equal(t, "sqlite:"+filepath.Join(u.HomeDir, "s.db")+"?x=1", w.must().Store)
		delete(w.env, "SPOOL_STORE")
	}
	w.env["HOME"] = "/somewhere"
	assert.Equal(t, "/somewhere/.spool", w.must().Home)
}

// A link into a web UI needs one that answers.
func TestTheWebUIOfALocalServer(t *testing.T) {
	w := newWorld(t)
	json := true
	ui := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/settings" && json {
			rw.Header().Set("Content-Type", "application/json")
		}
		_, _ = rw.Write([]byte("{}"))
	}))
	defer ui.Close()
	host, port, err := net.SplitHostPort(ui.Listener.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	w.flags[config.TemporalAddress] = net.JoinHostPort(host, strconv.Itoa(n-1000))
	assert.Equal(t, ui.URL, w.must().TemporalUI)
	json = false
	assert.Empty(t, w.must().TemporalUI, "something else listens there")
	ui.Close()
	assert.Empty(t, w.must().TemporalUI)
}
