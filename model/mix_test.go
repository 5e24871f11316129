package model

import (
	"math/rand/v2"
	"testing"
)

// TestMix paces calls of random make by the budget that a limit of input tokens
// comes to: the input of an hour stays within it and uses it up.
func TestMix(t *testing.T) {
	limits := Limits{TokensPerMinute: 1_000_000, InputTokensPerMinute: 60_000, OutputTokensPerMinute: 40_000}
	for _, tt := range []struct {
		in, out int64
		part    string
	}{{3000, 200, "input"}, {800, 900, "output"}} {
		var m mix
		if _, before := m.told(&limits); before != 40_000 {
			t.Errorf("before any call %d tokens a minute, want the least limit", before)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		var in, out, used, minutes int64
		for range 60 {
			_, whole := m.told(&limits)
			for spent := int64(0); spent < whole; {
				i, o := rnd.Int64N(2*tt.in)+1, rnd.Int64N(2*tt.out)+1
				m.add(Tokens(i), Tokens(o))
				in, out, spent, used = in+i, out+o, spent+i+o, used+i+o
			}
			minutes++
		}
		got, limit := in, int64(60_000)
		if tt.part == "output" {
			got, limit = out, 40_000
		}
		if share := got * 100 / (limit * minutes); share < 85 || share > 108 {
			t.Errorf("%d tokens of %s in %d minutes, %d %% of the limit", got, tt.part, minutes, share)
		}
	}
}

func TestMixExtremes(t *testing.T) {
	var m mix
	l := Limits{OutputTokensPerMinute: 500, ImagesPerMinute: 7, RequestsPerMinute: 9}
	m.add(100, 0)
	if requests, tokens := m.told(&l); requests != 7 || tokens != maxRate {
		t.Errorf("got %d and %d, want the images, and no bound on calls without output", requests, tokens)
	}
	for range 2000 {
		m.add(Tokens(maxInt64), Tokens(maxInt64))
		m.add(-5, -5)
	}
	if _, tokens := m.told(&l); tokens < 500 || tokens > maxRate || m.Input < 0 || m.Output < 0 {
		t.Errorf("%d tokens a minute of %+v", tokens, m)
	}
}

// TestMixBinds holds the fold to a limit on input alone, told in configuration.
func TestMixBinds(t *testing.T) {
	s := newScript(t)
	c := parseConfig(t, "channel m\n")
	c.Channels[0].Limits.InputTokensPerMinute = 6000
	s.fold(c)
	s.play("1s a in=1 ok*70(in=300,out=100) | pool channel/m used=70/28000 wait=9/3600\n2s a in=1 | pool channel/m used=70/28000 wait=9/3600\n")
	p := s.f.pool("channel/m")
	if p == nil || p.tokens.Told < 7800 || p.tokens.Told > 8200 {
		t.Fatalf("pool %+v, want about 8000 tokens a minute, of which three quarters are input", p)
	}
	checkFleet(t, s.f)
	again, err := DecodeFleet(s.f.AppendBinary(nil))
	if err != nil || again.pool("channel/m").limits == nil || again.pool("channel/m").mix != p.mix {
		t.Errorf("read back: %v", err)
	}
}
