package tune

import "math"

// worse is the probability that differences as far above zero as these come
// from a law symmetric about zero: F. Wilcoxon's signed-rank test, one-sided,
// exact up to exactRanks differences and by the normal law beyond. Zeros have
// no rank.
func worse(d []float64) float64 {
	ranks, plus, total := signedRanks(d)
	if len(ranks) == 0 {
		return 1
	}
	if len(ranks) > exactRanks {
		squares := 0.0
		for _, r := range ranks {
			squares += float64(r * r)
		}
		return 0.5 * math.Erfc((float64(plus)-float64(total)/2-0.5)/math.Sqrt(squares/4)/math.Sqrt2)
	}
	ways := make([]float64, total+1) // ways to reach a sum of positive ranks
	ways[0] = 1
	for _, r := range ranks {
		for s := total; s >= r; s-- {
			ways[s] += ways[s-r]
		}
	}
	tail := 0.0
	for s := plus; s <= total; s++ {
		tail += ways[s]
	}
	return tail / math.Pow(2, float64(len(ranks)))
}

// exactRanks bounds what is counted out.
const exactRanks = 16

// signedRanks returns twice the rank of each difference that is not zero,
// equal ones with the middle of theirs, and the sum of the positive ones'.
func signedRanks(d []float64) (ranks []int, plus, total int) {
	for _, v := range d {
		if v == 0 {
			continue
		}
		below, same := 0, 0
		for _, u := range d {
			switch {
			case u == 0:
			case math.Abs(u) < math.Abs(v):
				below++
			case math.Abs(u) == math.Abs(v):
				same++
			}
		}
		r := 2*below + same + 1
		ranks = append(ranks, r)
		total += r
		if v > 0 {
			plus += r
		}
	}
	return ranks, plus, total
}

// student is the 97.5 % quantile of Student's t: the factor of a two-sided
// 95 % interval.
func student(df int) float64 {
	table := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	switch {
	case df < 1:
		return math.Inf(1)
	case df <= len(table):
		return table[df-1]
	}
	// The first terms of Cornish and Fisher's expansion.
	const z = 1.959964
	n := float64(df)
	return z + (z*z*z+z)/(4*n) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*n*n)
}

// jackknife returns the 95 % interval of a figure over n independent groups by
// leaving out one at a time, about the figure over all (B. Efron, "The Jackknife, the Bootstrap and Other
// Resampling Plans", 1982); figure(-1) leaves out none.
func jackknife(n int, figure func(without int) float64) (all, low, high float64) {
	all = figure(-1)
	sum, squares := 0.0, 0.0
	for i := range n {
		pseudo := float64(n)*all - float64(n-1)*figure(i)
		sum += pseudo
		squares += pseudo * pseudo
	}
	m := sum / float64(n)
	spread := math.Sqrt(max(0, squares/float64(n)-m*m)/float64(max(1, n-1))) * student(n-1)
	if n < 2 {
		spread = math.Inf(1)
	}
	return all, all - spread, all + spread
}
