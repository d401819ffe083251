package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
)

// Bounds of a request's body, in bytes.
const (
	maxBody    = 1 << 20
	maxMessage = 16 << 20 // pictures come as data: URLs
	// maxIgnored is read of a body beyond its bound, so that its sender sees the refusal.
	maxIgnored = 128 << 20
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
)

// Bounds of the time in which headers and body have to come, and an answer to be taken.
const (
	headerTime = 10 * time.Second
	bodyTime   = time.Minute
	answerTime = 2 * time.Minute
)

type call struct {
	w      http.ResponseWriter
	r      *http.Request
	user   string        // "" on public routes
	admin  bool          // the user runs the server
	client *spool.Client // nil on public routes
	key    string        // a digest of its Idempotency-Key, "" without one
	thread string        // that the path, or the parameter thread, names
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

// write answers with something else than a document.
func (c *call) write(kind, cache string, content []byte) {
	bound(c.w)
	c.w.Header().Set("Content-Type", kind)
	c.w.Header().Set("Cache-Control", cache)
	_, _ = c.w.Write(content) // a client that is gone needs no answer
}

// readKey reads the Idempotency-Key of a request.
func (c *call) readKey() error {
	key := c.r.Header.Get(idempotencyHeader)
	if len(key) > maxIdempotencyKey {
		return agent.Errorf(agent.CodeInvalid, "the %s has %d characters, at most %d are possible", idempotencyHeader, len(key), maxIdempotencyKey)
	}
	if key != "" {
		c.key = shortHash(c.user, key)
	}
	return nil
}

// keyed is the id of a request: its own, else that of its key.
func (c *call) keyed(id string) string {
	if id == "" && c.key != "" {
		return "request-" + c.key
	}
	return id
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// where finds the thread that the request is about. What cannot be one does not exist,
// nor do the paths of other users. A chat is a main thread.
func (c *call) where(path string) error {
	if strings.Contains(path, "{user}") && c.path("user") != c.user {
		return agent.Errorf(agent.CodeNotFound, "user %q does not exist", c.path("user"))
	}
	switch {
	case strings.Contains(path, "{thread}"):
		c.thread = c.path("thread")
		if _, err := agent.ParseThreadID(c.thread); err != nil {
			return agent.Wrap(err, agent.CodeNotFound, "there is no such thread (in a path, write the slash of SESSION/CONVERSATION as %%2F)")
		}
	case strings.Contains(path, "{chatId}"):
		c.thread = c.path("chatId")
		if p, err := agent.ParseThreadID(c.thread); err != nil || p.Kind != agent.KindMain {
			return agent.Errorf(agent.CodeNotFound, "chat %q does not exist (in a path, write the slash of SESSION/CONVERSATION as %%2F)", c.thread)
		}
		if strings.HasPrefix(path, subAgent+"/") {
			a, err := c.client.SubAgent(c.r.Context(), c.thread, c.path("id"))
			c.thread = a.ThreadID
			return err
		}
	default:
		c.thread = c.r.URL.Query().Get("thread")
	}
	return nil
}

// body reads the JSON of a request. Only what is said to be JSON is read as such:
// forms of other sites cannot say so. An empty body is an empty object; one that is wrong
// ends the request.
func (c *call) body(into any) {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		steps.Check(&httpError{http.StatusUnsupportedMediaType, "unsupported_media_type", "send JSON, with the header Content-Type: application/json"})
	}
	if raw := steps.Must(c.read()); len(bytes.TrimSpace(raw)) > 0 {
		steps.Check(agent.Wrap(decode(raw, into, json.RejectUnknownMembers(true)), agent.CodeInvalid, "the body is not what this operation takes"))
	}
}

// decode reads JSON whose names are each there once, and known as they are written. What
// is wrong with it is a refusal.
func decode(raw []byte, into any, more ...json.Options) error {
	err := json.Unmarshal(raw, into, append(more, jsontext.AllowInvalidUTF8(true))...) // half of a surrogate pair is U+FFFD
	var about *refusal
	var text *jsontext.SyntacticError
	var value *json.SemanticError
	named := func(p jsontext.Pointer) string {
		return strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &about):
		return about
	case errors.As(err, &text) && errors.Is(text.Err, jsontext.ErrDuplicateName):
		return refuse(named(text.JSONPointer), "%.100q is there twice", named(text.JSONPointer))
	case !errors.As(err, &value):
		return refuse("", "%s", strings.TrimPrefix(err.Error(), "jsontext: "))
	case value.JSONPointer == "":
		return refuse("", "it has to be an object")
	case errors.Is(value.Err, json.ErrUnknownName):
		return refuse(named(value.JSONPointer), "%.100q is not known: /api/v1/openapi.json has the names, with their capitals", named(value.JSONPointer))
	case value.Err != nil:
		return refuse(named(value.JSONPointer), "%.100q: %s", named(value.JSONPointer), agent.PlainProblem(value.Err.Error()))
	}
	kind := strings.NewReplacer("{", "object", "[", "array").Replace(value.JSONKind.String())
	return refuse(named(value.JSONPointer), "%.100q cannot be of the kind %s", named(value.JSONPointer), kind)
}

// read reads the JSON of a body, which is not inflated, and bounds what reading it may
// cost.
func (c *call) read() ([]byte, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as it is, without the header Content-Encoding"}
	}
	if _, said, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii"}, strings.ToLower(said["charset"])) {
		return nil, &httpError{http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as UTF-8: the charset " + said["charset"] + " is not read"}
	}
	defer c.reading()()
	raw, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, agent.Wrap(err, agent.CodeInvalid, "the body did not arrive")
	case !utf8.Valid(raw):
		return nil, agent.Errorf(agent.CodeInvalid, "the body is not valid UTF-8")
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // editors of Windows write it
	return raw, agent.Wrap(agent.Said.Check(raw), agent.CodeInvalid, "the body is refused")
}

// reading bounds the time that a body may take to come, until it is called off.
func (c *call) reading() (done func()) {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(bodyTime))
	return func() { unbound(c.w) }
}

// unbound lets a request whose body is read take its time, as streams do.
func unbound(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// query reads the parameters behind the path. The first that is wrong ends the request.
type query struct{ url.Values }

func (c *call) query() query { return query{c.r.URL.Query()} }

func (q query) flag(name string) bool {
	switch v := q.Get(name); v {
	case "", "false", "0":
	case "true", "1":
		return true
	default:
		q.bad(name, v, "true or false")
	}
	return false
}

// number reads a count; fallback if it is not given.
func (q query) number(name string, fallback, least, most int64) int64 {
	v := q.Get(name)
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < least || n > most {
		q.bad(name, v, fmt.Sprintf("a number from %d to %d", least, most))
	}
	return n
}

func (q query) bad(name, value, allowed string) {
	steps.Refuse(agent.CodeInvalid, "%s=%q is not valid: use %s", name, value, allowed)
}

func (q query) known(names string) error {
	for name := range q.Values {
		if names != "*" && !slices.Contains(strings.Fields(names), name) {
			return agent.Errorf(agent.CodeInvalid, "this operation has no parameter %q", name)
		}
	}
	return nil
}

func size(n int64) string {
	if n >= 1<<20 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n>>10, 10) + " KiB"
}
