// Package calc computes arithmetic in fractions.
package calc

import (
	"errors"
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

// Evaluate computes an expression.
//
//	sum     = product {("+"|"-") product}
//	product = unary {("*"|"/"|"%") unary}
//	unary   = ["+"|"-"] unary | power
//	power   = atom ["^" unary]
//	atom    = number | name | name "(" sum {"," sum} ")" | "(" sum ")"
func Evaluate(expression string) (*big.Rat, error) {
	c := &reader{rest: strings.ReplaceAll(expression, "**", "^")}
	v, err := c.sum()
	if err != nil {
		return nil, err
	}
	if c.peek() != 0 {
		return nil, fmt.Errorf("cannot read the expression from %q on", c.rest)
	}
	return v, nil
}

type reader struct {
	rest  string
	depth int
}

// peek returns the next character that is no blank, 0 at the end.
func (c *reader) peek() rune {
	c.rest = strings.TrimLeftFunc(c.rest, unicode.IsSpace)
	r, n := utf8.DecodeRuneInString(c.rest)
	if n == 0 {
		return 0
	}
	return r
}

func (c *reader) take(ops string) rune {
	if r := c.peek(); r != 0 && strings.ContainsRune(ops, r) {
		c.rest = c.rest[utf8.RuneLen(r):]
		return r
	}
	return 0
}

func (c *reader) sum() (*big.Rat, error) { return c.chain("+-−", c.product) }

func (c *reader) product() (*big.Rat, error) { return c.chain("*/%×÷", c.unary) }

func (c *reader) chain(ops string, operand func() (*big.Rat, error)) (*big.Rat, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, errors.New("the expression is nested too deeply")
	}
	defer func() { c.depth-- }()
	left, err := operand()
	for err == nil {
		op := c.take(ops)
		if op == 0 {
			return left, nil
		}
		var right *big.Rat
		if right, err = operand(); err == nil {
			left, err = apply(op, left, right)
		}
	}
	return nil, err
}

func (c *reader) unary() (*big.Rat, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, errors.New("the expression is nested too deeply")
	}
	defer func() { c.depth-- }()
	switch c.take("+-−") {
	case '+':
		return c.unary()
	case '-', '−':
		v, err := c.unary()
		if err != nil {
			return nil, err
		}
		return new(big.Rat).Neg(v), nil
	}
	base, err := c.atom()
	if err != nil || c.take("^") == 0 {
		return base, err
	}
	exponent, err := c.unary()
	if err != nil {
		return nil, err
	}
	return power(base, exponent)
}

func (c *reader) atom() (*big.Rat, error) {
	switch r := c.peek(); {
	case r == 0:
		return nil, errors.New("the expression ends too early")
	case r == '(':
		c.take("(")
		v, err := c.sum()
		if err == nil && c.take(")") == 0 {
			err = errors.New("a closing parenthesis is missing")
		}
		return v, err
	case r == '.' || (r >= '0' && r <= '9'):
		return c.number()
	case unicode.IsLetter(r):
		return c.name()
	}
	return nil, fmt.Errorf("cannot read the expression from %q on", c.rest)
}

func (c *reader) number() (*big.Rat, error) {
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
		return nil, fmt.Errorf("the number %s is too large or too small", text)
	}
	v, ok := new(big.Rat).SetString(plain)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return bounds(v)
}

func (c *reader) name() (*big.Rat, error) {
	end := strings.IndexFunc(c.rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		end = len(c.rest)
	}
	name := strings.ToLower(c.rest[:end])
	c.rest = c.rest[end:]
	if c.take("(") == 0 {
		switch name {
		case "pi":
			return fromFloat(math.Pi)
		case "e":
			return fromFloat(math.E)
		}
		return nil, fmt.Errorf("%q is not known; functions need parentheses", name)
	}
	var args []*big.Rat
	for {
		v, err := c.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, v)
		if c.take(",") == 0 {
			break
		}
	}
	if c.take(")") == 0 {
		return nil, errors.New("a closing parenthesis is missing")
	}
	return call(name, args)
}

func apply(op rune, a, b *big.Rat) (*big.Rat, error) {
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
			return nil, errors.New("division by zero")
		}
		v.Quo(a, b)
		if op == '%' { // the remainder has the sign of a, as in Go and C
			whole := new(big.Rat).SetInt(new(big.Int).Quo(v.Num(), v.Denom()))
			v.Sub(a, whole.Mul(whole, b))
		}
	}
	return bounds(v)
}

func bounds(v *big.Rat) (*big.Rat, error) {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, errors.New("the result has too many digits")
	}
	return v, nil
}
