package main

import (
	"fmt"
	"io"
	"os"

	"weir/agent/classify"
)

// classifyCommand is weir classify.
type classifyCommand struct {
	Rules []string `placeholder:"FILE" help:"Rule file to ask before the shipped ones; may be repeated."`
}

// Help is shown by --help.
func (*classifyCommand) Help() string {
	return `Each line in is one answer of a provider as an object: id, provider, http_status, headers, body or sse, stream, transport_error, now. Each line out is the verdict: class, retryable, retry_after_s, dimension, limit, remaining, scope, code, and the rule that decided. A line that is no such object is named on standard error, the rest goes on, and the exit code is 1.

Examples:

  weir classify <answers.jsonl >verdicts.jsonl
  echo '{"id":1,"provider":"minimax","http_status":200,"body":"{\"base_resp\":{\"status_code\":2064}}"}' | weir classify
  weir classify --rules my-provider.yaml <answers.jsonl`
}

// maxRules bounds a rule file.
const maxRules = 1 << 20

// Run judges standard input.
func (c *classifyCommand) Run(e *env) error {
	var tables []classify.Table
	for _, path := range c.Rules {
		data, err := readRules(path)
		if err != nil {
			return badInput(err)
		}
		tables = append(tables, classify.Table{Name: path, Data: data})
	}
	rules, err := classify.New(tables...)
	if err != nil {
		return badFile(err)
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

func readRules(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, maxRules+1))
}
