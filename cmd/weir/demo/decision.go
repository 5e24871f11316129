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
func (s *stack) decisions(phase *report.Phase, began time.Time) error {
	from := uint64(0)
	for {
		page, err := s.loop.Decisions(controller.DecisionQuery{From: from, Oldest: true, Limit: controller.MaxDecisions})
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
	switch model.Rule(d.Rule) {
	case model.RuleWeight:
		out.Change = fmt.Sprintf("%.2f → %.2f", share64(d.Before), share64(d.After))
	case model.RuleWindowCut, model.RuleLatencyCut:
		out.Change = fmt.Sprintf("%.1f → %.1f", float64(d.Before)/1000, float64(d.After)/1000)
	default:
		out.Change = fmt.Sprintf("%d → %d", d.Before, d.After)
	}
	return out
}

func share64(ppm int64) float64 { return float64(ppm) / float64(model.One) }
