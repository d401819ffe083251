package memory_test

// The abstract model of the protocol of docs/state-machine.md: one main
// thread, two senders, two workers, keepers (sweep and reconcile), Temporal.
// Store transactions are atomic; between any two steps anything may happen.

const (
	modelMsgs  = 3
	modelSlots = 2
)

// Entry, turn and run states.
const (
	none = iota
	waiting
	taken
)

const (
	turnOpen = iota + 1
	turnCompleted
	turnTerminated
)

const (
	runOpen = iota + 1
	runCompleted
	runTerminated
)

// Phases of an open run: an activity is outstanding, a workflow task is
// pending, or a workflow task's closing command is about to be committed.
const (
	phTake = iota + 1
	phModel
	phClose
	phEnd       // workflow task: nothing was left to do
	phNext      // workflow task: the close claimed a next turn
	phCommitEnd // command: complete
	phCommitCAN // command: continue as new
)

// Results of an activity attempt.
const (
	resNothing = iota
	resTurn
	resStale
)

// slot is one attempt of an activity in a worker's memory. A crashed worker's
// slot is empty; a paused one keeps it and may go on at any time.
type slot struct {
	kind  uint8 // phTake, phModel, phClose; 0 = free
	turn  uint8
	pc    uint8
	res   uint8
	cur   bool // it is the attempt the server waits for
	scope bool // it belongs to the activity the server waits for
	lower bool // a later attempt of its activity has begun
}

type model struct {
	entry [modelMsgs]uint8
	queue [modelMsgs]uint8 // messages+1 in order of arrival
	turn  [modelMsgs]uint8
	next  [modelMsgs]uint8 // what the close of a turn returned
	open  uint8            // message+1 of the open turn
	// The model call of the open turn: which slot's attempt is current, and
	// whether a reply is stored.
	holder uint8
	stored bool

	sender [2]uint8 // 2*position in the script + phase

	run    uint8
	phase  uint8
	wturn  uint8 // the turn the run works on
	signal bool  // a signal no workflow task has seen
	nudged bool  // a signal was seen since the last claim was scheduled

	slots [modelSlots]slot

	nudge  bool // a keeper is about to signal
	seen   bool // the open turn was sighted once without an open run
	kclose bool // a keeper is about to close the open turn

	// Ghosts: they only record.
	answers     [modelMsgs]uint8
	opened      [modelMsgs]uint8
	excuse      [modelMsgs]bool // its run was terminated
	late        [modelMsgs]bool // claimed after a termination, by a late worker, before a live nudge
	staleWrite  bool
	twoOpen     bool
	terms       uint8
	crashSender bool
	crashKeeper bool
}

// rules are the protocol with its mutations.
type rules struct {
	scripts  [2][]uint8 // the messages each sender sends, in order
	maxTerms uint8

	noAttemptFence    bool // SaveReply checks the turn only
	noTurnFence       bool // CloseTurn of a closed turn writes again
	splitClose        bool // close and claim are two transactions
	nudgeFirst        bool // the sender signals before it commits
	noDrain           bool // a run completes without looking at its signals
	noSweep           bool
	firstSighting     bool // reconcile does not wait for a second sighting
	anyEnd            bool // reconcile does not ask how the last run ended
	reconcileClaims   bool // reconcile takes the next entry, which no run works on
	sendNotIdempotent bool
}

// edge kinds.
const (
	edgeNormal = 1 << iota
	edgeFault
	edgeKeeper
)

type stepFunc func(to model, kind uint8)

// steps calls yield for every step possible in m.
func (r *rules) steps(m model, yield stepFunc) {
	r.senderSteps(m, yield)
	r.workerSteps(m, yield)
	r.workflowSteps(m, yield)
	r.keeperSteps(m, yield)
	if m.run == runOpen && m.terms < r.maxTerms {
		n := m
		n.endRun(runTerminated)
		n.terms++
		if n.open != 0 {
			n.excuse[n.open-1] = true
		}
		yield(n, edgeFault)
	}
}

