package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
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

// quantile returns the q-quantile (0 to 1) by the nearest rank; values need not be sorted.
func quantile[T ~float64 | ~int64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// median of an even number of values is the mean of the two in the middle.
func median[T ~float64 | ~int64](values []T) T {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func mean(values []time.Duration) time.Duration {
	var sum time.Duration
	for _, v := range values {
		sum += v
	}
	return sum / time.Duration(max(len(values), 1))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func size(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%d B", n)
}

func settings() []setting {
	return []setting{
		{"date", time.Now().UTC().Format("2006-01-02")},
		{"machine", fmt.Sprintf("%s/%s, %d CPUs%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load())},
		{"version", "Go " + strings.TrimPrefix(runtime.Version(), "go")},
		{"store", "SQLite (modernc), WAL, synchronous FULL; the floor's rows likewise"},
		{"model", "a stub on loopback that answers at once, streamed"},
		{"server", "Temporal's program as `starter dev` runs it: SQLite, WAL, tuned; workers' heartbeat timeout 2 s"},
	}
}

// load is the machine's load before the run, where the system tells it: other
// work on the same machine makes absolute times worse.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return ", load before the run " + first
}
