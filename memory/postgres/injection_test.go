//go:build postgres

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
	"github.com/spool-agents/spool/memory/sqlite"
)

// evil are texts that would be orders, or that a database cannot keep as they are.
var evil = []string{
	`'; DROP TABLE threads; --`, `" OR ""="`, `x' OR '1'='1`, `$1`, `?`, `%_\`, `\'; SELECT pg_sleep(60); --`, "a\x00b", "\xff\xfe", "\u202e\u0000", strings.Repeat("é'", 1<<17),
}

// textPlaces are the places of texts in a value, as functions that set one.
func textPlaces(v reflect.Value, name string, depth int) (places map[string]func(string)) {
	places = map[string]func(string){}
	switch {
	case depth == 0, !v.CanSet():
	case v.Kind() == reflect.String:
		places[name] = v.SetString
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		places[name] = func(s string) { v.SetBytes([]byte(s)) }
	case v.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return textPlaces(v.Index(0), name, depth-1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			for inner, set := range textPlaces(v.Field(i), name+"."+v.Type().Field(i).Name, depth-1) {
				places[inner] = set
			}
		}
	}
	return places
}

// known are what a caller may know of the thread that it may use.
var known = map[string]string{"ThreadID": "s1/default", "UserID": "u", "SessionID": "s1", "ConversationID": "default", "MessageID": "m9"}

// No text is an order to the database, through any parameter of any method: each is
// refused or kept, in words, and another user's thread stays what it is.
func TestTextsAreNoOrders(t *testing.T) {
	lite, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pg, err := postgres.Open(t.Context(), pgtest.Schema(t, pgtest.Database(t)), postgres.Options{MaxConnections: 4})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]memory.ConversationMemoryStore{"sqlite": lite, "postgres": pg} {
		t.Cleanup(func() { _ = s.Close() })
		t.Run(name, func(t *testing.T) { attack(t, s) })
	}
}

func attack(t *testing.T, s memory.ConversationMemoryStore) {
	ctx := t.Context()
	canary := memorytest.Request("canary", "m1")
	canary.UserID = "other"
	mine := memorytest.Request("s1", "m1")
	for _, r := range []memory.SendRequest{canary, mine} {
		sent, err := s.Send(ctx, r)
		if err == nil {
			err = memorytest.RunTurns(ctx, s, sent.ThreadID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	see := func() string {
		thread, err := s.Thread(ctx, "other", "canary/default")
		messages, err2 := s.Messages(ctx, "canary/default", 0, 0)
		text, err3 := json.Marshal([]any{thread, messages})
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
		return string(text)
	}
	before, calls := see(), 0
	methods := reflect.TypeFor[memory.ConversationMemoryStore]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if m.Name == "Close" {
			continue
		}
		for place := range placesOf(m.Type) {
			for _, text := range evil {
				args, places := argsOf(ctx, m.Type)
				for name, set := range places {
					set(known[name[strings.LastIndex(name, ".")+1:]])
				}
				places[place](text)
				out := reflect.ValueOf(s).MethodByName(m.Name).Call(args)
				calls++
				if err, _ := out[len(out)-1].Interface().(error); err != nil && slices.Contains([]agent.Code{agent.CodeInternal, agent.CodeUnavailable}, agent.CodeOf(err)) {
					t.Errorf("%s, %s is %.30q: %.300v", m.Name, place, text, err)
				}
			}
		}
	}
	if calls < 500 {
		t.Errorf("only %d calls were made", calls)
	}
	if after := see(); after != before {
		t.Errorf("another user's thread became\n%s\nfrom\n%s", after, before)
	}
	memorytest.Sound(t, s)
}

// argsOf makes the arguments of a method, and the places of texts in them.
func argsOf(ctx context.Context, m reflect.Type) (args []reflect.Value, places map[string]func(string)) {
	places = map[string]func(string){}
	for i := range m.NumIn() {
		if m.In(i) == reflect.TypeFor[context.Context]() {
			args = append(args, reflect.ValueOf(ctx))
			continue
		}
		v := reflect.New(m.In(i)).Elem()
		for name, set := range textPlaces(v, fmt.Sprint(i), 4) {
			places[name] = set
		}
		args = append(args, v)
	}
	return args, places
}

func placesOf(m reflect.Type) map[string]func(string) {
	_, places := argsOf(context.Background(), m)
	return places
}
