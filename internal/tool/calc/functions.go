package calc

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// power is exact for whole exponents.
func power(base, exponent *big.Rat) (*big.Rat, error) {
	if !exponent.IsInt() {
		b, _ := base.Float64()
		e, _ := exponent.Float64()
		return fromFloat(math.Pow(b, e))
	}
	if base.Sign() == 0 && exponent.Sign() < 0 {
		return nil, errors.New("division by zero")
	}
	size := int64(max(base.Num().BitLen(), base.Denom().BitLen()))
	n := exponent.Num()
	if size > 1 && (!n.IsInt64() || n.BitLen() > 32 || abs(n.Int64())*size > maxBits) {
		return nil, errors.New("the result has too many digits")
	}
	if size <= 1 { // 0, 1 and -1, where only the parity counts
		n = new(big.Int).Rem(n, big.NewInt(2))
		if base.Sign() == 0 && exponent.Sign() != 0 {
			return new(big.Rat), nil
		}
	}
	e := new(big.Int).Abs(n)
	v := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	if n.Sign() < 0 {
		v.Inv(v)
	}
	return v, nil
}

func abs(n int64) int64 { return max(n, -n) }

// realFunctions are computed as floating-point numbers.
var realFunctions = map[string]func(float64) float64{
	"ln": math.Log, "log2": math.Log2, "log10": math.Log10, "log": math.Log10, "exp": math.Exp,
	"sin": math.Sin, "cos": math.Cos, "tan": math.Tan,
}

func call(name string, args []*big.Rat) (*big.Rat, error) {
	switch name {
	case "min", "max":
		best := args[0]
		for _, a := range args[1:] {
			if (a.Cmp(best) < 0) == (name == "min") {
				best = a
			}
		}
		return best, nil
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("%s takes one argument, got %d", name, len(args))
	}
	x := args[0]
	switch name {
	case "abs":
		return new(big.Rat).Abs(x), nil
	case "floor":
		return floor(x), nil
	case "ceil":
		return new(big.Rat).Neg(floor(new(big.Rat).Neg(x))), nil
	case "round": // half away from zero
		v := floor(new(big.Rat).Add(new(big.Rat).Abs(x), big.NewRat(1, 2)))
		if x.Sign() < 0 {
			v.Neg(v)
		}
		return v, nil
	case "sqrt":
		if x.Sign() < 0 {
			return nil, errors.New("sqrt of a negative number")
		}
		num, den := new(big.Int).Sqrt(x.Num()), new(big.Int).Sqrt(x.Denom())
		if root := new(big.Rat).SetFrac(num, den); new(big.Rat).Mul(root, root).Cmp(x) == 0 {
			return root, nil
		}
		f, _ := x.Float64()
		return fromFloat(math.Sqrt(f))
	}
	f := realFunctions[name]
	if f == nil {
		return nil, fmt.Errorf("function %q is not known", name)
	}
	v, _ := x.Float64()
	return fromFloat(f(v))
}

func floor(x *big.Rat) *big.Rat {
	// Div rounds to minus infinity for a positive divisor.
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

// fromFloat takes the shortest decimal number that stands for f, which reads
// better than f's exact binary value.
func fromFloat(f float64) (*big.Rat, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("the result is not a real number or is too large")
	}
	v, ok := new(big.Rat).SetString(fmt.Sprint(f))
	if !ok {
		return nil, fmt.Errorf("the result %v cannot be written", f)
	}
	return v, nil
}
