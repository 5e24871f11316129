package events_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

// older returns a sample without what additions brought, as a version before
// them knew it. A sample that uses a new addition must be told of here.
func older(t *testing.T, name string, v any) any {
	t.Helper()
	switch v := v.(type) {
	case *model.Attempts:
		v.Pools = slices.Clone(v.Pools)
		for i := range v.Pools {
			v.Pools[i].Next = 0
		}
	case *model.ParamSet:
		v.Canary, v.Guard = "", model.Guard{}
	case *model.Lease:
		v.Pools = slices.Clone(v.Pools)
		for i := range v.Pools {
			v.Pools[i].Scarce = false
		}
	case *model.LimitSet:
		v.Quotas, v.Channels = nil, slices.Clone(v.Channels)
		for i := range v.Channels {
			v.Channels[i].Spent = false
		}
	case *model.Config:
		for i := range v.Tenants {
			c := &v.Tenants[i]
			*c = model.TenantConfig{
				Name: c.Name, Priority: c.Priority, Share: c.Share, TokensPerDaySoft: c.TokensPerDaySoft, TokensPerDayHard: c.TokensPerDayHard,
				CostPerDaySoft: c.CostPerDaySoft, CostPerDayHard: c.CostPerDayHard,
			}
		}
		v.By, v.Why = "", ""
	default:
		t.Errorf("%s has an addition that this test does not know", name)
	}
	return v
}

// TestOlderReader holds that a reader from before an addition finds in today's
// bytes all that it knows, where it looks for it: what was added stands behind
// it, and only the count of additions differs.
func TestOlderReader(t *testing.T) {
	all, before := allSamples(), allSamples()
	added := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		today := encodeAny(name, all[name])
		if today[0]&15 == 0 {
			continue
		}
		added++
		then := encodeAny(name, older(t, name, before[name]))
		if then[0]&15 != 0 {
			t.Errorf("%s uses addition %d without its fields", name, then[0]&15)
		}
		if !bytes.HasPrefix(today[1:], then[1:]) {
			t.Errorf("%s: an older reader does not find what it knows:\nwas %x\nnow %x", name, then, today)
		}
	}
	if added < 5 {
		t.Errorf("only %d samples use additions", added)
	}
}

// TestNewerWriter holds that today's reader takes every kind from a newer
// version of its generation, which added to the end of each section and a
// section of its own.
func TestNewerWriter(t *testing.T) {
	all := allSamples()
	// These lack sections of today's additions, which a newer version writes;
	// their kinds have another sample, which is complete.
	for _, name := range []string{"attempts", "alive", "config", "tenants", "params", "out-limits", "out-lease"} {
		delete(all, name)
	}
	all["out-config"] = all["pushed"]
	kinds := map[byte]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data := encodeAny(name, all[name])
		kinds[data[1]] = true
		newer := grown(t, name, data)
		want, err := decodeAny(name, data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAny(name, newer)
		if err != nil {
			t.Errorf("%s of a newer version: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of a newer version means something else (-want +got):\n%s", name, diff)
		}
	}
	if len(kinds) != 12 { // of facts and outputs
		t.Errorf("%d kinds are looked at", len(kinds))
	}
}

// grown returns an entry as a newer version might write it.
func grown(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	out := []byte{data[0] | 15, data[1]}
	for rest := data[2:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			t.Fatalf("%s is not made of sections", name)
		}
		out = binary.AppendUvarint(out, size+2)
		out = append(append(out, rest[n:n+int(size)]...), 0xff, 0xff)
		rest = rest[n+int(size):]
	}
	return append(out, 3, 1, 2, 3)
}
