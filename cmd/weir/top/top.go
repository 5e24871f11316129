// Package top is a live view of a fleet in a terminal: the channels with what
// they take, and one channel's decisions. It only looks.
package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"weir/controller"
	"weir/model"
)

// Look is the fleet at a moment.
type Look struct {
	At       time.Time
	Fleet    string
	Leader   string
	Leads    bool
	Term     uint64
	Seq, Lag uint64
	Channels []model.FleetChannel
	Agents   int
}

// Fleet is what the view asks.
type Fleet interface {
	Look(ctx context.Context) (Look, error)
	// Decisions returns a channel's newest, or everybody's for "".
	Decisions(ctx context.Context, channel string) ([]controller.Decision, error)
}

// every is how often it looks.
const every = time.Second

// Model is the view, for a bubbletea program.
type Model struct {
	fleet         Fleet
	ctx           context.Context // of the command; a bubbletea command gets none
	width, height int
	now, before   Look
	fault         error
	at            int    // chosen row
	open          string // channel whose decisions are shown
	feed          []controller.Decision
}

// New returns the view of a fleet. ctx ends its questions.
func New(ctx context.Context, f Fleet) *Model {
	return &Model{fleet: f, ctx: ctx, width: 100, height: 30}
}

// seen and told are what commands bring.
type (
	seen struct {
		look Look
		err  error
	}
	told struct {
		channel   string
		decisions []controller.Decision
	}
	again struct{}
)

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return m.look() }

func (m *Model) look() tea.Cmd {
	return func() tea.Msg {
		l, err := m.fleet.Look(m.ctx)
		return seen{l, err}
	}
}

func (m *Model) ask() tea.Cmd {
	channel := m.open
	return func() tea.Msg {
		d, err := m.fleet.Decisions(m.ctx, channel)
		if err != nil {
			return nil // the next look says it
		}
		return told{channel, d}
	}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case seen:
		if m.fault = msg.err; msg.err == nil {
			m.before, m.now = m.now, msg.look
			m.at = min(m.at, max(len(m.now.Channels)-1, 0))
		}
		return m, tea.Batch(m.ask(), tea.Tick(every, func(time.Time) tea.Msg { return again{} }))
	case told:
		if msg.channel == m.open {
			m.feed = msg.decisions
		}
	case again:
		return m, m.look()
	}
	return m, nil
}

func (m *Model) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.at = max(m.at-1, 0)
	case "down", "j":
		m.at = min(m.at+1, max(len(m.now.Channels)-1, 0))
	case "enter", "right", "l":
		if m.at < len(m.now.Channels) {
			m.open, m.feed = m.now.Channels[m.at].Name, nil
			return m.ask()
		}
	case "esc", "left", "h":
		m.open, m.feed = "", nil
		return m.ask()
	}
	return nil
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	return v
}

// render draws the screen, no wider and no higher than it is.
func (m *Model) render() string {
	lines := m.head()
	rows, whole := m.table()
	why := m.why(whole)
	if most := max(m.height-len(lines)-len(why)-8, 3); len(rows) > most {
		first := min(max(m.at-most/2, 0), len(rows)-most)
		rows = append(rows[:1:1], rows[1+first:min(1+first+most-1, len(rows))]...)
	}
	lines = append(append(lines, rows...), why...)
	title := "decisions"
	if m.open != "" {
		title += " of " + m.open
	}
	lines = append(lines, "", bold(title))
	for i := 0; i < len(m.feed) && len(lines) < m.height; i++ {
		lines = append(lines, m.wrap(m.decision(&m.feed[i]))...)
	}
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(m.width).Render(line)
	}
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

// why is the chosen channel's reason, where its row does not hold it whole.
func (m *Model) why(whole bool) []string {
	if m.at >= len(m.now.Channels) || whole {
		return nil
	}
	c := &m.now.Channels[m.at]
	if c.Reason == "" {
		return nil
	}
	return append([]string{""}, m.wrap(bold(c.Name)+"  "+c.Reason)...)
}

// wrap breaks a line where the screen ends, and indents what follows.
func (m *Model) wrap(line string) []string {
	const indent = 2
	if lipgloss.Width(line) <= m.width {
		return []string{line}
	}
	room := max(m.width-indent, 1)
	lines := strings.Split(ansi.Wrap(line, room, " "), "\n")
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

func (m *Model) head() []string {
	n := &m.now
	leads := "leads"
	if !n.Leads {
		leads = "follows " + cmp.Or(n.Leader, "nobody")
	}
	state := faint("↑↓ choose, enter decisions of it, esc all, q end")
	switch {
	case m.fault != nil:
		state = bad(fmt.Sprintf("no news since %s: %v", since(n.At), m.fault))
	case n.At.IsZero():
		state = faint("asking the controller")
	}
	name := bold("weir "+n.Fleet) + fmt.Sprintf("  %s, term %d, record %d, %d behind, agents %d", leads, n.Term, n.Seq, n.Lag, n.Agents)
	return append(append(m.wrap(name), m.wrap(state)...), "")
}

func since(at time.Time) string {
	if at.IsZero() {
		return "the start"
	}
	return at.Format(time.TimeOnly)
}

// The columns by their place in a row.
const (
	colName = iota
	colState
	colWindow
	colInFlight
	colWaiting
	colOK
	colRefused
	colFailed
	colWeight
	colLatency
	colReason
)

// columns are the headings; all but the first two and the last are numbers.
func columns() []string {
	return []string{"CHANNEL", "STATE", "WINDOW", "IN FLIGHT", "WAITING", "OK/S", "REFUSED/S", "FAILED/S", "WEIGHT", "LATENCY", "REASON"}
}

// leastReason is how many places a reason needs to say anything, mostName the
// most that a name takes.
const (
	leastReason = 24
	mostName    = 32
)

// table draws the channels, a heading first, each column as wide as needed, and
// reports whether the chosen one's reason is whole. Where the screen is too
// narrow the columns go that one misses least.
func (m *Model) table() (lines []string, whole bool) {
	cells := [][]string{columns()}
	for i := range m.now.Channels {
		row := m.row(&m.now.Channels[i])
		row[colName] = ansi.Truncate(row[colName], max(min(mostName, m.width/3), 8), "…")
		cells = append(cells, row)
	}
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for k, cell := range row {
			width[k] = max(width[k], lipgloss.Width(cell))
		}
	}
	left := m.width
	for _, w := range width[:colReason] {
		left -= w + 2
	}
	need := 0 // places left for the reason, if two columns may make room for it
	if left+width[colWeight]+width[colLatency]+4 >= leastReason {
		need = leastReason
	}
	for _, k := range []int{colWeight, colLatency, colOK, colInFlight, colFailed, colWaiting} {
		if left >= need {
			break
		}
		left += width[k] + 2
		width[k] = 0
	}
	if left < leastReason {
		width[colReason] = 0
	}
	for i, row := range cells {
		lines = append(lines, m.line(i, row, width))
	}
	chosen := m.at + 1
	return lines, chosen >= len(cells) || width[colReason] > 0 && lipgloss.Width(cells[chosen][colReason]) <= left
}

