package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/agent"
	"weir/agent/trace"
	"weir/events"
	"weir/model"
	"weir/sim/strict"
)

// Bounds that no fleet reaches.
const (
	maxLimit = 1_000_000_000_000 // requests or tokens per minute or day
	maxSlots = 1_000_000
	maxShare = 1_000_000
	maxRatio = 1000 * strict.PPM
	minKeep  = 1000       // fewer would be a snapshot every few seconds
	minTasks = 10_000_000 // bytes of a room: some requests and answers of the largest size
	maxRooms = 64         // each is two streams and some goroutines of every worker
)

// reader reads one weir.yaml.
type reader struct {
	*strict.Reader
	now  time.Time
	file *File
}

func (r *reader) read(body ast.Node) {
	f := r.Mapping(body, "")
	if f == nil {
		return
	}
	r.fleet(f)
	if c := f.Child("nats"); c != nil {
		r.nats(c)
	}
	if c := f.Child("controller"); c != nil {
		r.controller(c)
	}
	if c := f.Child("agent"); c != nil {
		r.agent(c)
	}
	m := &r.file.Model
	f.List("channels", func(n ast.Node, path string) { r.channel(n, path) })
	f.List("groups", func(n ast.Node, path string) { m.Groups = append(m.Groups, r.group(n, path)) })
	f.List("routes", func(n ast.Node, path string) { m.Routes = append(m.Routes, r.route(n, path)) })
	f.List("tenants", func(n ast.Node, path string) { m.Tenants = append(m.Tenants, r.tenant(n, path)) })
	if c := f.Child("retry"); c != nil {
		r.retry(c, &m.Retry)
	}
	if c := f.Child("timeouts"); c != nil {
		r.timeouts(c, &m.Timeouts)
	}
	f.Done()
}

func (r *reader) fleet(f *strict.Fields) {
	m := &r.file.Model
	if n := f.Get("fleet"); n != nil {
		m.Fleet = r.Text(n, "fleet")
		if err := events.CheckFleet(m.Fleet); err != nil {
			r.Fault(n, "fleet: a fleet's name is 1 to %d of A-Z a-z 0-9 _ -, got %q", events.MaxName, m.Fleet)
		}
	}
	r.mode(f, &m.Mode)
}

// mode reads enforce or observe and reports whether the key is there.
func (r *reader) mode(f *strict.Fields, dst *model.Mode) bool {
	word := dst.String()
	strict.Choose(f, "mode", &word, model.ModeEnforce.String(), model.ModeObserve.String())
	*dst = model.ModeEnforce
	if word == model.ModeObserve.String() {
		*dst = model.ModeObserve
	}
	return f.Has("mode")
}

func (r *reader) nats(f *strict.Fields) {
	n := &r.file.NATS
	n.Embedded = !f.Has("url")
	f.Flag("embedded", &n.Embedded)
	r.address(f, "listen", &n.Listen)
	f.Text("store", &n.Store)
	durability := "1s"
	strict.Choose(f, "durability", &durability, "1s", "always")
	n.SyncAlways = durability == "always"
	r.busURL(f, &n.URL)
	r.secret(f, "credential_file", "token", "password", "credential")
	f.Text("credentials", &n.Credentials)
	f.Text("credential_file", &n.CredentialFile)
	r.variable(f, "token_env", &n.TokenEnv)
	f.Text("creds_file", &n.CredsFile)
	count(f, "replicas", &n.Replicas, 1, 5)
	tlsOf(f, &n.TLS, true)
	shown := ""
	for _, key := range []string{"credential_file", "token_env", "creds_file"} {
		switch {
		case !f.Has(key):
		case key != "credential_file" && n.Embedded:
			r.Fault(f.Key(key), "%s: is for a server of your own, with url; the embedded one knows credentials (weir credential add)", f.Sub(key))
		case shown != "":
			r.Fault(f.Key(key), "%s: there is %s too; use one of them", f.Sub(key), shown)
		default:
			shown = key
		}
	}
	switch {
	case n.Embedded && f.Has("url"):
		r.Fault(f.Key("url"), "%s: is for a server of your own; leave it out, or set embedded: false", f.Sub("url"))
	case n.Embedded && n.Replicas > 1:
		r.Fault(f.Key("replicas"), "%s: is for a cluster of your own, with url; the embedded server is alone", f.Sub("replicas"))
	case !n.Embedded:
		f.Need("url")
	}
	f.Done()
}