func (r *rules) senderSteps(m model, yield stepFunc) {
	for i := range m.sender {
		pos, second := m.sender[i]/2, m.sender[i]%2 == 1
		if int(pos) >= len(r.scripts[i]) {
			continue
		}
		msg := r.scripts[i][pos]
		n := m
		if second {
			// A crash: the sender's program is started again with its next message.
			n.sender[i], n.crashSender = 2*(pos+1), true
			yield(n, edgeFault)
			n = m
		}
		n.sender[i]++
		switch {
		case r.nudgeFirst && !second:
			if m.open == 0 {
				n.signalWithStart()
			}
		case r.nudgeFirst || !second:
			n.send(r, msg)
			if !r.nudgeFirst && (n.open != 0 || n.entry[msg] != waiting) {
				n.sender[i]++ // not idle: nothing to nudge
			}
		default:
			n.signalWithStart()
		}
		yield(n, edgeNormal)
	}
}

func (m *model) send(r *rules, msg uint8) {
	if m.entry[msg] != none && !r.sendNotIdempotent {
		return
	}
	if m.entry[msg] == none {
		for i := range m.queue {
			if m.queue[i] == 0 {
				m.queue[i] = msg + 1
				break
			}
		}
	}
	m.entry[msg] = waiting
}

// claim takes the oldest waiting entry for an activity, or for a keeper.
func (m *model) claim(r *rules, activity bool) {
	nudged := m.livesNudger(r)
	if m.open != 0 {
		m.twoOpen = true
	}
	m.close()
	for _, q := range m.queue {
		if q == 0 || m.entry[q-1] != waiting {
			continue
		}
		msg := q - 1
		m.entry[msg] = taken
		m.turn[msg] = turnOpen
		m.opened[msg] = min(m.opened[msg]+1, 2)
		m.open = q
		if activity && m.run == runTerminated {
			// A late worker of a terminated run. A message that nobody is about
			// to nudge for had its run terminated as it waited.
			m.excuse[msg], m.late[msg] = !nudged, nudged
		}
		return
	}
}

// close forgets what is kept about the open turn only.
func (m *model) close() {
	m.open, m.holder, m.stored, m.seen, m.kclose = 0, 0, false, false, false
}

func (m *model) signalWithStart() {
	if m.run == runOpen {
		m.signal = true
		return
	}
	m.run, m.phase, m.wturn, m.signal, m.nudged = runOpen, phTake, 0, false, false
}

// endRun leaves attempts of the run in their workers.
func (m *model) endRun(how uint8) {
	m.run, m.phase, m.wturn, m.signal, m.nudged = how, 0, 0, false, false
	m.leaveActivity()
}

func (m *model) leaveActivity() {
	for i := range m.slots {
		if m.slots[i].cur, m.slots[i].scope = false, false; m.slots[i].pc == 2 {
			m.drop(i)
		}
	}
}

func (r *rules) workerSteps(m model, yield stepFunc) {
	out, free := false, -1
	for i, s := range m.slots {
		out = out || s.cur
		if s.kind == 0 {
			free = i
			continue
		}
		n := m // crash
		n.drop(i)
		yield(n, edgeFault)
		if s.cur { // time-out: the server gives the attempt up, its worker does not know
			n = m
			if n.slots[i].cur = false; s.pc == 2 {
				n.drop(i) // only its report was left, and nobody waits for it
			}
			yield(n, edgeFault)
		}
		n = m
		n.attempt(r, i)
		yield(n, edgeNormal)
	}
	if m.run == runOpen && m.phase <= phClose && !out && free >= 0 {
		n := m
		n.slots[free] = slot{kind: m.phase, turn: m.wturn, cur: true, scope: true}
		yield(n, edgeNormal)
	}
}

func (m *model) drop(i int) {
	if m.holder == uint8(i+1) {
		m.holder = 0
	}
	m.slots[i] = slot{}
}

