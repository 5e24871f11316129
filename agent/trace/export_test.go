package trace

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// keeper keeps what is exported, after as many failures as are left.
type keeper struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
	fails []error
	tries int
	hang  bool // it never answers
}

func (k *keeper) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries++
	if k.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if len(k.fails) > 0 {
		err := k.fails[0]
		k.fails = k.fails[1:]
		return err
	}
	k.spans = append(k.spans, spans...)
	return nil
}

func (k *keeper) Shutdown(context.Context) error { return nil }

func (k *keeper) all() []sdktrace.ReadOnlySpan {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.spans
}

func count(t *testing.T, set *metrics.Set, result string) uint64 {
	t.Helper()
	return set.GetOrCreateCounter(`weir_trace_spans_total{result="` + result + `"}`).Get()
}

// spans makes n spans.
func spans(e *Exporter, n int) {
	tracer := New(e.Provider())
	for range n {
		tracer.Start(context.Background(), nil, time.Now()).End(Result{})
	}
}

func TestExporterTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &laterError{err: errors.New("down")}
		out := &keeper{fails: []error{down, down, down}}
		set, log := metrics.NewSet(), &bytes.Buffer{}
		e := export(Options{Metrics: set, Log: slog.New(slog.NewTextHandler(log, nil))}, out)
		spans(e, 3)
		time.Sleep(gather + 7*firstWait + time.Millisecond)
		if got := len(out.all()); got != 3 {
			t.Errorf("%d spans came after three failures, want 3", got)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := count(t, set, "sent"); got != 3 {
			t.Errorf("%d are counted as sent, want 3", got)
		}
		if got := strings.Count(log.String(), "do not reach"); got != 1 {
			t.Errorf("the trouble is logged %d times, want once:\n%s", got, log)
		}
		if !strings.Contains(log.String(), "again") {
			t.Errorf("nothing says that it is over:\n%s", log)
		}
	})
}

// TestExporterIsBounded fills the queue behind a collector that never answers:
// nobody waits for it, and what is lost is counted.
func TestExporterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		out := &keeper{hang: true}
		e := export(Options{Metrics: set}, out)
		spans(e, batchSize)
		synctest.Wait() // they hang
		spans(e, queueSize+10)
		if got := count(t, set, "dropped"); got != 10 {
			t.Errorf("%d are dropped, want 10", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returns %v, want its deadline", err)
		}
		if got, want := count(t, set, "failed"), uint64(batchSize+queueSize); got != want {
			t.Errorf("%d are counted as failed, want %d", got, want)
		}
	})
}

func TestExporterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		out := &keeper{fails: []error{errors.New("what you send is wrong")}}
		e := export(Options{Metrics: set}, out)
		spans(e, 2)
		time.Sleep(time.Hour)
		synctest.Wait()
		if out.tries != 1 || count(t, set, "failed") != 2 {
			t.Errorf("%d tries and %d failed, want 1 and 2", out.tries, count(t, set, "failed"))
		}
		for range maxTries {
			out.fails = append(out.fails, &laterError{errors.New("busy"), time.Hour})
		}
		spans(e, 1)
		time.Sleep(maxTries * lastWait)
		synctest.Wait()
		if out.tries != 1+maxTries || count(t, set, "failed") != 3 {
			t.Errorf("%d tries and %d failed, want %d and 3", out.tries, count(t, set, "failed"), 1+maxTries)
		}
		spans(e, 1)
		if err := e.Close(t.Context()); err != nil || len(out.all()) != 1 {
			t.Errorf("Close returns %v, %d came, want the last one", err, len(out.all()))
		}
	})
}
