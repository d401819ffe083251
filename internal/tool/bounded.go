package tool

import "sync"

// bounded keeps the first and the last bytes of a stream, so that a command
// that prints without end costs no more memory than one that does not.
type bounded struct {
	mu    sync.Mutex
	half  int
	head  []byte
	tail  []byte // a ring once full
	start int    // of the oldest byte in tail
	total int64
}

func newBounded(limit int) *bounded { return &bounded{half: limit / 2} }

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	b.total += int64(n)
	take := min(len(p), b.half-len(b.head))
	b.head = append(b.head, p[:take]...)
	p = p[take:]
	if len(p) > b.half {
		p = p[len(p)-b.half:]
	}
	if grow := min(len(p), b.half-len(b.tail)); grow > 0 {
		b.tail = append(b.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		c := copy(b.tail[b.start:], p)
		b.start = (b.start + c) % len(b.tail)
		p = p[c:]
	}
	return n, nil
}

// String returns what was kept, with a note in place of what was not.
func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	head := string(b.head)
	tail := string(b.tail[b.start:]) + string(b.tail[:b.start])
	lost := b.total - int64(len(head)) - int64(len(tail))
	if lost == 0 {
		return head + tail
	}
	h, t := wholeEnd(head), wholeStart(tail)
	return h + omitted(lost+int64(len(head)-len(h)+len(tail)-len(t))) + t
}
