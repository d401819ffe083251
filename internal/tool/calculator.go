package tool

import (
	"context"
	_ "embed"
	"math/big"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/arithmetic"
)

//go:embed calculator.md
var calculatorDoc string

type calculatorArgs struct {
	Expression string `json:"expression"`
}

// Calculator evaluates arithmetic in fractions, so that 0.1 + 0.2 is 0.3.
func Calculator() agent.Tool {
	spec := quick("calculator", calculatorDoc, `{"type":"object","properties":{
		"expression":{"type":"string","minLength":1,"maxLength":2000,"description":"An arithmetic expression."}},
		"required":["expression"],"additionalProperties":false}`, 10*time.Second)
	return Func(spec, func(_ context.Context, _ agent.ToolRun, a calculatorArgs) agent.ToolResult {
		v, err := arithmetic.Evaluate(a.Expression)
		if err != nil {
			return agent.ToolFailed(agent.ErrInvalidInput, "Error: %v.", err)
		}
		return agent.ToolOK(formatNumber(v))
	})
}

// formatNumber writes integers in full and others with up to 20 decimals.
func formatNumber(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	s := strings.TrimRight(v.FloatString(20), "0")
	if strings.HasSuffix(s, ".") || strings.Trim(s, "-0.") == "" {
		// Too small for 20 decimals.
		return new(big.Float).SetPrec(100).SetRat(v).Text('g', 20)
	}
	return s
}
