// Command weir is the whole of Weir in one binary: the controller, the sidecar,
// the emulated provider, the load, the simulator, and the operator's commands.
//
// Results go to standard output, progress and logs to standard error. It exits
// with 0 when all went well, with 1 when a run failed, and with 2 for bad usage
// or bad input, which it names in one line a fault. The first SIGINT or SIGTERM
// stops it in order, a second one at once.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
