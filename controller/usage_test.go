package controller

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

func TestUsage(t *testing.T) {
	config := &model.Config{
		Channels: []model.ChannelConfig{{Name: "a", Price: model.Price{Input: 1_000_000, Cached: 100_000, Output: 4_000_000}}, {Name: "b"}},
		Tenants:  []model.TenantConfig{{Name: "x"}},
	}
	report := &model.Attempts{
		Channels: []model.ChannelReport{{Channel: "a"}, {Channel: "b"}, {Channel: "gone"}},
		Attempts: []model.Attempt{
			{Tenant: "x", In: 1000, Cached: 400, Out: 100},
			{Tenant: "x", In: 1000, Cached: 5000, Out: -7}, // more cached than there is, less than none out
			{Tenant: "x", Channel: 1, In: 5},
			{Tenant: "made up", Channel: 0, In: 1_000_000},
			{Tenant: "made up too", Channel: 2, In: 3},
			{Tenant: "x", Channel: 999, In: 2},
			{Tenant: "x"},
			{Tenant: "x", In: math.MinInt64, Out: math.MinInt64},
		},
	}
	var u usage
	u.count(config, report)
	var got []string
	for _, b := range u.all() {
		got = append(got, fmt.Sprintf("%s %s %d %.6f", b.tenant, b.channel, b.tokens, b.cost))
	}
	want := []string{
		"other  3 0.000000", "other a 1000000 1.000000",
		"x  2 0.000000", "x a 2100 0.001140", "x b 5 0.000000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}

	// Another configuration: what was counted stays, the price is the new one.
	u.count(&model.Config{Channels: []model.ChannelConfig{{Name: "a", Price: model.Price{Input: 2_000_000}}}}, report)
	for _, b := range u.all() {
		if b.tenant == otherTenant && b.channel == "a" && (b.tokens != 2_002_100 || b.cost < 3) {
			t.Errorf("after another configuration: %+v", b)
		}
	}
}

func TestUsageIsBounded(t *testing.T) {
	config := &model.Config{Channels: []model.ChannelConfig{{Name: "a"}}}
	var u usage
	for i := range 10_000 {
		name := fmt.Sprint("made up ", i)
		u.count(config, &model.Attempts{
			Channels: []model.ChannelReport{{Channel: name}}, Attempts: []model.Attempt{{Tenant: name, In: 1}},
		})
	}
	if len(u.lines) != 1 {
		t.Errorf("%d lines, want 1", len(u.lines))
	}
}
