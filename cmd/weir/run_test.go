package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// result is what a command line came to.
type result struct {
	code           int
	stdout, stderr string
}

// weir runs a command line in this process.
func weir(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return weirIn(t.Context(), stdin, args...)
}

func weirIn(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// faults are the lines of standard error that are no log.
func (r result) faults() []string {
	var lines []string
	for line := range strings.Lines(r.stderr) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// wantFaults checks that a command ended with code 2 and one line for each
// fault, which holds the text wanted.
func (r result) wantFaults(t *testing.T, want ...string) {
	t.Helper()
	lines := r.faults()
	if r.code != exitUsage || len(lines) != len(want) {
		t.Fatalf("exit code %d, want %d; %d faults, want %d:\n%s", r.code, exitUsage, len(lines), len(want), r.stderr)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("fault %q does not say %q", line, want[i])
		}
		if len(line) > 400 {
			t.Errorf("fault of %d bytes: %s", len(line), line)
		}
	}
	if r.stdout != "" {
		t.Errorf("standard output has %q", r.stdout)
	}
}

// commands lists every command line that has help.
func commands(t *testing.T) [][]string {
	t.Helper()
	parser, err := kong.New(&program{}, kong.Name("weir"), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, leaf := range parser.Model.Leaves(false) {
		all = append(all, strings.Fields(leaf.Path()))
	}
	return all
}

// TestHelp holds every command to an example and an explanation of each flag.
func TestHelp(t *testing.T) {
	all := commands(t)
	if len(all) < 19 {
		t.Fatalf("only %d commands: %v", len(all), all)
	}
	for _, command := range all {
		var path []string
		for _, word := range command {
			if !strings.HasPrefix(word, "<") && !strings.HasPrefix(word, "[") {
				path = append(path, word)
			}
		}
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			got := weir(t, "", append(path, "--help")...)
			if got.code != exitOK || got.stderr != "" {
				t.Fatalf("exit code %d: %s", got.code, got.stderr)
			}
			example := "weir " + strings.Join(path, " ")
			if _, examples, ok := strings.Cut(got.stdout, "Examples:"); !ok || !strings.Contains(examples, example) {
				t.Errorf("help has no example of %q:\n%s", example, got.stdout)
			}
		})
	}
	for _, group := range [][]string{{}, {"sim"}, {"log"}, {"channel"}, {"params"}, {"config"}} {
		if got := weir(t, "", append(slices.Clone(group), "--help")...); got.code != exitOK || !strings.Contains(got.stdout, "Usage: weir") {
			t.Errorf("%v --help: exit code %d: %s%s", group, got.code, got.stdout, got.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := weir(t, "", "--version"); got.code != exitOK || strings.TrimSpace(got.stdout) == "" {
		t.Errorf("exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
}

// file writes a file of the test's and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadInput gives every command what it cannot use. Nothing of it starts.
func TestBadInput(t *testing.T) {
	origin, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_TOKEN", "")
	noChannels := file(t, "weir.yaml", "fleet: a\n")
	noURL := file(t, "weir.yaml", "channels: [{name: a}]\nroutes: [{name: r, tiers: [[a]]}]\n")
	noRoute := file(t, "weir.yaml", "channels: [{name: a, base_url: 'http://127.0.0.1:1/v1'}]\n")
	noKey := file(t, "weir.yaml", "agent: {listen: '127.0.0.1:0'}\nchannels: [{name: a, base_url: 'http://127.0.0.1:1/v1', api_key_env: WEIR_TEST_UNSET}]\nroutes: [{name: r, tiers: [[a]]}]\n")
	noToken := file(t, "weir.yaml", "nats: {url: 'nats://127.0.0.1:1', token_env: WEIR_TEST_UNSET}\nagent: {listen: '127.0.0.1:0'}\nchannels: [{name: a, base_url: 'http://127.0.0.1:1/v1'}]\nroutes: [{name: r, tiers: [[a]]}]\n")
	good := file(t, "weir.yaml", "agent: {listen: '127.0.0.1:0'}\nchannels: [{name: a, base_url: 'http://127.0.0.1:1/v1'}]\nroutes: [{name: r, tiers: [[a]]}]\n")
	faulty := file(t, "weir.yaml", "channels: [{name: a}, {name: a, limits: {rpm: -1}}]\nrouts: []\n")
	incident := file(t, "in.yaml", "name: a\nduration: 3\n")
	quick, err := os.ReadFile(origin + "/testdata/quick.yaml")
	if err != nil {
		t.Fatal(err)
	}
	traced := file(t, "in.yaml", strings.Replace(string(quick), "{kind: poisson, rate: 20}", "{kind: trace, file: nowhere.csv}", 1))
	params := file(t, "p.yaml", "params: {no_such: 1}\n")
	calm := file(t, "p.yaml", "params: {plateau: 12s}\n")
	garbage := file(t, "garbage", "not a journal\n")
	rules := file(t, "rules.yaml", "version: 1\nfamily: x\nrules: [{name: a, status: [500], class: nonsense}]\n")
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"expected one of"}},
		{"nonsense", []string{"unexpected argument nonsense; see weir --help"}},
		{"demo --four 3s", []string{"unknown flag --four"}},
		{"demo --for soon", []string{"see weir demo --help"}},
		{"demo --for 3s", []string{"want at least 20s"}},
		{"demo --out " + garbage + "/x", []string{"--out="}},
		{"sim", []string{"expected one of"}},
		{"--log-level loud sim list", []string{"log-level"}},
		{"controller", []string{"there is no weir.yaml here: weir init"}},
		{"controller -c /nowhere/weir.yaml", []string{"open /nowhere/weir.yaml: no such file or directory"}},
		{"controller -c " + noChannels, []string{noChannels + ":1:1: channels: there is none"}},
		{"controller -c " + faulty, []string{
			faulty + `:1:30: channels[1]: the name "a" is used twice`, faulty + ":1:47: channels[1].limits.rpm: must be from 1", faulty + ":2:1: routs: unknown key",
		}},
		{"agent", []string{"there is no weir.yaml here"}},
		{"agent -c " + noURL, []string{"no channel has a base_url"}},
		{"agent -c " + noRoute, []string{"routes: there is none"}},
		{"agent -c " + noKey, []string{"channel a: environment variable WEIR_TEST_UNSET is empty"}},
		{"agent -c " + noToken, []string{"environment variable WEIR_TEST_UNSET is empty, and nats.token_env names it"}},
		{"agent -c " + good + " --listen 0.0.0.0:0", []string{"0.0.0.0:0 is not on loopback"}},
		{"agent -c " + good + " --listen :0", []string{":0 is not on loopback"}},
		{"agent -c " + good + " --listen nowhere", []string{"not on loopback"}},
		{"agent -c " + good + " --id a.b", []string{"--id: check agent name"}},
		{"provider", []string{"expected"}},
		{"provider nosuch", []string{"no such built-in incident"}},
		{"provider " + incident, []string{"fleet: missing", "channels: missing", "routes: missing", "providers: missing", "workload: missing", "duration: must be a duration"}},
		{"provider 2064-cascade --compress=-1s", []string{"want a time above 0"}},
		{"provider 2064-cascade --provider x", []string{"has no such provider"}},
		{"provider 2064-cascade --listen nowhere", []string{"cannot listen on nowhere"}},
		{"load 2064-cascade", []string{"--target"}},
		{"load nosuch --target http://127.0.0.1:1", []string{"no such built-in incident"}},
		{"load 2064-cascade --target nowhere", []string{"want http:// or https://"}},
		{"load 2064-cascade --target http://127.0.0.1:1 --agents=-1", []string{"--agents=-1: want 1 to 10000"}},
		{"load 2064-cascade --target http://127.0.0.1:1 --key-env WEIR_TEST_UNSET", []string{"the variable is empty"}},
		{"probe http://127.0.0.1:1/v1", []string{"--model"}},
		{"probe nowhere --model m", []string{"the URL needs http:// or https://"}},
		{"probe http://a:b@127.0.0.1:1/v1 --model m", []string{"neither user, query nor fragment"}},
		{"probe http://127.0.0.1:1/v1 --model m --key-env WEIR_TEST_UNSET", []string{"the environment variable is empty"}},
		{"probe http://127.0.0.1:1/v1 --model m --max-tokens 0", []string{"--max-tokens=0: want 1 to"}},
		{"probe http://127.0.0.1:1/v1 --model m --only speed", []string{"--only=speed: want concurrency"}},
		{"probe http://127.0.0.1:1/v1 --model m --api grpc", []string{"--api"}},
		{"classify --rules /nowhere", []string{"open /nowhere"}},
		{"classify --rules " + rules, []string{rules + ":3:"}},
		{"sim run nosuch", []string{"no such built-in incident"}},
		{"sim run 2064-quota --policy weird", []string{"--policy=weird: there is no such policy"}},
		{"sim run " + traced, []string{"nowhere.csv: no such file"}},
		{"load " + traced + " --target http://127.0.0.1:1", []string{"nowhere.csv: no such file"}},
		{"sim run 2064-quota --seeds 0", []string{"--seeds=0"}},
		{"sim run 2064-quota --books-from 1h", []string{"lasts 15m"}},
		{"sim run 2064-quota --params " + params, []string{"params.no_such: there is no such parameter"}},
		{"sim run 2064-quota --params " + garbage, []string{"must be a mapping"}},
		{"log tail --nats nats://127.0.0.1:1 --fleet a.b", []string{"--fleet: check fleet name"}},
		{"log tail --store /nowhere", []string{"there is no store"}},
		{"log tail --kind order", []string{"--kind=order: there is no such kind"}},
		{"log tail --class busy", []string{"--class=busy: there is no such class"}},
		{"log import /nowhere", []string{"open /nowhere"}},
		{"log import " + garbage, []string{garbage + ": open journal"}},
		{"log verify /nowhere", []string{"stat /nowhere"}},
		{"log verify " + garbage, []string{garbage + ": open journal"}},
		{"status --url http://127.0.0.1:1", []string{"cannot reach the controller"}},
		{"status --url nowhere", []string{"want http:// or https://"}},
		{"channel pause a", []string{"set WEIR_TOKEN"}},
		{"channel set a", []string{"nothing to set"}},
		{"channel set a --weight 2", []string{"--weight=2"}},
		{"channel set a --weight NaN", []string{"--weight=NaN"}},
		{"channel set a --limit -3", []string{"--limit"}},
		{"channel set a --mode x", []string{"--mode=x"}},
		{"channel set a --breaker ajar", []string{"--breaker=ajar"}},
		{"params push " + params, []string{"params.no_such: there is no such parameter"}},
		{"params push " + calm + " --guard speed=1%", []string{`--guard=speed=1%: "speed=1%": want goodput or waste`}},
		{"params push " + calm + " --guard goodput=2", []string{"want a change from -100% to +100%"}},
		{"params push " + calm + " --for 5s", []string{"--for=5s: want 10s to 1h"}},
		{"params push " + calm + " --wait", []string{"--wait: there is no verdict"}},
		{"config check " + faulty, []string{"is used twice", "must be from 1", "unknown key"}},
		{"config check /nowhere", []string{"open /nowhere"}},
		{"config check", []string{"there is no weir.yaml here: weir init writes one"}},
		{"mode off", []string{"mode off: want enforce or observe"}},
		{"mode observe", []string{"set WEIR_TOKEN"}},
		{"channel forget", []string{"expected"}},
		{"channel release a", []string{"set WEIR_TOKEN"}},
		{"params diff " + params, []string{"params.no_such: there is no such parameter"}},
		{"params diff " + calm + " " + params, []string{"params.no_such: there is no such parameter"}},
		{"params diff " + calm + " --url http://127.0.0.1:1", []string{"cannot reach the controller"}},
		{"params history --last 0", []string{"--last=0"}},
		{"params history --url http://127.0.0.1:1", []string{"cannot reach the controller"}},
		{"config push " + good, []string{"set WEIR_TOKEN"}},
	} {
		t.Run(tt.args, func(t *testing.T) { weir(t, "", strings.Fields(tt.args)...).wantFaults(t, tt.want...) })
	}
}

func TestConfigCheck(t *testing.T) {
	got := weir(t, "", "config", "check", "config/testdata/contract.yaml")
	if got.code != exitOK || got.stdout != "config/testdata/contract.yaml is good: fleet default, 3 channels, 1 groups, 2 routes, 1 tenants\n" {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	// The file that the help shows.
	help := weir(t, "", "config", "check", "--help").stdout
	shown, _, _ := strings.Cut(help[strings.Index(help, "    channels:"):], "Examples:")
	if got := weir(t, "", "config", "check", file(t, "weir.yaml", shown)); got.code != exitOK {
		t.Errorf("the example of the help is refused:\n%s%s", shown, got.stderr)
	}
}

func TestClassify(t *testing.T) {
	in := `{"id":1,"provider":"minimax","http_status":200,"body":"{\"base_resp\":{\"status_code\":2064}}"}` + "\n"
	got := weir(t, in, "classify")
	if got.code != exitOK || !strings.Contains(got.stdout, `"class":"overloaded"`) {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	got = weir(t, in+"nonsense\n"+in, "classify")
	if got.code != exitFailed || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stderr, "line 2:") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
