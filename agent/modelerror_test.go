package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each code that there is has its texts, and is listed.
func TestEachModelCodeHasItsTexts(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "modelerror.go", nil, 0)
	require.NoError(t, err)
	var codes []string
	for _, d := range file.Decls {
		list, ok := d.(*ast.GenDecl)
		if !ok || list.Tok != token.CONST {
			continue
		}
		for _, s := range list.Specs {
			if v := s.(*ast.ValueSpec); strings.HasPrefix(v.Names[0].Name, "Model") {
				code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				codes = append(codes, code)
			}
		}
	}
	require.NotEmpty(t, codes)
	require.ElementsMatch(t, codes, ModelCodes())
	for _, code := range codes {
		require.Contains(t, modelEnds, code)
	}
	require.Len(t, modelEnds, len(codes))
}

// What a person reads of a call that is not made again: the model, its provider, what
// was said, what to do; no code, no place left open, and whole however much was said.
func TestFinalTextsOfModelErrors(t *testing.T) {
	at := ModelPlace{Provider: "mistral", Address: "baseUrl of provider mistral (models.yaml:2)", KeyToDo: "check MISTRAL_API_KEY"}
	all := map[string]ModelError{"quota": {Code: ModelRateLimited}, "payment": {Code: ModelAuth, Status: 402}, "images": {Code: ModelBadRequest, NoImages: true}, "unknown": {Code: "of_a_client"}}
	for _, code := range ModelCodes() {
		all[code] = ModelError{Code: code, Retryable: code == ModelRateLimited}
	}
	for _, class := range []FailureClass{ClassEmpty, ClassUnreadable, ClassUnclear, ClassInsecure} {
		all[string(class)] = ModelError{Code: ModelBadResponse, Class: class, InARow: 4, Retryable: true}
	}
	todo := map[string]string{
		ModelOverloaded: "SPOOL_FALLBACK_MODELS", ModelRateLimited: "raise the limit", ModelIdleTimeout: "SPOOL_IDLE_TIMEOUT (idleTimeout)", ModelUnreachable: at.Address,
		ModelAuth: "check MISTRAL_API_KEY", "quota": "raise the quota", "payment": "credit", "images": "model that takes images", ModelContextTooLong: "SPOOL_CONTEXT_WINDOW",
		ModelCutOff: "maxTokens", ModelAnswerInvalid: "schema", ModelBadResponse: at.Address, ModelContentFilter: "starter fork", ModelUnknown: "starter models", string(ClassUnreadable): at.Address,
	}
	for name, e := range all {
		e.Model, e.At, e.Message = "m-1", at, "said\nso \x00 "+strings.Repeat("much ", 1000)
		text := e.Final()
		assert.True(t, strings.HasPrefix(text, "m-1 at mistral "), "%s: %s", name, text)
		assert.Contains(t, text, "said so", name)
		assert.NotContains(t, text, "{", name)
		assert.NotContains(t, text, "("+e.Code, name)
		what, remedy, found := strings.Cut(text, ". To do: ")
		require.True(t, found, name)
		assert.Less(t, len(what), 800, name)
		assert.Greater(t, len(remedy), 20, name)
		assert.Contains(t, remedy, todo[name], name)
		if e.InARow > 0 {
			assert.Contains(t, what, "; so it was 4 times in a row", name)
		}
	}
	bare := ModelError{Code: ModelAuth, Status: 401}
	assert.Equal(t, "the model refused the key (HTTP 401). To do: check the key of the provider.", bare.Final())
	bare = ModelError{Code: ModelBadResponse, Model: "m", Message: "too large.", ToDo: "ask for less"}
	assert.Equal(t, "m answered with what is no reply: too large. To do: ask for less.", bare.Final())
}