// attempt is the next step of an activity attempt.
func (m *model) attempt(r *rules, i int) {
	s := &m.slots[i]
	switch {
	case s.pc == 2:
		m.report(i)
		return
	case s.kind == phTake:
		if m.open == 0 {
			m.claim(r, true)
		}
		s.res, s.turn, s.pc = resNothing, m.open, 2
		if m.open != 0 {
			s.res = resTurn
		}
	case s.kind == phModel && s.pc == 0:
		switch {
		case m.open != s.turn || s.lower:
			s.res, s.pc = resStale, 2
		case m.stored:
			s.res, s.pc = resTurn, 2
		default:
			m.holder, s.pc = uint8(i+1), 1
			for j := range m.slots {
				o := &m.slots[j]
				if j != i && o.kind == phModel && o.scope && s.scope && s.cur {
					o.lower = true
				}
			}
		}
	case s.kind == phModel:
		s.res, s.pc = resStale, 2
		if m.open == s.turn && (m.holder == uint8(i+1) || r.noAttemptFence) {
			m.staleWrite = m.staleWrite || m.holder != uint8(i+1)
			m.stored, m.holder = true, 0
			s.res = resTurn
		}
	case s.kind == phClose && s.pc == 1: // second transaction of a split close
		if m.open == 0 {
			m.claim(r, true)
		}
		m.next[s.turn-1] = m.open
		s.turn, s.pc = m.open, 2
	case s.kind == phClose:
		msg := s.turn - 1
		s.pc = 2
		if m.open == s.turn || r.noTurnFence {
			m.answers[msg] = min(m.answers[msg]+1, 2)
			m.turn[msg] = turnCompleted
			if r.splitClose {
				m.close()
				s.pc = 1
				break
			}
			m.open = 0
			m.claim(r, true)
			m.next[msg] = m.open
		}
		s.turn = m.next[msg]
		if r.splitClose {
			s.turn = 0 // a repeated close knows nothing of the claim
		}
	}
	if s.pc == 2 && !s.cur {
		m.drop(i) // nobody waits for its report
	}
}

// report completes an activity at the server.
func (m *model) report(i int) {
	s := m.slots[i]
	m.drop(i)
	m.leaveActivity()
	switch s.kind {
	case phTake:
		m.phase = phEnd
		if s.res == resTurn {
			m.phase, m.wturn = phModel, s.turn
		}
	case phModel:
		m.phase = phClose
		if s.res == resStale { // the turn is closed or another attempt is current: back to the claim
			m.phase, m.wturn, m.nudged = phTake, 0, false
		}
	case phClose:
		m.phase, m.wturn = phEnd, 0
		if s.turn != 0 {
			m.phase = phNext
		}
	}
	if m.phase == phModel || m.phase == phClose {
		// Their workflow task sees the signals so far.
		m.nudged = m.phase == phModel && (m.nudged || m.signal)
		m.signal = false
	}
}

func (r *rules) workflowSteps(m model, yield stepFunc) {
	if m.run != runOpen {
		return
	}
	n := m
	switch m.phase {
	case phEnd: // a workflow task reads all signals
		n.nudged, n.signal = m.nudged || m.signal, false
		n.phase = phCommitEnd
		if n.nudged && !r.noDrain {
			n.phase, n.nudged = phTake, false
		}
	case phNext:
		n.nudged, n.signal, n.phase = m.nudged || m.signal, false, phCommitCAN
	case phCommitEnd:
		if m.signal && !r.noDrain { // refused: the workflow task is repeated
			n.phase = phEnd
			break
		}
		n.endRun(runCompleted)
	case phCommitCAN:
		if m.signal {
			n.phase = phNext
			break
		}
		n.endRun(runCompleted)
		n.signalWithStart()
	default:
		return
	}
	yield(n, edgeNormal)
}

