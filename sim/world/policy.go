package world

import (
	"fmt"
	"strings"

	"weir/model"
	"weir/sim/peer"
)

// The policies that are no peer: no control, which sends the application's
// calls straight to the provider; Weir; and perfect knowledge.
const (
	PolicyNone   = "none"
	PolicyWeir   = "weir"
	PolicyOracle = "oracle"
)

// PolicyInfo is a policy's name and one sentence about it.
type PolicyInfo struct{ Name, About string }

// Policies lists every policy that Config.Policy may name, in a fixed order.
func Policies() []PolicyInfo {
	all := policies()
	infos := make([]PolicyInfo, len(all))
	for i := range all {
		infos[i] = all[i].PolicyInfo
	}
	return infos
}

// policy is who decides in a run.
type policy struct {
	PolicyInfo
	weir   bool
	oracle bool
	// tune switches a part of Weir off by its parameters, configure by its
	// configuration; nil for none.
	tune      func(*model.Params)
	configure func(*model.Config)
	// without is a law that the fold goes without.
	without model.Ablation
	// even: each agent has the same part of a window, in place of a lease.
	even bool
	// alone: each process folds its own reports and knows of no other.
	alone bool
	// peer makes one process's limiter for a channel, and what it does by
	// itself after a failed try: nil to leave that to the application.
	peer func(*site) (peer.Limiter, peer.Retrier)
	// spread: the peer chooses among the channels of a tier, and goes on to
	// the next tier when one fails. Others know the first channel only.
	spread bool
}

func policyNamed(name string) (policy, error) {
	all := policies()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == name {
			return all[i], nil
		}
		names[i] = all[i].Name
	}
	return policy{}, fmt.Errorf("policy %q is unknown; there are %s", name, strings.Join(names, ", "))
}

// params are the parameters a run starts with, nil for the defaults.
func (p *policy) params(given *model.Params) *model.Params {
	if p.tune == nil {
		return given
	}
	tuned := model.DefaultParams()
	if given != nil {
		tuned = *given
	}
	p.tune(&tuned)
	return &tuned
}

func policies() []policy {
	about := func(name, about string) PolicyInfo { return PolicyInfo{Name: name, About: about} }
	list := []policy{
		{PolicyInfo: about(PolicyNone, "no control: the application's own retries")},
		{PolicyInfo: about(PolicyWeir, "Weir with the given parameters"), weir: true},
		{PolicyInfo: about(PolicyOracle, "perfect knowledge of the provider"), oracle: true},
	}
	list = append(list, peers()...)
	return append(list, ablations()...)
}

// peers are what people use today. Where a peer's own publication says nothing
// about retries, the application goes on with its habit.
func peers() []policy {
	about := func(name, about string) PolicyInfo { return PolicyInfo{Name: name, About: about} }
	return []policy{
		{
			PolicyInfo: about("openai-sdk", "the client library's two retries with backoff, no limit"),
			peer:       func(s *site) (peer.Limiter, peer.Retrier) { return peer.Open{}, peer.NewSDK(s.dice("retry")) },
		},
		{
			PolicyInfo: about("static-split", "each process an equal share of the told limits"),
			peer:       func(s *site) (peer.Limiter, peer.Retrier) { return s.split(), nil },
		},
		{
			PolicyInfo: about("netflix-aimd", "Netflix concurrency-limits: AIMD on refusals and timeouts, per process"),
			peer:       func(*site) (peer.Limiter, peer.Retrier) { return peer.NewAIMD(), nil },
		},
		{
			PolicyInfo: about("netflix-gradient2", "Netflix concurrency-limits: gradient of latency, per process"),
			peer:       func(*site) (peer.Limiter, peer.Retrier) { return peer.NewGradient2(), nil },
		},
		{
			PolicyInfo: about("aws-adaptive", "AWS SDK adaptive mode: CUBIC send rate and retry quota, per process"),
			peer: func(s *site) (peer.Limiter, peer.Retrier) {
				l := peer.NewAWS(s.d.a.w.now, s.dice("retry"))
				return l, l
			},
		},
		{
			PolicyInfo: about("google-throttle", "SRE book adaptive throttling, K = 2 over two minutes, per process"),
			peer:       func(s *site) (peer.Limiter, peer.Retrier) { return peer.NewThrottle(s.dice("throttle")), nil },
		},
		{
			PolicyInfo: about("litellm-cooldown", "LiteLLM router: cooldown per deployment, two retries, fallback to the next tier"), spread: true,
			peer: func(s *site) (peer.Limiter, peer.Retrier) {
				l := peer.NewCooldown(s.single(), s.dice("retry"))
				return l, l
			},
		},
		{
			PolicyInfo: about("nemo-aimd", "NeMo Data Designer: AIMD with a ceiling and a cooldown, per process"),
			peer:       func(s *site) (peer.Limiter, peer.Retrier) { return peer.NewNeMo(s.parallel()), nil },
		},
		{
			PolicyInfo: about("process-breaker", "sony/gobreaker with its defaults, per process"),
			peer:       func(*site) (peer.Limiter, peer.Retrier) { return peer.NewBreaker(), nil },
		},
		{
			PolicyInfo: about("plain-aimd", "a window per process: +1 per success, x0.7 per refusal"),
			peer:       func(*site) (peer.Limiter, peer.Retrier) { return peer.NewPlain(), nil },
		},
		{
			PolicyInfo: about("incident-remedy", "what the 2064 incident's operators did: a window of 5 to 30 per process, halved per refusal"),
			peer:       func(*site) (peer.Limiter, peer.Retrier) { return peer.NewRemedy(), nil },
		},
	}
}

