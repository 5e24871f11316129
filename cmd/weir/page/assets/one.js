// One channel: its figures over time with what was decided marked, and its decisions.

import { $, put, make, number, fraction, clock, reason, count } from "./words.js";
import { page, points, ask } from "./state.js";
import { shownState } from "./tables.js";

const ranges = [["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["30 d", 2592000]];

let range = 900;
let past = null;      // rows from before the page opened
let old = [];         // decisions of the channel from before the page opened
let drawn = 0;        // when the charts were drawn
let zoom = null;      // the stretch that was picked, null for all
let marks = [];       // what the charts mark
const charts = [];

// load asks for what was before the page opened.
export async function load(then) {
  const name = page.chosen, span = range;
  if (!name) return;
  const to = Math.floor((page.rewound ? page.rewound.unix * 1000 : Date.now()) / 1000);
  const query = `channel=${encodeURIComponent(name)}&from=${to - span}&to=${to}`;
  $("table").href = `api/v1/history?${query}&format=csv`;
  $("table").download = `${name}.csv`;
  try {
    const [was, decided] = await Promise.all([
      ask(`api/v1/history?${query}`).catch(() => ({ columns: [], points: [] })),
      ask(`api/v1/decisions?channel=${encodeURIComponent(name)}&limit=1000`),
    ]);
    if (name !== page.chosen || span !== range) return;
    const at = Object.fromEntries(was.columns.map((c, i) => [c, i]));
    past = was.points.map((p) => ({ unix: p[at.unix], window: p[at.window_milli] / 1000, leased: p[at.leased_slots], inflight: p[at.inflight], queued: p[at.queued],
      weight: p[at.weight_ppm] / 10000, latency: p[at.latency_ppm] ? p[at.latency_ppm] / 10000 : null, ok: p[at.ok_total], refused: p[at.refused_total], failed: p[at.failed_total] }));
    old = decided.decisions;
    then();
  } catch (fault) {
    put($("one-about"), String(fault.message));
  }
}

// anew forgets what belongs to the channel or moment that was shown before.
export function anew() {
  past = null;
  old = [];
  again();
}

// again draws the charts at the next showing, however shortly after the last.
export function again() {
  drawn = 0;
  setZoom(null);
}

// feed are the chosen channel's decisions, the newest first.
export function feed() {
  if (page.rewound) {
    const till = page.rewound.seq;
    return old.filter((d) => d.seq <= till);
  }
  const fresh = page.feed.filter((d) => d.channel === page.chosen);
  const oldest = fresh.length ? fresh[fresh.length - 1].seq : Infinity;
  return fresh.concat(old.filter((d) => d.seq < oldest));
}

// show shows the chosen channel, if it is there.
export function show() {
  const c = page.last && page.last.channels.find((one) => one.name === page.chosen);
  if ($("one").hidden !== !c) $("one").hidden = !c;
  if (!c) return;
  const state = shownState(c.name);
  put($("h-one"), c.name);
  put($("one-state"), state.word);
  $("one-state").className = "state " + state.look;
  put($("one-why"), c.reason ? reason(c.reason) : "nothing was decided yet");
  const classes = Object.entries(c.attempts || {}).filter(([, n]) => n > 0).map(([name, n]) => `${number(n)} ${name}`).join(", ");
  put($("one-about"), [[c.provider, c.model].filter(Boolean).join(" "), `mode ${c.mode}`, `breaker ${c.breaker.replace("_", " ")}`, `epoch ${c.epoch}`, `${count(c.leased_slots, "slot")} leased`, classes ? `so far ${classes}` : "",
    c.would_refuse ? `observing: ${count(c.would_refuse, "call")} would have had to wait or been refused` : ""].filter(Boolean).join(" · "));
  const at = Date.now();
  if (at - drawn < (range <= 3600 ? 1000 : 10000)) return;
  drawn = at;
  draw(merged());
}

// merged is the history up to where the page's own points begin, then those.
function merged() {
  if (page.rewound) return (past || []).filter((p) => p.unix <= page.rewound.unix);
  const own = points.get(page.chosen) || [];
  const from = Math.floor(Date.now() / 1000) - range;
  const begin = own.length ? own[0].unix : Infinity;
  const every = Math.max(1, Math.floor(own.length / 1200));
  return (past || []).filter((p) => p.unix < begin).concat(own.filter((_, i) => i % every === 0)).filter((p) => p.unix >= from);
}

const plots = [
  { title: "slots", lines: [["window", "--weir", "window"], ["leased", "--bound", "leased"], ["inflight", "--plain", "in flight"], ["queued", "--bad", "waiting"]] },
  { title: "attempts a second", lines: [["ok", "--good", "served"], ["refused", "--bad", "refused"], ["failed", "--bound", "failed"]], rate: true },
  { title: "weight and latency, % of usual", lines: [["weight", "--weir", "weight"], ["latency", "--plain", "latency"]] },
];

// kinds are the decisions that are marked, and their colours.
const kinds = [[/^(window|latency)\.cut/, "--bad", "cut"], [/^breaker\.open/, "--bad", "opened"], [/^breaker\.close/, "--good", "closed"], [/^budget\.(hold|day)/, "--slow", "held"], [/^(command|params|config)/, "--plain", "order"]];

function draw(all) {
  const x = all.map((p) => p.unix);
  marks = feed().slice(0, 400).flatMap((d) => {
    const kind = kinds.find(([rule]) => rule.test(d.rule));
    return kind ? [{ unix: d.at_ns / 1e9, colour: kind[1], word: kind[2], d }] : [];
  });
  plots.forEach((plot, i) => {
    const data = [x, ...plot.lines.map(([key]) => all.map((p, k) => (plot.rate ? slope(all, k, key) : p[key])))];
    charts[i] ??= chart(plot);
    charts[i].setData(data, false);
    span(charts[i]);
    if (charts[i].cursor.idx == null) charts[i].setLegend({ idx: null });
  });
  put($("charts-none"), x.length < 2 ? "No points of this span yet: the controller keeps one every ten seconds." : "");
}

// span shows the stretch that was picked, or all there is.
function span(u) {
  const x = u.data[0];
  const [min, max] = zoom ?? [x.length ? x[0] : 0, x.length ? x[x.length - 1] : 1];
  u.setScale("x", { min, max: Math.max(max, min + 1) });
}

function setZoom(to) {
  zoom = to;
  $("unzoom").hidden = !zoom;
  for (const u of charts) span(u);
}

// slope is how fast a total grows, null over a gap or after it began anew.
function slope(all, k, key) {
  if (!k) return null;
  const took = all[k].unix - all[k - 1].unix, grown = all[k][key] - all[k - 1][key];
  return took > 0 && grown >= 0 ? grown / took : null;
}

function chart(plot) {
  const frame = make("figure");
  frame.append(make("figcaption", "", plot.title));
  $("charts").append(frame);
  const style = getComputedStyle(document.documentElement);
  const ink = () => style.getPropertyValue("--muted"), grid = { stroke: () => style.getPropertyValue("--rule"), width: 1 };
  const u = new uPlot({
    width: frame.clientWidth - 26, height: 190, cursor: { sync: { key: "weir" } },
    series: [{ label: "at", value: (u, s) => instant(s ?? u.data[0].at(-1)) }, ...plot.lines.map(([, colour, label]) => ({ label, stroke: () => style.getPropertyValue(colour), width: 1.6, points: { show: false },
      value: (u, v, i) => figure(v ?? u.data[i].at(-1)) }))],
    axes: [{ stroke: ink, grid, space: 70, values: (_, at, __, ___, step) => at.map((s) => clock(s * 1000, step)) }, { stroke: ink, grid, size: 46 }],
    scales: { x: { auto: false }, y: { range: (_, low, high) => [0, Math.max(high || 1, 1) * 1.08] } },
    hooks: {
      draw: [(u) => drawMarks(u, style)],
      setCursor: [(u) => pointAt(u)],
      setSelect: [(u) => { if (u.select.width > 4) setZoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]); }],
    },
  }, [[], ...plot.lines.map(() => [])], frame);
  u.over.addEventListener("dblclick", () => setZoom(null));
  new ResizeObserver(() => u.setSize({ width: frame.clientWidth - 26, height: 190 })).observe(frame);
  return u;
}