func (r *reader) controller(f *strict.Fields) {
	c := &r.file.Controller
	r.address(f, "listen", &c.Listen)
	f.Text("store", &c.Store)
	r.secret(f, "token_env or token_file", "token")
	r.variable(f, "token_env", &c.TokenEnv)
	f.Text("token_file", &c.TokenFile)
	tlsOf(f, &c.TLS, false)
	count(f, "keep", &c.Keep, minKeep, maxLimit)
	f.List("hosts", func(n ast.Node, path string) { c.Hosts = append(c.Hosts, strings.ToLower(r.Text(n, path))) })
	f.List("notices", func(n ast.Node, path string) { c.Notices = append(c.Notices, r.notice(n, path)) })
	f.Text("page", &c.Page)
	f.Done()
}

func (r *reader) agent(f *strict.Fields) {
	a := &r.file.Agent
	r.address(f, "listen", &a.Listen)
	count(f, "queue", &a.Queue, 1, 1_000_000)
	f.Text("client_keys", &a.ClientKeys)
	tlsOf(f, &a.TLS, false)
	if c := f.Child("task"); c != nil {
		count(c, "retries", &a.Task.Retries, 0, 1000)
		if c.Has("retries") && a.Task.Retries == 0 {
			a.Task.Retries = -1
		}
		c.Span("total", &a.Task.Total, time.Second)
		count(c, "parallel", &a.Task.Parallel, 1, 1000)
		c.Done()
	}
	keep(f, "idempotency", &a.Idempotency)
	if c := f.Child("cache"); c != nil {
		a.Cache.Ignore = r.paths(c, "ignore")
		keepInto(c, &a.Cache.KeepConfig)
	}
	f.List("rules", func(n ast.Node, path string) { a.Rules = append(a.Rules, r.Text(n, path)) })
	f.Text("unknown", &a.Unknown)
	if c := f.Child("semantic_cache"); c != nil {
		c.Need("route")
		c.Text("route", &a.Semantic.Route)
		threshold := int64(0)
		c.Ratio("threshold", &threshold, strict.PPM/2, strict.PPM)
		a.Semantic.Threshold = float64(threshold) / strict.PPM
		keepInto(c, &a.Semantic.KeepConfig)
	}
	if c := f.Child("tasks"); c != nil {
		c.Flag("enabled", &a.Tasks.Enabled)
		r.rooms(c, &a.Tasks)
		count(c, "bytes", &a.Tasks.Bytes, minTasks, maxLimit)
		c.Span("age", &a.Tasks.Age, time.Minute)
		if least := int64(minTasks * (1 + len(a.Tasks.Tenants))); a.Tasks.Bytes < least && c.Has("tenants") {
			r.Fault(c.Get("tenants"), "%s: so many rooms need %d bytes", c.Sub("tenants"), least)
		}
		c.Done()
	}
	if c := f.Child("traces"); c != nil {
		r.collector(c)
	}
	f.Done()
}

// rooms reads whose tasks are kept apart.
func (r *reader) rooms(f *strict.Fields, t *Tasks) {
	f.List("tenants", func(n ast.Node, path string) {
		name := r.Name(n, path)
		switch {
		case slices.Contains(t.Tenants, name):
			r.Fault(n, "%s: %q stands here twice", path, name)
		case len(t.Tenants) == maxRooms:
			r.Fault(n, "%s: at most %d tenants have rooms of their own", path, maxRooms)
		}
		t.Tenants = append(t.Tenants, name)
	})
}

// collector reads where spans go. What is wrong is not shown: it may hold a
// secret.
func (r *reader) collector(f *strict.Fields) {
	r.secret(f, "OTEL_EXPORTER_OTLP_HEADERS", "headers", "token", "api_key")
	f.Need("endpoint")
	if n := f.Get("endpoint"); n != nil {
		text := r.Text(n, f.Sub("endpoint"))
		if err := trace.CheckURL(text); err != nil {
			r.Fault(n, "%s: %s", f.Sub("endpoint"), err)
		}
		r.file.Agent.Traces = text
	}
	f.Done()
}

