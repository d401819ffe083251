// Package arithmetic evaluates expressions in fractions.
package arithmetic

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits that keep a short expression from filling the memory: 9^9^9.
const (
	maxBits  = 1 << 16
	maxDepth = 200
)

// mistake ends an evaluation, by a panic: what is wrong is wrong with the whole.
type mistake struct{ error }

func fail(format string, args ...any) { panic(mistake{fmt.Errorf(format, args...)}) }

// Evaluate evaluates an expression.
//
//	sum     = product {("+"|"-") product}
//	product = unary {("*"|"/"|"%") unary}
//	unary   = ["+"|"-"] unary | power
//	power   = atom ["^" unary]
//	atom    = number | name | name "(" sum {"," sum} ")" | "(" sum ")"
func Evaluate(expression string) (v *big.Rat, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, ours := r.(mistake)
			if !ours {
				panic(r)
			}
			v, err = nil, m.error
		}
	}()
	c := &calc{rest: strings.ReplaceAll(expression, "**", "^")}
	v = c.sum()
	if c.peek() != 0 {
		fail("cannot read the expression from %q on", c.rest)
	}
	return v, nil
}

type calc struct {
	rest  string
	depth int
}

// peek returns the next character that is no blank, 0 at the end.
func (c *calc) peek() rune {
	c.rest = strings.TrimLeftFunc(c.rest, unicode.IsSpace)
	r, n := utf8.DecodeRuneInString(c.rest)
	if n == 0 {
		return 0
	}
	return r
}

func (c *calc) take(ops string) rune {
	if r := c.peek(); r != 0 && strings.ContainsRune(ops, r) {
		c.rest = c.rest[utf8.RuneLen(r):]
		return r
	}
	return 0
}

func (c *calc) sum() *big.Rat { return c.chain("+-−", c.product) }

func (c *calc) product() *big.Rat { return c.chain("*/%×÷", c.unary) }

func (c *calc) chain(ops string, operand func() *big.Rat) *big.Rat {
	defer c.deeper()()
	left := operand()
	for op := c.take(ops); op != 0; op = c.take(ops) {
		left = apply(op, left, operand())
	}
	return left
}

// deeper bounds how deep an expression is nested.
func (c *calc) deeper() (done func()) {
	if c.depth++; c.depth > maxDepth {
		fail("the expression is nested too deeply")
	}
	return func() { c.depth-- }
}

func (c *calc) unary() *big.Rat {
	defer c.deeper()()
	switch c.take("+-−") {
	case '+':
		return c.unary()
	case '-', '−':
		return new(big.Rat).Neg(c.unary())
	}
	base := c.atom()
	if c.take("^") == 0 {
		return base
	}
	return power(base, c.unary())
}

func (c *calc) atom() (v *big.Rat) {
	switch r := c.peek(); {
	case r == 0:
		fail("the expression ends too early")
	case r == '(':
		c.take("(")
		v = c.sum()
		c.closed()
	case r == '.' || (r >= '0' && r <= '9'):
		v = c.number()
	case unicode.IsLetter(r):
		v = c.name()
	default:
		fail("cannot read the expression from %q on", c.rest)
	}
	return v
}

func (c *calc) closed() {
	if c.take(")") == 0 {
		fail("a closing parenthesis is missing")
	}
}

func (c *calc) number() *big.Rat {
	end := 0
	for end < len(c.rest) {
		b := c.rest[end]
		sign := (b == '+' || b == '-') && end > 0 && (c.rest[end-1]|0x20) == 'e'
		exponent := (b|0x20) == 'e' && end+1 < len(c.rest) && strings.ContainsRune("+-0123456789", rune(c.rest[end+1]))
		if b != '.' && b != '_' && (b < '0' || b > '9') && !sign && !exponent {
			break
		}
		end++
	}
	text := c.rest[:end]
	c.rest = c.rest[end:]
	plain := strings.ReplaceAll(text, "_", "")
	if _, exp, ok := strings.Cut(strings.ToLower(plain), "e"); ok && len(strings.TrimLeft(exp, "+-0")) > 4 {
		fail("the number %s is too large or too small", text)
	}
	v, ok := new(big.Rat).SetString(plain)
	if !ok {
		fail("%q is not a number", text)
	}
	return bounded(v)
}

