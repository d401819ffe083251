// Package httplogtest reads what httplog wrote, for tests.
package httplogtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spool-agents/spool/internal/httplog"
)

// Read reads a log; one that is not there is empty. lost counts lines that are
// torn or no entries.
func Read(path string) (entries []httplog.Entry, lost int, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e httplog.Entry
		dec := json.NewDecoder(bytes.NewReader(line))
		if dec.Decode(&e) != nil {
			lost++
			continue
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			lost++
			continue
		}
		entries = append(entries, e)
	}
	return entries, lost, err
}