// paths reads the names of members of a request, at any depth.
func (r *reader) paths(f *strict.Fields, key string) (paths []string) {
	f.List(key, func(n ast.Node, path string) {
		name := r.Text(n, path)
		if !memberPath.MatchString(name) || name == "*" || name == "model" || name == "messages" || name == "stream" {
			r.Fault(n, "%s: must be the path of a member that changes nothing, such as user, metadata.trace or messages.*.id", path)
		}
		paths = append(paths, name)
	})
	return paths
}

// keep reads the bounds of answers that are kept; 0 bytes keep none.
func keep(f *strict.Fields, key string, dst *agent.KeepConfig) {
	if c := f.Child(key); c != nil {
		keepInto(c, dst)
	}
}

func keepInto(c *strict.Fields, dst *agent.KeepConfig) {
	count(c, "bytes", &dst.Bytes, 0, maxLimit)
	if c.Has("bytes") && dst.Bytes == 0 {
		dst.Bytes = -1
	}
	c.Span("for", &dst.For, time.Second)
	c.Done()
}

// tlsOf reads a certificate's files, and for a client's sake whom to trust.
func tlsOf(of *strict.Fields, t *TLS, trust bool) {
	f := of.Child("tls")
	if f == nil {
		return
	}
	f.Text("cert_file", &t.CertFile)
	f.Text("key_file", &t.KeyFile)
	if trust {
		f.Text("ca_file", &t.CAFile)
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		f.Need("key_file")
	case t.CertFile == "" && t.KeyFile != "":
		f.Need("cert_file")
	}
	f.Done()
}

// address reads host:port.
func (r *reader) address(f *strict.Fields, key string, dst *string) {
	n := f.Get(key)
	if n == nil {
		return
	}
	text := r.Text(n, f.Sub(key))
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		r.Fault(n, "%s: must be host:port such as 127.0.0.1:8080, got %q", f.Sub(key), text)
		return
	}
	*dst = text
}

// busURL reads the URL of NATS servers, several with commas between.
func (r *reader) busURL(f *strict.Fields, dst *string) {
	n := f.Get("url")
	if n == nil {
		return
	}
	text := r.Text(n, f.Sub("url"))
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			r.Fault(n, "%s: must be nats://host:port or tls://host:port", f.Sub("url"))
			return
		case u.User != nil:
			r.Fault(n, "%s: a secret does not belong in this file; name it with token_env or creds_file", f.Sub("url"))
			return
		}
	}
	*dst = text
}

// variableName is what an environment variable's name looks like.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// memberPath is what the path of a request's member looks like.
var memberPath = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]{0,63}|\*)(\.([A-Za-z_][A-Za-z0-9_-]{0,63}|\*)){0,7}$`)

// variable reads the name of an environment variable. What is none is not
// shown: it may be the secret itself.
func (r *reader) variable(f *strict.Fields, key string, dst *string) {
	n := f.Get(key)
	if n == nil {
		return
	}
	text, ok := n.(*ast.StringNode)
	if !ok || !variableName.MatchString(text.Value) {
		r.Fault(n, "%s: must be the name of an environment variable (letters, digits, '_'), not the secret itself", f.Sub(key))
		return
	}
	*dst = text.Value
}

// secret refuses keys under which a secret would stand in the file, and says
// what to use instead. The secret is not shown.
func (r *reader) secret(f *strict.Fields, instead string, keys ...string) {
	for _, key := range keys {
		if f.Has(key) {
			f.Get(key)
			r.Fault(f.Key(key), "%s: a secret does not belong in this file; name where it stands with %s", f.Sub(key), instead)
		}
	}
}

// integer is what a whole number may be read into.
type integer interface {
	~int | ~int64 | ~uint64 | ~uint32 | ~uint8
}

// count reads a whole number from least to most, both of which T holds.
func count[T integer](f *strict.Fields, key string, dst *T, least, most int64) {
	v := int64(*dst)
	f.Count(key, &v, least, most)
	*dst = T(v)
}

// ratio reads a decimal number into parts per million.
func ratio[T ~int64](f *strict.Fields, key string, dst *T, least, most int64) {
	v := int64(*dst)
	f.Ratio(key, &v, least, most)
	*dst = T(v)
}

// span reads a duration.
func span(f *strict.Fields, key string, dst *model.Nanos, least time.Duration) {
	d := dst.Duration()
	f.Span(key, &d, least)
	*dst = model.Nanos(d)
}
