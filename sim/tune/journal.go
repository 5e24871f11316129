package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Journal is a study's file: JSON lines, each a record and its checksum. It
// only grows. A study replays the records it finds, in order, and appends what
// comes after them.
type Journal struct {
	tape []record
	read int
	out  io.Writer
}

// maxLine bounds a record.
const maxLine = 1 << 20

// sealed is one line.
type sealed struct {
	CRC string          `json:"crc"`
	Rec json.RawMessage `json:"rec"`
}

// record is one of its fields.
type record struct {
	Study *header `json:"study,omitempty"`
	Ask   *ask    `json:"ask,omitempty"`
	Run   *run    `json:"run,omitempty"`
}

// header is what a study is: with another header it is another study.
type header struct {
	Format    int        `json:"format"`
	Laws      uint64     `json:"laws"`
	Trials    int        `json:"trials"`
	Seeds     int        `json:"seeds"`
	Seed      uint64     `json:"seed"`
	InForce   point      `json:"in_force"`
	Names     []string   `json:"names"`
	Only      []string   `json:"only,omitempty"`
	Incidents []Incident `json:"incidents"`
	Weights   Weights    `json:"weights"`
	Tail      float64    `json:"tail"`
	Cold      bool       `json:"cold,omitempty"`
	World     string     `json:"world,omitempty"`
}

// ask is trials that the search asked for, and the state it did so in.
type ask struct {
	First  int       `json:"first"`
	Kind   string    `json:"kind"`
	Points []point   `json:"points"`
	State  *CMAState `json:"state,omitempty"`
}

// run is one job and what it came to.
type run struct {
	Params   string `json:"params"`
	Incident int    `json:"incident"`
	Seed     uint64 `json:"seed"`
	Losses   Losses `json:"losses"`
	Broken   string `json:"broken,omitempty"`
	Digest   uint64 `json:"digest"`
}

// ErrOther is returned when a journal is of another study than the one asked
// for, or was written by a build whose laws or search differ.
var ErrOther = errors.New("the study in the file is another one")

// NewJournal returns an empty journal that appends to out; nil keeps nothing.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out} }

// OpenJournal reads what a journal holds. It returns the length of what can be
// used: a last line that was torn is not part of it, and the caller cuts the
// file there before it appends to out. A fault anywhere else is an error.
func OpenJournal(in io.Reader, out io.Writer) (*Journal, int64, error) {
	j := &Journal{out: out}
	good := int64(0)
	lines := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		line, whole, err := readLine(lines)
		if err != nil {
			return nil, 0, fmt.Errorf("read line %d of the study: %w", number, err)
		}
		if len(line) == 0 && !whole {
			return j, good, nil
		}
		rec, err := open(line)
		if err != nil {
			if _, more := lines.Peek(1); errors.Is(more, io.EOF) {
				return j, good, nil // torn: the end of a process ended it
			}
			return nil, 0, fmt.Errorf("line %d of the study: %w", number, err)
		}
		if !whole {
			return j, good, nil
		}
		j.tape = append(j.tape, rec)
		good += int64(len(line)) + 1
	}
}

// readLine returns a line without its end; whole says whether it had one.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case errors.Is(err, io.EOF):
			return line, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		case len(line) > maxLine:
			return nil, false, fmt.Errorf("it is longer than %d bytes", maxLine)
		}
	}
}

// open checks a line and decodes it.
func open(line []byte) (rec record, err error) {
	var s sealed
	if err := json.Unmarshal(line, &s); err != nil {
		return rec, fmt.Errorf("it is no record: %w", err)
	}
	if got := checksum(s.Rec); got != s.CRC {
		return rec, fmt.Errorf("its checksum is %s, it says %q", got, s.CRC)
	}
	if err := json.Unmarshal(s.Rec, &rec); err != nil {
		return rec, fmt.Errorf("decode record: %w", err)
	}
	return rec, nil
}

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)) }

// next returns the record to replay, nil when there is none left.
func (j *Journal) next() *record {
	if j.read == len(j.tape) {
		return nil
	}
	j.read++
	return &j.tape[j.read-1]
}

// replaying reports whether records are left to replay.
func (j *Journal) replaying() bool { return j.read < len(j.tape) }

// keep appends a record, or finds the same one on the tape.
func (j *Journal) keep(rec record) error {
	if j.out == nil && !j.replaying() {
		return nil
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if old := j.next(); old != nil {
		was, err := json.Marshal(*old)
		if err != nil {
			return fmt.Errorf("encode record: %w", err)
		}
		if string(was) != string(text) {
			return fmt.Errorf("%w: record %d differs", ErrOther, j.read)
		}
		return nil
	}
	if j.out == nil {
		return nil
	}
	if _, err := fmt.Fprintf(j.out, "{\"crc\":%q,\"rec\":%s}\n", checksum(text), text); err != nil {
		return fmt.Errorf("append to the study: %w", err)
	}
	return nil
}