// ablations are Weir with one part switched off.
func ablations() []policy {
	off := func(name, about string, tune func(*model.Params)) policy {
		return policy{PolicyInfo: PolicyInfo{Name: name, About: about}, weir: true, tune: tune}
	}
	return []policy{
		off("weir-no-latency", "Weir that only looks at latency when it has grown tenfold", func(p *model.Params) {
			most(p, "latency_high", "latency_calm", "latency_samples", "latency_cut_floor")
		}),
		off("weir-no-breaker", "Weir whose breaker opens only when nothing but failures was seen for long", func(p *model.Params) {
			most(p, "breaker_ratio", "breaker_volume", "breaker_consecutive")
		}),
		off("weir-no-weight", "Weir that hardly prefers the healthier channel", func(p *model.Params) {
			most(p, "weight_decay", "weight_floor")
			least(p, "weight_half_life")
		}),
		off("weir-no-safe-share", "Weir whose agents stop when the controller is silent", func(p *model.Params) {
			least(p, "safe_share")
		}),
		off("weir-no-float", "Weir whose idle agents keep nothing of a budget", func(p *model.Params) {
			least(p, "pool_float")
		}),
		{PolicyInfo: PolicyInfo{"weir-not-told", "Weir that is told none of the limits"}, weir: true, configure: forgetLimits},
		{PolicyInfo: PolicyInfo{"weir-no-leases", "Weir that splits a window evenly over all agents, whatever they need"}, weir: true, even: true},
		{PolicyInfo: PolicyInfo{"weir-no-epochs", "Weir that cuts again for refusals of calls from before the last cut"}, weir: true, without: model.AblateEpochs},
		{PolicyInfo: PolicyInfo{"weir-no-pin", "Weir whose cuts take three tenths of the window, whatever was measured"}, weir: true, without: model.AblatePin},
		{PolicyInfo: PolicyInfo{"weir-no-fleet", "Weir's laws in each process by itself, without reports to a controller"}, weir: true, alone: true},
		{PolicyInfo: PolicyInfo{"weir-no-retry-budget", "Weir whose every first attempt earns a retry, not one in ten"}, weir: true, configure: retryFreely},
	}
}

// retryFreely earns a whole retry by each first attempt.
func retryFreely(c *model.Config) { c.Retry.Budget = model.One }

// forgetLimits leaves a configuration without limits.
func forgetLimits(c *model.Config) {
	for i := range c.Channels {
		c.Channels[i].Limits = model.Limits{}
	}
	for i := range c.Groups {
		c.Groups[i].Limits = model.Limits{}
	}
}

// most sets parameters to the end of their range, least to its beginning.
func most(p *model.Params, names ...string)  { bound(p, names, true) }
func least(p *model.Params, names ...string) { bound(p, names, false) }

func bound(p *model.Params, names []string, upper bool) {
	left := len(names)
	for _, s := range model.ParamSpecs() {
		for _, n := range names {
			if s.Name != n {
				continue
			}
			left--
			v := s.Min
			if upper {
				v = s.Max
			}
			if err := s.Set(p, v); err != nil {
				panic("world: BUG: " + err.Error())
			}
		}
	}
	if left != 0 {
		panic("world: BUG: an ablation names a parameter that does not exist")
	}
}
