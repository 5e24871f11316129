package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the run failed
	exitUsage  = 2 // bad usage or bad input
)

// program is the command line.
type program struct {
	LogLevel slog.Level       `default:"info" placeholder:"LEVEL" help:"Least severe lines of the log on standard error: debug, info, warn, error."`
	Version  kong.VersionFlag `help:"Show the version."`

	Demo       demoCommand       `cmd:"" help:"Show on this machine what Weir is for: the same incident without it and with it."`
	Controller controllerCommand `cmd:"" help:"Run the controller: it folds the fleet's log and leases out what each channel can take."`
	Agent      agentCommand      `cmd:"" help:"Run the sidecar: applications change their base URL to it, and nothing else."`
	Provider   providerCommand   `cmd:"" help:"Run an incident's provider as a live OpenAI-compatible server."`
	Load       loadCommand       `cmd:"" help:"Send an incident's workload as live traffic."`
	Probe      probeCommand      `cmd:"" help:"Find out politely what a provider lets through, and propose limits."`
	Classify   classifyCommand   `cmd:"" help:"Judge provider answers: JSON lines in, JSON lines out."`
	Sim        simCommand        `cmd:"" help:"Simulate incidents in virtual time."`
	Log        logCommand        `cmd:"" help:"Follow, export, import, verify and explain the event log."`
	Status     statusCommand     `cmd:"" help:"Show the fleet as it is now."`
	Mode       modeCommand       `cmd:"" help:"Let the whole fleet enforce, or only observe."`
	Top        topCommand        `cmd:"" help:"Watch the fleet in this terminal."`
	Channel    channelCommand    `cmd:"" help:"Pause, resume and set channels."`
	Params     paramsCommand     `cmd:"" help:"Show, compare and push the parameters of the laws."`
	Config     configCommand     `cmd:"" help:"Check and push weir.yaml."`
	Init       initCommand       `cmd:"" help:"Write a first weir.yaml and the credentials of a fleet."`
	Credential credentialCommand `cmd:"" help:"Let agents and operators into the fleet's own NATS, and shut them out."`
	Backup     backupCommand     `cmd:"" help:"Write state and log to a file."`
	Restore    restoreCommand    `cmd:"" help:"Make a controller's store from such a file."`
}

// env is what a command works with.
type env struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger
}

// run runs one command line until it ends or ctx does, and returns the exit
// code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			shown, ok := p.(exit)
			if !ok {
				panic(p)
			}
			code = int(shown)
		}
	}()
	var p program
	parser, err := kong.New(&p,
		kong.Name("weir"),
		kong.Description("Weir keeps many processes that share one model API account from overrunning it together."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.Vars{"version": version()},
		kong.ValueFormatter(withDefault),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		panic("weir: BUG: " + err.Error())
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return tellFault(stderr, usage(err))
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: p.LogLevel}))
	announced := announce(ctx, log)
	err = parsed.Run(&env{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, log: log})
	announced() // before another line is written
	return tellFault(stderr, err)
}

// announce says once that ctx ended. The returned function ends that and
// waits for a line being written, since the streams are the caller's.
func announce(ctx context.Context, log *slog.Logger) func() {
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		log.Info("stopping; a second signal ends at once")
	})
	return func() {
		if !stop() {
			<-said
		}
	}
}

// withDefault is a flag's or argument's help with its default.
func withDefault(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if !v.HasDefault || v.Default == "" || strings.Contains(v.Help, "if none is") {
		return text
	}
	return fmt.Sprintf("%s Default: %s.", text, v.Default)
}

// exit is how kong ends after showing help or the version.
type exit int

// usage makes a fault of the command line bad input, with where to look.
func usage(err error) error {
	command := "weir"
	if at := (*kong.ParseError)(nil); errors.As(err, &at) && at.Context != nil {
		if node := at.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	return badInput(fmt.Errorf("%w; see %s --help", err, command))
}

// inputError is bad usage or bad input, as opposed to a run that failed.
type inputError struct{ err error }

// Error implements error.
func (e *inputError) Error() string { return e.err.Error() }

// Unwrap returns what was found.
func (e *inputError) Unwrap() error { return e.err }

// badInput marks an error as bad usage or bad input; nil stays nil.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err}
}

// faultsError is faults of a file, one a line, each with its own place.
type faultsError struct{ err error }

// Error implements error.
func (e *faultsError) Error() string { return e.err.Error() }

// Unwrap returns what was found.
func (e *faultsError) Unwrap() error { return e.err }

// badFile marks an error as the faults of a file.
func badFile(err error) error {
	if err == nil {
		return nil
	}
	return badInput(&faultsError{err})
}

// tellFault writes an error for people and returns the exit code.
func tellFault(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	text := strings.TrimSpace(err.Error())
	if faults := (*faultsError)(nil); errors.As(err, &faults) {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintln(w, line)
		}
	} else {
		fmt.Fprintf(w, "weir: %s\n", strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' }), "; "))
	}
	if input := (*inputError)(nil); errors.As(err, &input) {
		return exitUsage
	}
	return exitFailed
}

// version returns what the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	return v
}