// line draws a row; columns without width are left out.
func (m *Model) line(i int, row []string, width []int) string {
	var b strings.Builder
	for k, cell := range row {
		if width[k] == 0 {
			continue
		}
		pad := strings.Repeat(" ", width[k]-lipgloss.Width(cell))
		switch {
		case k == colReason:
			b.WriteString(cell)
		case k <= colState:
			b.WriteString(cell + pad + "  ")
		default:
			b.WriteString(pad + cell + "  ")
		}
	}
	switch {
	case i == 0:
		return faint(b.String())
	case i-1 == m.at:
		return lipgloss.NewStyle().Reverse(true).Render(b.String())
	case !well(&m.now.Channels[i-1]):
		return bad(b.String())
	}
	return b.String()
}

func (m *Model) row(c *model.FleetChannel) []string {
	ok, refused, failed := m.rates(c)
	latency := "-"
	if c.Latency > 0 {
		latency = fmt.Sprintf("%.2f×", float64(c.Latency)/float64(model.One))
	}
	return []string{
		c.Name, State(c), fmt.Sprintf("%.1f", float64(c.Window)/1000), fmt.Sprint(c.InFlight), fmt.Sprint(c.Queued),
		ok, refused, failed, fmt.Sprintf("%d %%", int64(c.Weight)*100/int64(model.One)), latency, c.Reason,
	}
}

// rates are attempts a second since the look before.
func (m *Model) rates(c *model.FleetChannel) (ok, refused, failed string) {
	i := slices.IndexFunc(m.before.Channels, func(b model.FleetChannel) bool { return b.Name == c.Name })
	span := m.now.At.Sub(m.before.At).Seconds()
	if i < 0 || span <= 0 {
		return "-", "-", "-"
	}
	var sum [3]int64
	for _, class := range model.Classes {
		n := int64(c.Attempts[class.String()]) - int64(m.before.Channels[i].Attempts[class.String()])
		switch {
		case class == model.ClassOK:
			sum[0] += n
		case class.Refused(), class == model.ClassQuotaExhausted, class == model.ClassAuth:
			sum[1] += n
		case class == model.ClassInvalid, class == model.ClassCanceled:
		default:
			sum[2] += n
		}
	}
	text := func(n int64) string { return fmt.Sprintf("%.1f", float64(max(n, 0))/span) }
	return text(sum[0]), text(sum[1]), text(sum[2])
}

// State is a channel's state in a few words.
func State(c *model.FleetChannel) string {
	switch {
	case c.Breaker == model.BreakerMisconfigured.String():
		return "refuses the key"
	case c.Breaker == model.BreakerOpen.String():
		return "stopped" + in(c.Wait)
	case c.Breaker == model.BreakerHalfOpen.String():
		return "being probed"
	case c.Wait > 0:
		return "held" + in(c.Wait)
	case c.Mode == model.ModeObserve.String():
		return "only watched"
	case c.Queued > 0:
		return "full"
	}
	return "takes calls"
}

// in is when something ends, if that is known.
func in(wait model.Nanos) string {
	if wait <= 0 || wait > 1000*model.Hour {
		return ""
	}
	return " for " + time.Duration(wait).Round(time.Second).String()
}

// well reports whether nothing keeps calls from a channel.
func well(c *model.FleetChannel) bool {
	return c.Breaker == model.BreakerClosed.String() && c.Wait <= 0
}

func (m *Model) decision(d *controller.Decision) string {
	who := d.Channel
	if m.open != "" || who == "" {
		who = d.Agent
	}
	line := time.Unix(0, int64(d.At)).Format(time.TimeOnly) + "  " + faint(d.Rule) + "  "
	if who != "" {
		line += bold(who) + "  "
	}
	return line + d.Reason
}

func bold(text string) string  { return lipgloss.NewStyle().Bold(true).Render(text) }
func faint(text string) string { return lipgloss.NewStyle().Faint(true).Render(text) }
func bad(text string) string {
	return lipgloss.NewStyle().Foreground(lipgloss.Red).Render(text)
}
