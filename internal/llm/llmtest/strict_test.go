package llmtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrict(t *testing.T) {
	for _, good := range []string{
		`{}`, ` [ ] `, `{"a":{"a":[1,-0.5e-3,12345678901234567890]},"b":"\ud83d\ude00 \u00e9\n"}`, `"é"`, `true`, `null`, `0`,
		strings.Repeat("[", deepest) + strings.Repeat("]", deepest),
	} {
		require.NoError(t, Strict(good), good)
	}
	for _, bad := range []string{
		``, `{`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a":1}x`, `{}{}`, `1 2`, `'a'`, `"a`, "\"a\nb\"", "\"\xff\"", `"\x"`, `"\u12"`, `"\`, `"\u0000"`,
		`"\ud99c"`, `"\ud99c\u0041"`, `"\udc00"`, `1e999`, `-`, `01`, `1.`, `.5`, `NaN`, `True`, `{"a":1,"\u0061":2}`,
		strings.Repeat("[", 2*deepest) + strings.Repeat("]", 2*deepest),
	} {
		require.Error(t, Strict(bad), bad)
	}
}
