package calibrate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a request log.
const (
	maxLine    = 1 << 20 // bytes of one line; a longer one is broken
	maxBytes   = 8 << 30 // of a whole log, unpacked
	maxDepth   = 6       // of objects within a line
	maxShown   = 20      // broken lines that are listed
	maxColumns = 256
)

// ReadOptions say how a request log is to be understood.
type ReadOptions struct {
	// Columns maps fields to columns that the log names otherwise; a nested
	// one is written with dots.
	Columns map[Field]string
	// TimeIsEnd is set when the column of time says when a call ended.
	TimeIsEnd bool
	// Channel is the name for calls whose line names none.
	Channel string
}

// ReadResult is what became of the lines.
type ReadResult struct {
	Lines  uint64 `json:"lines"`
	Calls  uint64 `json:"calls"`
	Broken uint64 `json:"broken"`
	// First are the first broken lines.
	First []BrokenLine `json:"first_broken"`
}

// BrokenLine is a line that is no call.
type BrokenLine struct {
	Line   uint64 `json:"line"`
	Reason string `json:"reason"`
}

func (r *ReadResult) broken(line uint64, err error) {
	r.Broken++
	if len(r.First) < maxShown {
		r.First = append(r.First, BrokenLine{line, err.Error()})
	}
}

// ErrNoTime says that a log has no column of time.
var ErrNoTime = errors.New("no column says when a call was sent, so neither load nor arrivals are known; map one with --column time=NAME, and see weir log export --times")

// Read reads a request log, CSV with a header line or an object a line, packed
// with gzip or not, into l. A line that cannot be read is counted and listed;
// only a log that cannot be read at all is an error.
func Read(in io.Reader, l *Log, o ReadOptions) (ReadResult, error) {
	in, err := unpacked(in)
	res := ReadResult{First: []BrokenLine{}}
	if err != nil {
		return res, err
	}
	r := &lineReader{in: bufio.NewReaderSize(io.LimitReader(in, maxBytes+1), 64<<10)}
	p := &parser{o: o}
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLong) {
			if res.Calls > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
				res.broken(r.line, errors.New("the file is cut off here"))
				break
			}
			return res, fmt.Errorf("read line %d: %w", r.line, err)
		}
		if r.read > maxBytes {
			return res, fmt.Errorf("read line %d: the log is larger than %d GiB unpacked", r.line, maxBytes>>30)
		}
		if len(bytes.TrimSpace(line)) == 0 && err == nil {
			continue
		}
		res.Lines++
		if err == nil {
			err = p.line(line, l)
		}
		switch {
		case errors.Is(err, errHeader):
			res.Lines--
		case errors.Is(err, ErrNoTime):
			return res, err
		case err != nil:
			res.broken(r.line, err)
		default:
			res.Calls++
		}
	}
	return res, nil
}
