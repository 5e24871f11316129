package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/agent"
	"weir/model"
	"weir/sim/strict"
)

func (r *reader) channel(n ast.Node, path string) {
	f := r.Mapping(n, path)
	if f == nil {
		return
	}
	var c model.ChannelConfig
	f.Need("name")
	f.Name("name", &c.Name)
	f.Text("provider", &c.Provider)
	r.modelName(f, "model", &c.Model)
	f.List("groups", func(n ast.Node, path string) { c.Groups = append(c.Groups, r.Name(n, path)) })
	c.Limits = r.limits(f)
	charge := "actual"
	strict.Choose(f, "charge", &charge, "actual", "max_tokens")
	c.ChargeMax = charge == "max_tokens"
	if p := f.Child("price"); p != nil {
		ratio(p, "input", &c.Price.Input, 0, maxRatio)
		ratio(p, "cached", &c.Price.Cached, 0, maxRatio)
		ratio(p, "output", &c.Price.Output, 0, maxRatio)
		p.Done()
	}
	c.OnLoss = onLoss(f)
	count(f, "alone", &c.Alone, 0, maxSlots)
	c.HasMode = r.mode(f, &c.Mode)
	if up, ok := r.upstream(f); ok && c.Name != "" {
		r.file.Upstreams[c.Name] = up
	}
	f.Done()
	if c.Model == "" {
		c.Model = c.Name
	}
	r.file.Model.Channels = append(r.file.Model.Channels, c)
}

func onLoss(f *strict.Fields) model.OnLoss {
	all := []model.OnLoss{model.OnLossSafe, model.OnLossZero, model.OnLossLast}
	word := model.OnLossSafe.String()
	strict.Choose(f, "on_controller_loss", &word, all[0].String(), all[1].String(), all[2].String())
	for _, o := range all {
		if o.String() == word {
			return o
		}
	}
	return model.OnLossSafe
}

// upstream reads where a channel's calls go; ok is false when the file does
// not say.
func (r *reader) upstream(f *strict.Fields) (u agent.Upstream, ok bool) {
	r.secret(f, "api_key_env or api_key_file", "api_key", "key", "token", "secret", "password")
	r.variable(f, "api_key_env", &u.KeyEnv)
	f.Text("api_key_file", &u.KeyFile)
	f.Text("api_key_header", &u.KeyHeader)
	usage := true
	f.Flag("stream_usage", &usage)
	u.NoStreamUsage = !usage
	if c := f.Child("fields"); c != nil {
		u.Drop, u.Refuse = r.members(c, "drop"), r.members(c, "refuse")
		c.Done()
	}
	if f.Has("api_key_env") && f.Has("api_key_file") {
		r.Fault(f.Key("api_key_file"), "%s: there is api_key_env too; use one of them", f.Sub("api_key_file"))
	}
	n := f.Get("base_url")
	if n == nil {
		return u, false
	}
	text := r.Text(n, f.Sub("base_url"))
	base, err := url.Parse(text)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		r.Fault(n, "%s: must be http:// or https:// with a host, such as https://provider.example/v1", f.Sub("base_url"))
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		r.Fault(n, "%s: must have neither user, query nor fragment; a key is named with api_key_env or api_key_file", f.Sub("base_url"))
	}
	u.BaseURL = text
	return u, true
}

// members reads names of members of a request.
func (r *reader) members(f *strict.Fields, key string) (names []string) {
	f.List(key, func(n ast.Node, path string) {
		name := r.Text(n, path)
		if !variableName.MatchString(name) || name == "model" {
			r.Fault(n, "%s: must be the name of a request's member such as logit_bias, and not model", path)
		}
		names = append(names, name)
	})
	return names
}

func (r *reader) group(n ast.Node, path string) (g model.GroupConfig) {
	f := r.Mapping(n, path)
	if f == nil {
		return g
	}
	f.Need("name")
	f.Name("name", &g.Name)
	g.Limits = r.limits(f)
	f.Done()
	return g
}

// limits reads what a provider told. A limit of 0 would mean "not told", so it
// is refused.
func (r *reader) limits(f *strict.Fields) (l model.Limits) {
	c := f.Child("limits")
	if c == nil {
		return l
	}
	count(c, "rpm", &l.RequestsPerMinute, 1, maxLimit)
	count(c, "tpm", &l.TokensPerMinute, 1, maxLimit)
	count(c, "input_tpm", &l.InputTokensPerMinute, 1, maxLimit)
	count(c, "output_tpm", &l.OutputTokensPerMinute, 1, maxLimit)
	count(c, "ipm", &l.ImagesPerMinute, 1, maxLimit)
	count(c, "requests_per_day", &l.RequestsPerDay, 1, maxLimit)
	count(c, "tokens_per_day", &l.TokensPerDay, 1, maxLimit)
	count(c, "concurrency", &l.Concurrency, 1, maxSlots)
	r.reset(c, &l.DayReset)
	c.Done()
	return l
}

// reset reads when a day's quota starts anew: a time of day and a time zone,
// UTC when none is named. In a zone with summer time the offset is today's.
func (r *reader) reset(f *strict.Fields, dst *model.Nanos) {
	n := f.Get("reset")
	if n == nil {
		return
	}
	clock, zone, _ := strings.Cut(r.Text(n, f.Sub("reset")), " ")
	at, err := time.Parse("15:04", clock)
	location, zoneErr := time.LoadLocation(strings.TrimSpace(zone))
	if err != nil || zoneErr != nil || zone == "Local" {
		r.Fault(n, `%s: must be a time of day and a time zone, such as "00:00 Asia/Shanghai", got %s`, f.Sub("reset"), strict.Show(n))
		return
	}
	_, offset := r.now.In(location).Zone()
	const day = 24 * 60 * 60
	seconds := at.Hour()*3600 + at.Minute()*60 - offset
	*dst = model.Nanos((seconds%day+day)%day) * model.Second
}

// maxModel bounds a model's name as clients and providers write it.
const maxModel = 200

// modelName reads a model's name: printable, without spaces.
func (r *reader) modelName(f *strict.Fields, key string, dst *string) {
	n := f.Get(key)
	if n == nil {
		return
	}
	text := r.Text(n, f.Sub(key))
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }
	if text == "" || len(text) > maxModel || strings.ContainsFunc(text, bad) {
		r.Fault(n, "%s: must be a model's name of 1 to %d letters, digits and signs without spaces, got %s", f.Sub(key), maxModel, strict.Show(n))
		return
	}
	*dst = text
}
