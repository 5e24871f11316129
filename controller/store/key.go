package store

import "encoding/binary"

// The first bytes of the keys.
const (
	prefixLayout   = 'v'
	prefixPosition = 'p'
	prefixPart     = 's'
	prefixDecision = 'd'
	prefixSnapshot = 'n'
	prefixSample   = 'h'
)

func keyLayout() []byte   { return []byte{prefixLayout} }
func keyPosition() []byte { return []byte{prefixPosition} }

func appendPartKey(b []byte, part string) []byte {
	return append(append(b, prefixPart), part...)
}

func appendDecisionKey(b []byte, seq uint64, n uint32) []byte {
	b = binary.BigEndian.AppendUint64(append(b, prefixDecision), seq)
	return binary.BigEndian.AppendUint32(b, n)
}

// decisionOf is the inverse of appendDecisionKey.
func decisionOf(key []byte) (seq uint64, n uint32, ok bool) {
	if len(key) != 13 || key[0] != prefixDecision {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:]), true
}

func snapshotKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixSnapshot}, seq)
}

// snapshotOf is the inverse of snapshotKey.
func snapshotOf(key []byte) (seq uint64, ok bool) {
	if len(key) != 9 || key[0] != prefixSnapshot {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), true
}
