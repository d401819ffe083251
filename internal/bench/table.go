package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

type row struct {
	Figure string `json:"figure"`
	// Value is the figure; Bar is what it may be at most, 0 if nothing is promised here.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   float64 `json:"bar,omitempty"`
	// Result is ok, miss, "" without a bar, or "not measured".
	Result string `json:"result,omitempty"`
	Detail string `json:"detail,omitempty"`
}

const notMeasured = "not measured"

type table struct {
	Settings []setting `json:"settings"`
	Rows     []row     `json:"rows"`
	Failed   bool      `json:"failed"` // something could not be measured
}

type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// add judges a figure against its bar.
func (t *table) add(r row) {
	switch {
	case r.Result != "":
	case r.Bar == 0:
	case r.Value <= r.Bar:
		r.Result = "ok"
	default:
		r.Result = "miss"
	}
	t.Rows = append(t.Rows, r)
}

func (t *table) fail(figure string, err error) {
	t.Failed = true
	t.Rows = append(t.Rows, row{Figure: figure, Result: notMeasured, Detail: err.Error()})
}

func (t *table) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

func (t *table) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range t.Settings {
		fmt.Fprintf(tw, "%s\t%s\n", s.Name, s.Value)
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(tw, "figure\tmeasured\tbar\t\t")
	for _, r := range t.Rows {
		value, bar := number(r.Value)+unit(r.Unit), ""
		if r.Bar != 0 {
			bar = "≤ " + number(r.Bar) + unit(r.Unit)
		}
		if r.Result == notMeasured {
			value = "–"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.Figure, value, bar, r.Result, r.Detail)
	}
	return tw.Flush()
}

func unit(u string) string {
	if u == "" || u == "×" {
		return u
	}
	return " " + u
}

// number prints three significant digits, and whole numbers in full.
func number(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return strconv.FormatInt(int64(v+0.5), 10)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