func (c *calc) name() *big.Rat {
	end := strings.IndexFunc(c.rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		end = len(c.rest)
	}
	name := strings.ToLower(c.rest[:end])
	c.rest = c.rest[end:]
	if c.take("(") == 0 {
		value, known := map[string]float64{"pi": math.Pi, "e": math.E}[name]
		if !known {
			fail("%q is not known; functions need parentheses", name)
		}
		return fromFloat(value)
	}
	args := []*big.Rat{c.sum()}
	for c.take(",") != 0 {
		args = append(args, c.sum())
	}
	c.closed()
	return call(name, args)
}

func apply(op rune, a, b *big.Rat) *big.Rat {
	v := new(big.Rat)
	switch op {
	case '+':
		v.Add(a, b)
	case '-', '−':
		v.Sub(a, b)
	case '*', '×':
		v.Mul(a, b)
	default:
		if b.Sign() == 0 {
			fail("division by zero")
		}
		v.Quo(a, b)
		if op == '%' { // the remainder has the sign of a, as in Go and C
			whole := new(big.Rat).SetInt(new(big.Int).Quo(v.Num(), v.Denom()))
			v.Sub(a, whole.Mul(whole, b))
		}
	}
	return bounded(v)
}

const tooManyDigits = "the result has too many digits"

func bounded(v *big.Rat) *big.Rat {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		fail(tooManyDigits)
	}
	return v
}

// power is exact for whole exponents.
func power(base, exponent *big.Rat) *big.Rat {
	if !exponent.IsInt() {
		return fromFloat(math.Pow(float(base), float(exponent)))
	}
	if base.Sign() == 0 && exponent.Sign() < 0 {
		fail("division by zero")
	}
	size := int64(max(base.Num().BitLen(), base.Denom().BitLen()))
	n := exponent.Num()
	e := new(big.Int).Abs(n)
	if size > 1 && (e.BitLen() > 32 || e.Int64()*size > maxBits) {
		fail(tooManyDigits)
	}
	if size <= 1 { // 0, 1 and -1, where only the parity counts
		if base.Sign() == 0 && n.Sign() != 0 {
			return new(big.Rat)
		}
		e.Rem(e, big.NewInt(2))
	}
	v := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	if n.Sign() < 0 {
		v.Inv(v)
	}
	return v
}

// realFunctions are computed as floating-point numbers, exactFunctions in fractions.
var (
	realFunctions = map[string]func(float64) float64{
		"ln": math.Log, "log2": math.Log2, "log10": math.Log10, "log": math.Log10, "exp": math.Exp,
		"sin": math.Sin, "cos": math.Cos, "tan": math.Tan,
	}
	exactFunctions = map[string]func(*big.Rat) *big.Rat{
		"abs": func(x *big.Rat) *big.Rat { return new(big.Rat).Abs(x) }, "sqrt": sqrt, "round": round, "floor": floor,
		"ceil": func(x *big.Rat) *big.Rat { return new(big.Rat).Neg(floor(new(big.Rat).Neg(x))) },
	}
)

func call(name string, args []*big.Rat) *big.Rat {
	x := args[0]
	if name == "min" || name == "max" {
		for _, a := range args[1:] {
			if (a.Cmp(x) < 0) == (name == "min") {
				x = a
			}
		}
		return x
	}
	if len(args) != 1 {
		fail("%s takes one argument, got %d", name, len(args))
	}
	if f := exactFunctions[name]; f != nil {
		return f(x)
	}
	f := realFunctions[name]
	if f == nil {
		fail("function %q is not known", name)
	}
	return fromFloat(f(float(x)))
}

func sqrt(x *big.Rat) *big.Rat {
	if x.Sign() < 0 {
		fail("sqrt of a negative number")
	}
	num, den := new(big.Int).Sqrt(x.Num()), new(big.Int).Sqrt(x.Denom())
	if root := new(big.Rat).SetFrac(num, den); new(big.Rat).Mul(root, root).Cmp(x) == 0 {
		return root
	}
	return fromFloat(math.Sqrt(float(x)))
}

// round rounds half away from zero.
func round(x *big.Rat) *big.Rat {
	v := floor(new(big.Rat).Add(new(big.Rat).Abs(x), big.NewRat(1, 2)))
	if x.Sign() < 0 {
		v.Neg(v)
	}
	return v
}

func floor(x *big.Rat) *big.Rat {
	// Div rounds to minus infinity for a positive divisor.
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

func float(x *big.Rat) float64 {
	f, _ := x.Float64()
	return f
}

// fromFloat takes the shortest decimal number that stands for f, which reads
// better than f's exact binary value.
func fromFloat(f float64) *big.Rat {
	v, ok := new(big.Rat).SetString(fmt.Sprint(f))
	if !ok { // also what is no number, or infinite
		fail("the result is not a real number or is too large")
	}
	return v
}
