package simreport

import (
	"math"
	"slices"
)

// Spread is where a figure lies over the seeds. All are NaN, null in JSON, for
// no seed.
type Spread struct {
	N      int    `json:"n"`
	Least  Number `json:"least"`
	Low    Number `json:"low"` // a quarter of the seeds are below
	Median Number `json:"median"`
	High   Number `json:"high"` // a quarter of the seeds are above
	Most   Number `json:"most"`
	Mean   Number `json:"mean"`
}

// spreadOf sorts v.
func spreadOf(v []float64) Spread {
	if len(v) == 0 {
		n := Number(math.NaN())
		return Spread{Least: n, Low: n, Median: n, High: n, Most: n, Mean: n}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return Spread{
		N: len(v), Least: Number(v[0]), Low: quantile(v, 0.25), Median: quantile(v, 0.5), High: quantile(v, 0.75),
		Most: Number(v[len(v)-1]), Mean: Number(sum / float64(len(v))),
	}
}

// quantile is between the two nearest of a sorted list.
func quantile(v []float64, q float64) Number {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return Number(v[len(v)-1])
	}
	return Number(v[i] + (at-float64(i))*(v[i+1]-v[i]))
}

// Share is how many of N seeds had something, and the interval in which the
// probability lies with 95 % confidence after Wilson: with few seeds it is
// wide, and 0 of 5 is not never.
type Share struct {
	K    int    `json:"k"`
	N    int    `json:"n"`
	Low  Number `json:"low"`
	High Number `json:"high"`
}

func shareOf(k, n int) Share {
	if n == 0 {
		return Share{Low: 0, High: 1}
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Share{K: k, N: n, Low: Number(max(0, middle-half)), High: Number(min(1, middle+half))}
}
