package httplog

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/spool-agents/spool/agent"
)

const mask = "***"

func secretName(name string) bool {
	n := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, part := range []string{"authorization", "apikey", "accesskey", "secret", "password", "passwd", "cookie", "credential", "privatekey", "signature"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return strings.HasSuffix(n, "token") || n == "key" || n == "auth" || n == "xamzsecuritytoken"
}

// masker masks secrets by the names of fields, headers and parameters, and by
// value. What a text shows is for agent.MaskKeys to tell.
type masker struct{ secrets []string }

func (m masker) text(s string) string {
	for _, secret := range m.secrets {
		if len(secret) >= 4 { // shorter ones would hit half of all words
			s = strings.ReplaceAll(s, secret, mask)
		}
	}
	return agent.MaskKeys(s, mask)
}

// url masks user, secret parameters and the rest of an address.
func (m masker) url(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return m.text(s)
	}
	if u.User != nil {
		u.User = url.User(mask)
	}
	query := u.Query()
	for name := range query {
		if secretName(name) {
			query.Set(name, mask)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	return m.text(strings.ReplaceAll(u.String(), url.QueryEscape(mask), mask))
}

func (m masker) headers(in map[string][]string) map[string][]string {
	if in == nil {
		return nil
	}
	out := map[string][]string{}
	for name, values := range in {
		for _, v := range values {
			if secretName(name) {
				v = mask
			}
			out[name] = append(out[name], m.text(v))
		}
	}
	return out
}

// body masks JSON by the names of its fields, other text as text. JSON stays
// JSON; numbers keep their digits.
func (m masker) body(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil || dec.More() {
		return quote(m.text(s))
	}
	return encode(m.tree(tree))
}

// minToken is the length from which a field "token" is a secret: in a model's
// log probabilities it is a piece of text.
const minToken = 12

func (m masker) tree(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case []any:
		for i := range v {
			v[i] = m.tree(v[i])
		}
	case map[string]any:
		for name, value := range v {
			text, isText := value.(string)
			if isText && text != "" && secretName(name) && (name != "token" && name != "key" || len(text) >= minToken) {
				v[name] = mask
				continue
			}
			v[name] = m.tree(value)
		}
	}
	return v
}

func quote(s string) json.RawMessage { return encode(strings.ToValidUTF8(s, "\uFFFD")) }

// encode writes a value that came from JSON, or a text, as one line.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(`null`)
	}
	return bytes.TrimSpace(b.Bytes())
}
