package tool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

func TestCalculator(t *testing.T) {
	r := registry(t, tool.Calculator())
	for in, want := range map[string]string{
		"1 + 2 * 3":                 "7",
		"(1+2)*3":                   "9",
		"0.1 + 0.2":                 "0.3",
		"2 ^ 3 ^ 2":                 "512",
		"2**10":                     "1024",
		"-2 ^ 2":                    "-4",
		"2 ^ -2":                    "0.25",
		"(-2) ^ 3":                  "-8",
		"7 % 3":                     "1",
		"-7 % 3":                    "-1",
		"5.5 % 2":                   "1.5",
		"10 / 4":                    "2.5",
		"1 / 3":                     "0.33333333333333333333",
		"2 / 3":                     "0.66666666666666666667",
		"1_000 * 1e3":               "1000000",
		"1.5e-3":                    "0.0015",
		"--3":                       "3",
		"6 ÷ 2 × 4 − 1":             "11",
		"sqrt(16) + abs(-2)":        "6",
		"sqrt(2)":                   "1.4142135623730951",
		"round(2.5) + floor(-1.5)":  "1",
		"ceil(1.2) * max(1, 2, 3)":  "6",
		"min(4, 2)":                 "2",
		"ln(e)":                     "1",
		"cos(0) + log10(1000)":      "4",
		"pi":                        "3.141592653589793",
		"2 ^ 100":                   "1267650600228229401496703205376",
		"99999999999 * 99999999999": "9999999999800000000001",
		"1 ^ 99999999999999999999":  "1",
		"(-1) ^ 99999999999999999":  "-1",
		"0 ^ 5":                     "0",
		"4 ^ 0.5":                   "2",
		"1e-30":                     "1e-30",
	} {
		assert.Equal(t, want, succeeded(t, call(t, r, "", "calculator", m{"expression": in})), in)
	}
	for in, want := range map[string]string{
		"1 / 0":                         "division by zero",
		"0 ^ -1":                        "division by zero",
		"1 % 0":                         "division by zero",
		"9 ^ 9 ^ 9":                     "too many digits",
		"9^9999999999999":               "too many digits",
		"1e99999":                       "too large or too small",
		"exp(10000)":                    "not a real number or is too large",
		"sqrt(-1)":                      "sqrt of a negative number",
		"1 +":                           "ends too early",
		"(1":                            "closing parenthesis is missing",
		"1 2":                           `cannot read the expression from "2" on`,
		"foo(1)":                        `function "foo" is not known`,
		"foo":                           `"foo" is not known`,
		"1.2.3":                         "is not a number",
		"sin(1, 2)":                     "sin takes one argument, got 2",
		"os.exit":                       "not known",
		strings.Repeat("(", 1000):       "nested too deeply",
		strings.Repeat("-", 1000):       "nested too deeply",
		strings.Repeat("2^", 500) + "2": "too",
	} {
		failed(t, call(t, r, "", "calculator", m{"expression": in}), agent.ErrInvalidInput, want)
	}
}
