package demo

import (
	"fmt"
	"time"

	"weir/cmd/weir/report"
	"weir/controller"
	"weir/model"
)

// mostDecisions bounds what the report lists; the journal has all.
const mostDecisions = 2000

// decisions adds the controller's decisions of a phase that began at an
// instant, as the store has them.
func decisions(loop *controller.Loop, phase *report.Phase, began time.Time) error {
	from := uint64(0)
	for {
		page, err := loop.Decisions(controller.DecisionQuery{From: from, Oldest: true, Limit: controller.MaxDecisions})
		if err != nil {
			return fmt.Errorf("read decisions: %w", err)
		}
		fresh := 0
		for i := range page {
			d := &page[i]
			if d.Seq < from {
				continue
			}
			fresh++
			if len(phase.Decisions) == mostDecisions {
				phase.DecisionsLeftOut++
				continue
			}
			phase.Decisions = append(phase.Decisions, decision(d, began))
		}
		if len(page) < controller.MaxDecisions || fresh == 0 {
			return nil
		}
		from = page[len(page)-1].Seq + 1
	}
}

func decision(d *controller.Decision, began time.Time) report.Decision {
	out := report.Decision{
		At:      (time.Duration(d.At) - time.Duration(began.UnixNano())).Seconds(),
		Channel: d.Channel, Rule: d.Rule, Reason: d.Reason,
	}
	if d.Channel == "" {
		out.Channel = d.Agent
	}
	if d.Before == d.After {
		return out
	}
	show := "%.0f → %.0f"
	before, after := float64(d.Before), float64(d.After)
	switch model.Rule(d.Rule) { //nolint:exhaustive // the others change no number
	case model.RuleWeight:
		show = "%.2f → %.2f"
		before, after = before/float64(model.One), after/float64(model.One)
	case model.RuleWindowCut, model.RuleLatencyCut:
		show = "%.1f → %.1f"
		before, after = before/1000, after/1000
	}
	out.Change = fmt.Sprintf(show, before, after)
	return out
}
