package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func TestJSONIsBoundedBeforeItIsRead(t *testing.T) {
	limit := agent.JSONLimit{Depth: 3, Values: 10}
	for text, want := range map[string]string{
		`{"a":[{"b":1}]}`:                       "",
		`{"a":[{"b":[1]}]}`:                     "more than 3 levels",
		`[[[[`:                                  "more than 3 levels",
		`["[[[[", "{\"{{{{{\\\"", "\\"]`:        "",
		`"\\" [[[[`:                             "more than 3 levels",
		`[1,2,3,4,5,6,7,8,9]`:                   "",
		`[1,2,3,4,5,6,7,8,9,10]`:                "more than 10 values",
		`[true,null,false,1e3,"",{},[],-1,0.5]`: "",
		`1e999`:                                 "",
		`[1e1000]`:                              "exponent",
		`[-0.5E+1000]`:                          "exponent",
		`[1e-0999]`:                             "exponent",
		`[` + strings.Repeat("7", 1001) + `]`:   "",
		`[` + strings.Repeat("7", 1002) + `]`:   "digits",
		`no JSON at all: [1`:                    "",
		`"never ended`:                          "",
		`"ends in \`:                            "",
		``:                                      "",
	} {
		err := limit.Check([]byte(text))
		if want == "" {
			assert.NoError(t, err, "%.60s", text)
			continue
		}
		assert.ErrorContains(t, err, want, "%.60s", text)
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}
