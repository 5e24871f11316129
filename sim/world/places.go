package world

import "weir/sim/incident"

// places are the incident's names resolved once.
type places struct {
	// services is the provider of a channel, first the first channel of a
	// workload's route; -1 for none.
	services, first []int32
}

func newPlaces(inc *incident.Incident) places {
	var p places
	for i := range inc.Channels {
		p.services = append(p.services, providerNamed(inc, inc.Channels[i].Provider))
	}
	for i := range inc.Workloads {
		p.first = append(p.first, firstOf(inc, inc.Workloads[i].Route))
	}
	return p
}

func providerNamed(inc *incident.Incident, name string) int32 {
	for i := range inc.Providers {
		if inc.Providers[i].Name == name {
			return int32(i)
		}
	}
	return -1
}

// firstOf returns the first channel of a route.
func firstOf(inc *incident.Incident, route string) int32 {
	for i := range inc.Routes {
		if inc.Routes[i].Name != route {
			continue
		}
		for _, t := range inc.Routes[i].Tiers {
			if len(t.Channels) > 0 {
				return channelNamed(inc, t.Channels[0].Channel)
			}
		}
	}
	return -1
}

func channelNamed(inc *incident.Incident, name string) int32 {
	for i := range inc.Channels {
		if inc.Channels[i].Name == name {
			return int32(i)
		}
	}
	return -1
}

// firstChannel is the first channel of the workload's route.
func (w *world) firstChannel(workload int) string {
	k := w.places.first[workload]
	if k < 0 {
		panic("world: BUG: route " + w.inc.Workloads[workload].Route + " has no channel")
	}
	return w.inc.Channels[k].Name
}

// firstService is the provider of the first channel of the workload's route.
func (w *world) firstService(workload int) int32 {
	if k := w.places.first[workload]; k >= 0 && w.places.services[k] >= 0 {
		return w.places.services[k]
	}
	return w.service(w.firstChannel(workload))
}

// service is the provider of a channel.
func (w *world) service(channel string) int32 {
	k := channelNamed(w.inc, channel)
	if k < 0 || w.places.services[k] < 0 {
		panic("world: BUG: channel " + channel + " has no provider")
	}
	return w.places.services[k]
}
