package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
)

// DevInfo is the ready object of a running `starter dev`, kept in HOME/dev.json.
type DevInfo struct {
	Temporal string `json:"temporal"`
	UI       string `json:"ui"`
	Web      string `json:"web"`
	// Codec decrypts for the UI, "" if nothing is encrypted.
	Codec string `json:"codec,omitempty"`
	Store string `json:"store"`
	Home  string `json:"home"`
	// Workspace is where tools work.
	Workspace string  `json:"workspace,omitempty"`
	PIDs      DevPIDs `json:"pids"`
}

// DevPIDs are the processes of a dev stack. Temporal is 0 when the stack uses
// a server it did not start.
type DevPIDs struct {
	Temporal int   `json:"temporal"`
	Workers  []int `json:"workers"`
	// Web is 0 when the web server runs in the process of dev itself.
	Web int `json:"web,omitempty"`
}

const devDialTimeout = time.Second

// DevPath is where the ready object of a home lies.
func DevPath(home string) string { return filepath.Join(home, "dev.json") }

// ReadLive returns the ready object of the dev stack of this home if that stack
// is alive: one of its processes exists and its Temporal address takes a
// connection. A missing, damaged or dead file is reported as false: it only says
// that nothing runs, and where it ran.
func ReadLive(home string) (DevInfo, bool) {
	raw, err := os.ReadFile(DevPath(home))
	if err != nil {
		return DevInfo{}, false
	}
	var info DevInfo
	if json.Unmarshal(raw, &info) != nil || info.Temporal == "" || !info.processAlive() {
		return info, false
	}
	conn, err := net.DialTimeout("tcp", info.Temporal, devDialTimeout)
	if err != nil {
		return info, false
	}
	_ = conn.Close()
	return info, true
}

func (d DevInfo) processAlive() bool {
	if d.PIDs.Temporal != 0 {
		return Alive(d.PIDs.Temporal)
	}
	return slices.ContainsFunc(d.PIDs.Workers, Alive)
}

// Alive reports whether a process of this machine runs, whoever's it is.
func Alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// WriteDev writes the ready object atomically. Only the owner may read it, as
// the store's address may hold a password.
func WriteDev(home string, info DevInfo) error {
	if info.PIDs.Workers == nil {
		info.PIDs.Workers = []int{}
	}
	raw, err := json.MarshalIndent(info, "", "  ")
	if err == nil {
		err = os.MkdirAll(home, 0o700)
	}
	next := DevPath(home) + ".new" // a home has one dev stack, so nobody else writes it
	if err == nil {
		err = os.WriteFile(next, append(raw, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(next, DevPath(home))
	}
	return agent.Wrap(err, agent.CodeInternal, "cannot write %s", DevPath(home))
}

// RemoveDev removes the ready object; a missing one is fine.
func RemoveDev(home string) error {
	if err := os.Remove(DevPath(home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return agent.Wrap(err, agent.CodeInternal, "cannot remove %s", DevPath(home))
	}
	return nil
}
