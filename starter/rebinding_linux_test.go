package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page that has its own name point to this machine finds no port of dev that tells
// it what a workflow holds, or that ends one for it.
func TestNoPortOfDevAnswersToAForeignName(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	_, info, _ := u.dev()
	code, _, errout := u.run("send", "--detach", "-s", "a", "script: first 60s say never")
	require.Equal(t, 0, code, errout)
	const list = "/api/v1/namespaces/default/workflows"
	ask := func(method, address, host, path string) (int, string) {
		r, err := http.NewRequest(method, "http://"+address+path, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "" // it speaks no HTTP
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(raw)
	}
	ui := strings.TrimPrefix(info.UI, "http://")
	_, port, _ := strings.Cut(ui, ":")
	for _, host := range []string{ui, "localhost:" + port} {
		require.Eventually(t, func() bool {
			status, body := ask("GET", ui, host, list)
			return status == http.StatusOK && strings.Contains(body, "a/default")
		}, patience, 50*time.Millisecond, "the web UI answers as %s", host)
	}

	refused := map[string]int{}
	for _, address := range listeners(t, append(familyOf(info.PIDs.Temporal), info.PIDs.Web)) {
		for _, host := range []string{"evil.example:" + address[strings.Index(address, ":")+1:], "127.0.0.1.evil.example", "localhost.evil.example"} {
			status, body := ask("GET", address, host, list)
			assert.NotContains(t, body, "a/default", address)
			assert.NotEqual(t, http.StatusOK, status, address)
			refused[address] = status
			status, _ = ask("POST", address, host, list+"/a%2Fdefault/terminate")
			assert.NotEqual(t, http.StatusOK, status, address)
		}
	}
	assert.Equal(t, http.StatusMisdirectedRequest, refused[ui])
	closed := 0
	for _, status := range refused {
		if status == http.StatusForbidden {
			closed++
		}
	}
	assert.NotZero(t, closed, "the HTTP API of the server refuses: %v", refused)
	_, out, _ := u.run("show", "--json", "a/default")
	assert.Contains(t, out, `"status":"running"`, "nothing was terminated")
}

// familyOf is a process with those that it started, and those that these did.
func familyOf(pid int) []int {
	family := []int{pid}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range threads {
		raw, _ := os.ReadFile(file) // one that has ended has none
		for _, child := range strings.Fields(string(raw)) {
			n, _ := strconv.Atoi(child)
			family = append(family, familyOf(n)...)
		}
	}
	return family
}

// listeners are the ports of processes at 127.0.0.1. The web UI of Temporal's program is
// at an address that a page would have to guess among millions; no port is open to
// other machines.
func listeners(t *testing.T, pids []int) (addresses []string) {
	t.Helper()
	ours := map[string]bool{}
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil {
				ours[to] = true
			}
		}
	}
	hidden := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(table)
		require.NoError(t, err)
		for _, line := range strings.Split(string(raw), "\n")[1:] {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !ours["socket:["+f[9]+"]"] {
				continue
			}
			ip, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			b, err := hex.DecodeString(ip)
			require.NoError(t, err)
			require.Len(t, b, 4, "a port of IPv6: %s", line)
			require.EqualValues(t, 127, b[3], "a port that other machines reach: %s", line)
			if ip != "0100007F" {
				hidden++
				continue
			}
			addresses = append(addresses, "127.0.0.1:"+strconv.FormatUint(n, 10))
		}
	}
	assert.Equal(t, 1, hidden, "ports at a hidden address")
	return addresses
}