// Beside the names stand the values at the pointer, or the newest.
const instant = (unix) => (unix == null ? "–" : clock(unix * 1000));
const figure = (v) => (v == null ? "–" : fraction(v));

function drawMarks(u, style) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.globalAlpha = 0.55;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const m of marks) {
    const x = u.valToPos(m.unix, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = style.getPropertyValue(m.colour);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// pointAt says what was decided where the pointer is.
function pointAt(u) {
  if (u.cursor.left < 0) return;
  let best = null, distance = 8; // pixels
  for (const m of marks) {
    const d = Math.abs(u.valToPos(m.unix, "x") - u.cursor.left);
    if (d < distance) [best, distance] = [m, d];
  }
  if (best) put($("mark"), `${clock(best.d.at_ns / 1e6)} ${best.d.rule}: ${reason(best.d.reason)}`);
}

for (const [text, length] of ranges) {
  const button = make("button", "", text);
  button.type = "button";
  button.setAttribute("aria-pressed", String(length === range));
  button.addEventListener("click", () => {
    range = length;
    for (const b of $("ranges").children) b.setAttribute("aria-pressed", String(b === button));
    again();
    load(() => { again(); show(); });
  });
  $("ranges").append(button);
}
$("unzoom").addEventListener("click", () => setZoom(null));
