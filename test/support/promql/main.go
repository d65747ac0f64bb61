// Evaluates PromQL with Prometheus' own engine. Standard input: one JSON object of series and questions; standard
// output: one JSON array of answers, in the order of the questions.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type input struct {
	Series []struct {
		Labels  map[string]string `json:"labels"`
		Samples [][2]float64      `json:"samples"`
	} `json:"series"`
	Questions []struct {
		Expr string `json:"expr"`
		AtMs int64  `json:"atMs"`
	} `json:"questions"`
}

type found struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
}

type answer struct {
	Found []found `json:"found"`
	Error string  `json:"error,omitempty"`
}

type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Everything is in memory; a question picks what its matchers match.
type memory struct{ series []storage.Series }

func (m memory) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), m}, nil
}

type querier struct {
	storage.Querier
	memory memory
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var picked []storage.Series
next:
	for _, each := range q.memory.series {
		for _, matcher := range matchers {
			if !matcher.Matches(each.Labels().Get(matcher.Name)) {
				continue next
			}
		}
		picked = append(picked, each)
	}
	return &set{series: picked, at: -1}
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func main() {
	var asked input
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var m memory
	for _, each := range asked.Series {
		var samples []chunks.Sample
		for _, s := range each.Samples {
			samples = append(samples, sample{int64(s[0]), s[1]})
		}
		m.series = append(m.series, storage.NewListSeries(labels.FromMap(each.Labels), samples))
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	answers := make([]answer, len(asked.Questions))
	for i, question := range asked.Questions {
		answers[i] = ask(engine, m, question.Expr, question.AtMs)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(engine *promql.Engine, m memory, expr string, atMs int64) answer {
	query, err := engine.NewInstantQuery(context.Background(), m, nil, expr, time.UnixMilli(atMs))
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return answer{Error: result.Err.Error()}
	}
	vector, err := result.Vector()
	if err != nil {
		scalar, scalarErr := result.Scalar()
		if scalarErr != nil {
			return answer{Error: err.Error()}
		}
		return answer{Found: []found{{Labels: map[string]string{}, Value: text(scalar.V)}}}
	}
	out := answer{Found: []found{}}
	for _, each := range vector {
		out.Found = append(out.Found, found{Labels: each.Metric.Map(), Value: text(each.F)})
	}
	return out
}

func text(v float64) string {
	if math.IsNaN(v) {
		return "NaN"
	}
	return fmt.Sprintf("%g", v)
}
