package agent

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/model"
)

// TestEstimates holds that whatever a channel's tokenizer makes of a text, the
// estimate is soon within a tenth of it, and that nonsense stays bounded.
func TestEstimates(t *testing.T) {
	for _, ratio := range []float64{0.4, 0.8, 1, 1.7, 3.5} {
		var e estimates
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 100 {
			estimated := 20 + rnd.IntN(5000)
			e.learn("main", model.Tokens(estimated), model.Tokens(math.Round(float64(estimated)*ratio)))
		}
		want := 1000 * ratio
		if got := float64(e.correct("main", 1000)); math.Abs(got-want) > want/10 {
			t.Errorf("ratio %v: 1000 tokens are corrected to %v, want %v", ratio, got, want)
		}
		if c := e.by["main"]; c.off/c.used > 0.1 {
			t.Errorf("ratio %v: the error is said to be %v", ratio, c.off/c.used)
		}
		if got := e.correct("other", 1000); got != 1000 {
			t.Errorf("a channel that said nothing is corrected to %d", got)
		}
	}

	var e estimates
	for range 1000 {
		e.learn("main", 1, 1<<40)
		e.learn("spare", 1<<40, 1)
		e.learn("none", 0, 5)
		e.learn("none", 5, -1)
	}
	if most, least, none := e.correct("main", 100), e.correct("spare", 100), e.correct("none", 100); most != 400 || least != 25 || none != 100 {
		t.Errorf("nonsense corrects 100 to %d, %d and %d", most, least, none)
	}
	var b strings.Builder
	e.write(&b)
	for _, want := range []string{`weir_estimate_factor{channel="main"} 4`, `weir_estimate_error_ratio{channel="spare"}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("metrics lack %s:\n%s", want, b.String())
		}
	}
}

// TestChannelsAreForgotten holds that what is learned of channels does not grow
// with every push that renames one.
func TestChannelsAreForgotten(t *testing.T) {
	var (
		e    estimates
		told minutes
	)
	for _, name := range []string{"main", "old"} {
		e.learn(name, 100, 150)
		told.learn(name, []model.LimitHint{{Dimension: model.DimTokens, Limit: 1000}})
	}
	channels := map[string]*model.ChannelConfig{"main": {}}
	e.keep(channels)
	told.keep(channels)
	if len(e.by) != 1 || len(told.by) != 1 || told.of("main") != 1000 {
		t.Errorf("left are %v and %v", e.by, told.by)
	}
}

// TestUsualTotal holds that an attempt ends by itself where the fleet sets no
// time.
func TestUsualTotal(t *testing.T) {
	for set, want := range map[model.Nanos]model.Nanos{0: 2 * model.Minute, -1: 2 * model.Minute, model.Second: model.Second} {
		if got := (Config{}).reachable(&model.Config{Timeouts: model.TimeoutConfig{Total: set}}).Timeouts.Total; got != want {
			t.Errorf("a total of %v becomes %v, want %v", set, got, want)
		}
	}
}
