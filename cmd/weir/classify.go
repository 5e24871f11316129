package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"weir/agent/classify"
)

// classifyCommand is weir classify.
type classifyCommand struct {
	configFlag
	Rules   []string `placeholder:"FILE" help:"Rule file to ask before the shipped ones; may be repeated."`
	Unknown bool     `help:"Print the refusals that the sidecar here kept since no rule knew them (agent.unknown), as lines to judge again; those that the rules know by now are left out."`
}

// Help is shown by --help.
func (*classifyCommand) Help() string {
	return `Each line in is one answer of a provider as an object: id, provider, http_status, headers, body or sse, stream, transport_error, now. Each line out is the verdict: class, retryable, retry_after_s, dimension, limit, remaining, scope, code, and the rule that decided. A line that is no such object is named on standard error, the rest goes on, and the exit code is 1.

Examples:

  weir classify <answers.jsonl >verdicts.jsonl
  echo '{"id":1,"provider":"minimax","http_status":200,"body":"{\"base_resp\":{\"status_code\":2064}}"}' | weir classify
  weir classify --rules my-provider.yaml <answers.jsonl
  weir classify --unknown --rules my-provider.yaml`
}

// maxRules bounds a rule file.
const maxRules = 1 << 20

// Run judges standard input.
func (c *classifyCommand) Run(e *env) error {
	rules, err := tables(c.Rules)
	if err != nil {
		return err
	}
	if c.Unknown {
		return c.unknown(e, rules)
	}
	bad, err := classify.Lines(e.stdin, e.stdout, e.stderr, rules)
	if err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d lines could not be read", bad)
	}
	return nil
}

// unknown prints what the sidecar kept.
func (c *classifyCommand) unknown(e *env, rules *classify.Classifier) error {
	f, err := c.want()
	if err != nil {
		return err
	}
	if f.Agent.Unknown == "" {
		return badInput(fmt.Errorf("%s names no file for them: set agent.unknown, such as ./weir-data/unknown.jsonl, and let the sidecar run", c.path()))
	}
	in, err := os.Open(f.Agent.Unknown)
	if errors.Is(err, fs.ErrNotExist) {
		e.log.Info("nothing unknown was kept yet", slog.String("file", f.Agent.Unknown))
		return nil
	}
	if err != nil {
		return badInput(err)
	}
	defer func() { _ = in.Close() }() // only read
	return classify.Unknown(in, e.stdout, rules)
}

// tables makes a classifier that asks rule files before the shipped rules.
func tables(paths []string) (*classify.Classifier, error) {
	var tables []classify.Table
	for _, path := range paths {
		data, err := readRules(path)
		if err != nil {
			return nil, badInput(err)
		}
		tables = append(tables, classify.Table{Name: path, Data: data})
	}
	rules, err := classify.New(tables...)
	if err != nil {
		return nil, badFile(err)
	}
	return rules, nil
}

func readRules(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, maxRules+1))
}
