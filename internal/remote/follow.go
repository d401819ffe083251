package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// silence is how long a stream may say nothing: the server's heartbeat is much
// more frequent.
const silence = 50 * time.Second

// errDone ends a stream that has nothing more.
var errDone = errors.New("the stream has ended")

// stopped is an error of the follower itself.
type stopped struct{ error }

// Follow is that of spool.Client. A server that cannot be reached is waited for; then it goes
// on behind the last update of each thread.
func (c *Client) Follow(ctx context.Context, threadID, cursor string, o spool.FollowOptions, f func(spool.Update) error) error {
	from := map[string]string{}
	maps.Copy(from, o.From)
	if cursor != "" {
		from[threadID] = cursor
	}
	pause := firstPause
	for {
		err := c.followOnce(ctx, threadID, o, from, func(u spool.Update) error {
			pause = firstPause
			if err := f(u); err != nil {
				return stopped{err}
			}
			from[u.ThreadID] = u.Cursor
			return nil
		})
		var own stopped
		switch {
		case errors.Is(err, errDone):
			return nil
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && agent.CodeOf(err) != agent.CodeUnavailable:
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// followOnce reads one stream. It returns errDone if there is nothing more, and
// nil or CodeUnavailable if it was cut.
func (c *Client) followOnce(ctx context.Context, threadID string, o spool.FollowOptions, from map[string]string, f func(spool.Update) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	var res *http.Response
	var err error
	if o.Descendants {
		res, err = c.do(ctx, http.MethodPost, threadPath(threadID, "/follow"), map[string]any{"from": from, "untilTurn": o.UntilTurn, "untilIdle": o.UntilIdle})
	} else {
		q := url.Values{"untilTurn": {o.UntilTurn}, "untilIdle": {strconv.FormatBool(o.UntilIdle)}, "from": {from[threadID]}}
		res, err = c.do(ctx, http.MethodGet, threadPath(threadID, "/follow?"+q.Encode()), nil)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return agent.Errorf(agent.CodeInternal, "%s sent %q, not a stream of events: is it a web server of Spool?", c.base, kind)
	}
	lines := bufio.NewReader(res.Body)
	var name string
	var data []byte
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			return c.tooLong(longestEvent)
		case err != nil:
			return c.unreachable(err)
		}
		quiet.Reset(silence)
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			data = value
		case "":
			if name != "" {
				if err := deliver(name, data, f); err != nil {
					return err
				}
			}
			name, data = "", nil
		}
	}
}

// readLine reads a line, or fails with bufio.ErrBufferFull if it is longer than any event.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > longestEvent {
			return line, err
		}
	}
}

func deliver(name string, data []byte, f func(spool.Update) error) error {
	switch name {
	case "end":
		return errDone
	case "failure":
		var doc errorDocument
		if err := json.Unmarshal(data, &doc); err != nil {
			return agent.Wrap(err, agent.CodeInternal, "the stream failed, and does not say why")
		}
		return doc.err(0)
	case "update":
		var u spool.Update
		if err := json.Unmarshal(data, &u); err != nil {
			return agent.Wrap(err, agent.CodeInternal, "an update is not what this program knows")
		}
		return f(u)
	}
	return nil
}