func (r *rules) keeperSteps(m model, yield stepFunc) {
	if m.nudge || m.seen || m.kclose {
		n := m
		n.crashKeeper = m.crashKeeper || m.nudge
		n.nudge, n.seen, n.kclose = false, false, false
		yield(n, edgeFault)
	}
	if m.nudge {
		n := m
		n.nudge = false
		n.signalWithStart()
		yield(n, edgeNormal|edgeKeeper)
	}
	if !r.noSweep && !m.nudge && m.open == 0 && m.hasWaiting() {
		n := m
		n.nudge = true
		yield(n, edgeNormal|edgeKeeper)
	}
	if m.kclose {
		n := m
		msg := m.open - 1
		n.turn[msg] = turnTerminated
		n.close()
		if r.reconcileClaims {
			n.claim(r, false)
			n.nudge = n.nudge || n.open != 0
		}
		n.next[msg] = n.open
		yield(n, edgeNormal|edgeKeeper)
	}
	if m.open == 0 || m.run == runOpen || m.kclose {
		return
	}
	n := m
	switch {
	case !m.seen && !r.firstSighting:
		n.seen = true
	case m.livesNudger(r) && !r.firstSighting:
		return // 10 s are enough for a live process to signal
	case m.run == runCompleted && !r.anyEnd:
		n.nudge, n.seen = true, false // claimed by a late worker of a run that ended well
	default:
		n.kclose, n.seen = true, false
	}
	yield(n, edgeNormal|edgeKeeper)
}

func (m *model) livesNudger(r *rules) bool {
	for i, pc := range m.sender {
		if pc%2 == 1 && int(pc/2) < len(r.scripts[i]) {
			return true
		}
	}
	return m.nudge
}

func (m *model) hasWaiting() bool {
	for _, e := range m.entry {
		if e == waiting {
			return true
		}
	}
	return false
}

// canonical makes states equal that differ only in the names of the workers.
func (m model) canonical() model {
	if slotKey(m.slots[0]) < slotKey(m.slots[1]) {
		m.slots[0], m.slots[1] = m.slots[1], m.slots[0]
		if m.holder != 0 {
			m.holder = 3 - m.holder
		}
	}
	return m
}

func slotKey(s slot) int {
	k := int(s.kind)<<9 | int(s.turn)<<7 | int(s.pc)<<5 | int(s.res)<<3
	for i, b := range []bool{s.cur, s.scope, s.lower} {
		if b {
			k |= 1 << i
		}
	}
	return k
}

// broken names the safety rule that does not hold in m, or nothing.
func (m *model) broken() string {
	openTurns := 0
	for i := range modelMsgs {
		switch {
		case m.entry[i] == taken && m.turn[i] == none:
			return "a message is in no turn and not in the inbox"
		case m.entry[i] != taken && m.turn[i] != none:
			return "a message is in a turn and in the inbox"
		case m.opened[i] > 1:
			return "a message opened two turns"
		case m.answers[i] > 1:
			return "a message was answered twice"
		case m.answers[i] == 1 && m.turn[i] != turnCompleted:
			return "an answered turn is not completed"
		case m.turn[i] == turnTerminated && !m.excuse[i] && !(m.late[i] && (m.crashKeeper || m.crashSender)):
			return "a turn was closed as terminated though its run was not"
		}
		if m.turn[i] == turnOpen {
			openTurns++
		}
	}
	switch {
	case openTurns > 1 || m.twoOpen:
		return "two turns of a thread are open"
	case m.staleWrite:
		return "a stale write was accepted"
	}
	return ""
}

// settled: everything sent is answered, or closed after a termination.
func (m *model) settled(r *rules) bool {
	if m.open != 0 || m.run == runOpen || m.slots[0].kind != 0 || m.slots[1].kind != 0 || m.hasWaiting() {
		return false
	}
	for i, pc := range m.sender {
		if int(pc/2) < len(r.scripts[i]) {
			return false
		}
	}
	return true
}
