package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// mostTools bounds a server's list.
	mostTools = 1000
	// mostIdle is how many pages in a row may bring nothing new.
	mostIdle = 10
)

// list reads the pages, for the tools that are offered. Of a list without an end, and of one
// that breaks off, what was read is kept.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) ([]*sdk.Tool, error) {
	var tools []*sdk.Tool
	names, cursors, idle := map[string]bool{}, map[string]bool{"": true}, 0
	for cursor := ""; ; {
		page, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		var refused *jsonrpc.Error
		answered := errors.As(err, &refused) && !isUndelivered(refused)
		if answered && refused.Code == jsonrpc.CodeMethodNotFound && cursor == "" {
			return nil, nil // a server of prompts or resources only
		}
		if page == nil && len(tools) > 0 && (answered || ctx.Err() != nil) {
			s.log.Warn("MCP server does not give the rest of its list of tools: those that it listed are offered", "tools", len(tools), "error", err)
			return tools, nil //nolint:nilerr // a part is better than nothing, and it is said
		}
		if err != nil {
			return nil, err
		}
		idle++
		for _, t := range page.Tools {
			if t == nil || t.Name == "" || names[t.Name] {
				continue
			}
			if names[t.Name], idle = true, 0; !s.cfg.offers(t.Name) {
				continue
			}
			if len(tools) == mostTools {
				s.log.Warn(fmt.Sprintf("MCP server has very many tools: only the first %d are offered; choose with includeTools", mostTools))
				return tools, nil
			}
			tools = append(tools, t)
		}
		if cursor = page.NextCursor; cursor == "" {
			return tools, nil
		}
		if cursors[cursor] || idle == mostIdle || len(names) > 10*mostTools {
			s.log.Warn("MCP server repeats itself in its list of tools, which has no end: the tools that it listed so far are offered", "tools", len(tools))
			return tools, nil
		}
		cursors[cursor] = true
	}
}

// listChanged is told by the server, perhaps while the session is being opened, and
// perhaps very often.
func (s *server) listChanged(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.changed = true
	s.refresh(l)
}

// refresh has the list read if it changed; one reading at a time. s.mu is held.
func (s *server) refresh(l *link) {
	if s.link == l && l.changed && !l.reading {
		l.changed, l.reading = false, true
		go s.relist(l)
	}
}

func (s *server) relist(l *link) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Start)
	defer cancel()
	tools, err := s.list(ctx, l.session)
	if err != nil {
		s.log.Warn("MCP server changed its list of tools but does not give it", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.reading = false
	if err == nil && s.link == l {
		s.take(tools)
	}
	s.refresh(l)
}
