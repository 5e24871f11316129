package calibrate

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// unpacked unpacks what begins as gzip does.
func unpacked(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		return z, nil
	}
	return b, nil
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// lineReader reads lines and passes over those that are too long.
type lineReader struct {
	in   *bufio.Reader
	long []byte
	line uint64
	read int64
}

// next returns the next line, good until the call after, or errLong.
func (r *lineReader) next() ([]byte, error) {
	r.line++
	r.long = r.long[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		r.read += int64(len(part))
		switch {
		case err == nil && len(r.long) == 0 && !tooLong:
			return part, nil
		case len(r.long)+len(part) > maxLine:
			tooLong = true
			r.long = r.long[:0]
		case !tooLong:
			r.long = append(r.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if r.read > maxBytes {
				return nil, errLong
			}
			continue
		case errors.Is(err, io.EOF) && len(r.long) == 0 && !tooLong:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case tooLong:
			return nil, errLong
		}
		return r.long, nil
	}
}

var errHeader = errors.New("a header")
