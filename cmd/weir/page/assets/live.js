// The page of a running controller. It asks for nothing beyond the controller
// that served it, and puts what it is told into the page as text only.

const $ = (id) => document.getElementById(id);
const breakers = ["closed", "open", "half_open", "misconfigured"];
const ranges = [["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["30 d", 2592000]];
const keepLive = 3700;   // seconds of the page's own points per channel
const keepFeed = 500;    // decisions in the feed
const rateOver = 10;     // seconds over which rates are taken
const staleAfter = 5000; // milliseconds without news

let token = "";          // kept in memory only
let chosen = decodeURIComponent(location.hash.slice(1));
let range = 900;
let last = null;         // what is shown: the newest telling, or a moment that is over
let live = null;         // the newest telling
let rewound = null;      // the moment that is shown, null for now
let heard = 0;           // when, by this browser's clock
let feed = [];
const points = new Map();  // channel -> rows of the page's own points
const rows = new Map();    // channel -> cells of its table row

// ---- asking

function headers(more) {
  return token ? { ...more, Authorization: "Bearer " + token } : { ...more };
}

async function ask(path) {
  const answer = await fetch(path, { headers: headers() });
  if (answer.status === 401 && enterToken()) return ask(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

// enterToken asks for the token that looking from another machine needs.
function enterToken() {
  const entered = window.prompt("This controller shows itself to other machines only with its token:");
  if (entered) token = entered.trim();
  return Boolean(entered);
}

// follow hears events for as long as the page is open. fetch, unlike
// EventSource, can show a token.
async function follow() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const answer = await fetch("api/v1/live", { headers: headers() });
      if (answer.status === 401) { if (!enterToken()) throw new Error("the token is needed"); continue; }
      if (!answer.ok) throw new Error((await answer.json()).error);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the controller ended");
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const e of events) if (e.startsWith("data: ")) { hear(JSON.parse(e.slice(6))); wait = 500; }
      }
    } catch (fault) {
      showLink(String(fault.message || fault));
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

// ---- what was told

function hear(telling) {
  live = telling;
  heard = Date.now();
  for (const c of telling.channels) keepPoint(c, Math.floor(telling.unix_ms / 1000));
  const fresh = telling.decisions.filter((d) => !feed.length || d.seq > feed[0].seq);
  feed = fresh.concat(feed).slice(0, keepFeed);
  showLink("");
  if (rewound) return;
  last = live;
  showState();
  if (fresh.length) showFeeds();
}

function showState() {
  showVerdict();
  showChannels();
  showPools();
  showDays();
  showOne();
}

// ---- moments that are over

// rewind shows the fleet as it was at a time in seconds since 1970.
async function rewind(unix) {
  put($("then-fault"), "");
  try {
    const was = await ask("api/v1/at?time=" + unix);
    rewound = was;
    const status = live ? live.status : { fleet: "", version: "" };
    last = { channels: was.channels, pools: was.pools, days: was.days, status: { ...status, controller: was.leader, leader: was.leader, leads: true, term: was.term, seq: was.seq,
      channels: was.channels.length, agents: was.agents.length, lag_events: 0, outbox_failure: "", log_faults: [] } };
    showMoment();
  } catch (fault) {
    put($("then-fault"), String(fault.message || fault));
  }
}

function backToNow() {
  rewound = null;
  $("then").value = "";
  put($("then-fault"), "");
  if (live) last = live;
  showMoment();
}

function showMoment() {
  $("now").hidden = !rewound;
  $("actions").hidden = Boolean(rewound);
  history.replaceState(null, "", (rewound ? "?at=" + rewound.unix : location.pathname) + location.hash);
  drawn = 0;
  showLink("");
  if (last) showState();
  showFeeds();
  showAgents();
  load();
}

function keepPoint(c, unix) {
  const a = c.attempts || {};
  let ok = 0, refused = 0, failed = 0;
  for (const [name, n] of Object.entries(a)) {
    if (name === "ok") ok += n;
    else if (["rate_limited", "overloaded", "quota_exhausted", "auth"].includes(name)) refused += n;
    else if (!["invalid", "canceled"].includes(name)) failed += n;
  }
  const all = points.get(c.name) || [];
  points.set(c.name, all);
  if (all.length && all[all.length - 1].unix >= unix) all.pop();
  all.push({ unix, window: c.window_milli / 1000, leased: c.leased_slots, inflight: c.inflight, queued: c.queued,
    weight: c.weight_ppm / 10000, latency: c.latency_ppm ? c.latency_ppm / 10000 : null, ok, refused, failed });
  if (all.length > keepLive) all.shift();
}

// rates are attempts a second over the last seconds.
function rates(name) {
  if (rewound) return null;
  const all = points.get(name) || [];
  const b = all[all.length - 1];
  const a = all.find((p) => p.unix >= b.unix - rateOver);
  const span = a ? b.unix - a.unix : 0;
  if (!span) return null;
  return { ok: (b.ok - a.ok) / span, refused: (b.refused - a.refused) / span, failed: (b.failed - a.failed) / span };
}

// stateOf is a channel's state in a word, with how bad that is.
function stateOf(c) {
  const wait = c.wait_ns / 1e9;
  const rate = rates(c.name);
  if (c.breaker === "misconfigured") return ["bad", "refuses the key", 4];
  if (c.breaker === "open") return ["bad", "stopped" + (wait > 0 && wait < 1e8 ? ", tried in " + seconds(wait) : ""), 4];
  if (c.breaker === "half_open") return ["bad", "being probed", 3];
  if (wait > 0) return ["slow", "held for " + seconds(wait), 2];
  if (c.mode === "observe") return ["seen", "only watched", 0];
  if (rate && rate.refused > 0.02 * (rate.ok + rate.refused + rate.failed)) return ["slow", "refusing", 2];
  if (c.queued > 0) return ["slow", "full, " + c.queued + " wait", 1];
  return ["ok", "takes calls", 0];
}

// ---- showing

function showLink(fault) {
  const age = Date.now() - heard;
  if (rewound) {
    $("link").className = "link stale";
    put($("link"), `as it was at ${new Date(rewound.unix * 1000).toLocaleString()}, record ${rewound.seq}`);
    return;
  }
  const stale = Boolean(fault) || !heard || age > staleAfter;
  $("link").className = stale ? "link stale" : "link";
  put($("link"), !heard ? "connecting" + (fault ? ": " + fault : "") : stale ? "no news for " + seconds(age / 1000) + (fault ? ": " + fault : "") + "; what you see is old" : "live");
}

function showVerdict() {
  const s = last.status;
  put($("fleet"), s.fleet);
  put($("controller"), `${s.controller}${s.leads ? " leads" : " follows " + s.leader}, term ${s.term}, ${count(s.channels, "channel")}, ${count(s.agents, "agent")}, record ${s.seq}` +
    (s.lag_events ? `, ${s.lag_events} behind` : "") + `, ${s.version}`);
  const worst = last.channels.map((c) => [stateOf(c), c]).filter(([st]) => st[2] >= 2).sort((a, b) => b[0][2] - a[0][2]);
  const out = [];
  if (!s.leads && !s.leader) out.push("Nobody leads: agents go on alone.");
  if (s.outbox_failure) out.push("Agents cannot be told: " + s.outbox_failure + ".");
  if (s.log_faults.length) out.push(`The log had ${count(s.log_faults.length, "fault")}.`);
  for (const [st, c] of worst.slice(0, 3)) out.push(`${c.name} ${st[1]}${c.reason ? " (" + c.reason + ")" : ""}.`);
  if (worst.length > 3) out.push(`And ${worst.length - 3} more.`);
  $("verdict").className = "verdict " + (out.length ? "bad" : "good");
  put($("verdict"), out.length ? out.join(" ") : last.channels.length ? "All channels take calls." : "There is no channel yet.");
}

function showChannels() {
  const body = $("channels").tBodies[0];
  const seen = new Set();
  for (const c of last.channels) {
    seen.add(c.name);
    let cells = rows.get(c.name);
    if (!cells) rows.set(c.name, (cells = addRow(body, c.name)));
    const [kind, word] = stateOf(c);
    const r = rates(c.name);
    const pool = last.pools.find((p) => p.name === "channel/" + c.name);
    cells.state.className = "state " + kind;
    [word, slots(c), String(c.inflight), String(c.queued), rate(r, "ok"), rate(r, "refused"), rate(r, "failed"),
      (c.weight_ppm / 10000).toFixed(0) + " %", c.latency_ppm ? (c.latency_ppm / 1e6).toFixed(2) + "×" : "–", left(pool), c.reason,
    ].forEach((text, i) => put(i ? cells.all[i + 1] : cells.state, text));
    cells.row.className = c.name === chosen ? "chosen" : "";
  }
  for (const [name, cells] of rows) if (!seen.has(name)) { cells.row.remove(); rows.delete(name); points.delete(name); }
}

function addRow(body, name) {
  const row = body.insertRow();
  const head = document.createElement("th");
  head.scope = "row";
  const button = document.createElement("button");
  button.className = "name";
  button.type = "button";
  put(button, name);
  button.addEventListener("click", () => choose(name));
  head.append(button);
  row.append(head);
  const all = [head];
  for (let i = 0; i < 11; i++) { const cell = row.insertCell(); if (i > 0 && i < 10) cell.className = "n"; all.push(cell); }
  const state = document.createElement("span");
  all[1].append(state);
  return { row, all, state };
}

function showPools() {
  const body = $("pools").tBodies[0];
  const shown = last.pools.filter((p) => p.requests_per_minute >= 0 || p.tokens_per_minute >= 0);
  fill(body, shown.map((p) => [p.name, amount(p.requests_left, p.requests_per_minute), limit(p.requests_per_minute), amount(p.tokens_left, p.tokens_per_minute), limit(p.tokens_per_minute), String(p.waiting_requests)]), 1,
    "no budget is told or learned");
}

function showDays() {
  const of = (f, unit) => (f.used / unit).toLocaleString() + (f.hard ? " of " + (f.hard / unit).toLocaleString() : "") + (f.soft ? ", warns at " + (f.soft / unit).toLocaleString() : "");
  const limited = (d) => [d.requests, d.tokens, d.cost_millionths].some((f) => f.soft || f.hard);
  const shown = (last.days || []).filter((d) => limited(d) || d.name.startsWith("tenant/"));
  fill($("days").tBodies[0], shown.map((d) => [d.name, d.stage, of(d.requests, 1), of(d.tokens, 1), of(d.cost_millionths, 1e6), new Date(d.ends_unix_ns / 1e6).toLocaleString()]), 2,
    "nothing is limited by the day, and there are no tenants");
}

// fill makes a table's body these rows. From column right on they are numbers.
function fill(body, table, right, none) {
  while (body.rows.length > Math.max(table.length, 1)) body.deleteRow(-1);
  if (!table.length) {
    body.replaceChildren();
    const cell = body.insertRow().insertCell();
    cell.colSpan = 20;
    put(cell, none);
    return;
  }
  table.forEach((texts, i) => {
    let row = body.rows[i];
    if (!row || row.cells.length !== texts.length) {
      const fresh = document.createElement("tr");
      texts.forEach((_, k) => { if (fresh.insertCell() && k >= right) fresh.cells[k].className = "n"; });
      if (row) row.replaceWith(fresh); else body.append(fresh);
      row = fresh;
    }
    texts.forEach((text, k) => put(row.cells[k], text));
  });
}

function showFeeds() {
  const words = $("find").value.trim().toLowerCase();
  const fits = (d) => !words || [d.channel, d.agent, d.rule, d.reason].some((t) => t && t.toLowerCase().includes(words));
  list($("feed"), (rewound ? rewound.decisions : feed).filter(fits).slice(0, 200), true);
  if (chosen) list($("one-feed"), oneFeed(), false);
}

let oneOld = []; // decisions of the chosen channel from before the page opened

function oneFeed() {
  if (rewound) return rewound.decisions.filter((d) => d.channel === chosen);
  const fresh = feed.filter((d) => d.channel === chosen);
  const oldest = fresh.length ? fresh[fresh.length - 1].seq : Infinity;
  return fresh.concat(oneOld.filter((d) => d.seq < oldest)).slice(0, 200);
}

function list(at, decisions, named) {
  at.replaceChildren(...decisions.map((d) => {
    const item = document.createElement("li");
    const when = document.createElement("time");
    const date = new Date(d.at_ns / 1e6);
    when.dateTime = date.toISOString();
    put(when, date.toLocaleTimeString([], { hour12: false }));
    when.title = date.toLocaleString();
    const who = document.createElement("b");
    put(who, named ? [d.channel, d.agent].filter(Boolean).join(" ") : d.agent || "");
    const rule = document.createElement("span");
    rule.className = "rule";
    put(rule, d.rule);
    const text = document.createElement("span");
    put(text, d.reason + (d.before !== d.after ? ` (${change(d)})` : ""));
    item.append(when, who, rule, text);
    return item;
  }));
  if (!decisions.length) at.append(Object.assign(document.createElement("li"), { textContent: "none" }));
}

// change is the number that changed, in the unit of what changed it.
function change(d) {
  const unit = d.rule.startsWith("window") || d.rule.startsWith("latency") ? [1000, " slots"] : d.rule.startsWith("weight") ? [10000, " %"] : [1, ""];
  const text = (n) => Number((n / unit[0]).toFixed(1)).toLocaleString();
  return `${text(d.before)} to ${text(d.after)}${unit[1]}`;
}

// ---- one channel

let charts = [];
let past = null; // rows from before the page opened

async function choose(name) {
  chosen = name;
  history.replaceState(null, "", "#" + encodeURIComponent(name));
  past = null;
  oneOld = [];
  if (last) { showChannels(); showOne(); showFeeds(); }
  $("one").scrollIntoView({ block: "nearest" });
  await load();
}

// load asks for what was before the page opened.
async function load() {
  const name = chosen, span = range;
  if (!name) return;
  const to = rewound ? rewound.unix : Math.floor(Date.now() / 1000);
  $("table").href = `api/v1/history?channel=${encodeURIComponent(name)}&from=${to - span}&to=${to}&format=csv`;
  try {
    const [was, decided] = await Promise.all([
      ask(`api/v1/history?channel=${encodeURIComponent(name)}&from=${to - span}&to=${to}`).catch(() => ({ columns: [], points: [] })),
      ask(`api/v1/decisions?channel=${encodeURIComponent(name)}&limit=200`),
    ]);
    if (name !== chosen || span !== range) return;
    const at = Object.fromEntries(was.columns.map((c, i) => [c, i]));
    past = was.points.map((p) => ({ unix: p[at.unix], window: p[at.window_milli] / 1000, leased: p[at.leased_slots], inflight: p[at.inflight], queued: p[at.queued],
      weight: p[at.weight_ppm] / 10000, latency: p[at.latency_ppm] ? p[at.latency_ppm] / 10000 : null, ok: p[at.ok_total], refused: p[at.refused_total], failed: p[at.failed_total] }));
    oneOld = decided.decisions;
    drawn = 0;
    showOne();
    showFeeds();
  } catch (fault) {
    put($("one-about"), String(fault.message));
  }
}

let drawn = 0;

function showOne() {
  const c = last && last.channels.find((one) => one.name === chosen);
  $("one").hidden = !c;
  if (!c) return;
  const [, word] = stateOf(c);
  put($("h-one"), c.name);
  put($("one-about"), [`${word}; ${c.reason || "nothing decided yet"}.`, c.provider, c.model, `mode ${c.mode}`, `epoch ${c.epoch}`, `breaker ${c.breaker}`,
    c.would_refuse ? `${c.would_refuse.toLocaleString()} calls would have had to wait or been refused` : ""].filter(Boolean).join(" · "));
  showActions(c);
  const now = Date.now();
  if (now - drawn < (range <= 3600 ? 1000 : 10000)) return;
  drawn = now;
  draw(merged());
}

// merged is the history up to where the page's own points begin, then those.
function merged() {
  if (rewound) return (past || []).filter((p) => p.unix <= rewound.unix);
  const own = points.get(chosen) || [];
  const from = Math.floor(Date.now() / 1000) - range;
  const begin = own.length ? own[0].unix : Infinity;
  const before = (past || []).filter((p) => p.unix < begin);
  const every = Math.max(1, Math.floor(own.length / 1200));
  return before.concat(own.filter((_, i) => i % every === 0)).filter((p) => p.unix >= from);
}

const plots = [
  { title: "slots", lines: [["window", "--weir"], ["leased", "--bound"], ["inflight", "--plain"], ["queued", "--bad"]] },
  { title: "attempts a second", lines: [["ok", "--good"], ["refused", "--bad"], ["failed", "--bound"]], rate: true },
  { title: "weight, and latency against its baseline, in percent", lines: [["weight", "--weir"], ["latency", "--plain"]] },
];

function draw(all) {
  const x = all.map((p) => p.unix);
  plots.forEach((plot, i) => {
    const data = [x, ...plot.lines.map(([key]) => all.map((p, k) => plot.rate ? slope(all, k, key) : p[key]))];
    if (!charts[i]) charts[i] = chart(plot, data); else charts[i].setData(data);
  });
}

// slope is how fast a total grows, null over a gap or after it began anew.
function slope(all, k, key) {
  if (!k) return null;
  const span = all[k].unix - all[k - 1].unix, grown = all[k][key] - all[k - 1][key];
  return span > 0 && grown >= 0 ? grown / span : null;
}

function chart(plot, data) {
  const figure = document.createElement("figure");
  const title = document.createElement("figcaption");
  put(title, plot.title);
  figure.append(title);
  $("charts").append(figure);
  const style = getComputedStyle(document.documentElement);
  const ink = () => style.getPropertyValue("--muted"), grid = { stroke: () => style.getPropertyValue("--rule"), width: 1 };
  const u = new uPlot({
    width: figure.clientWidth - 26, height: 190, cursor: { sync: { key: "weir" } },
    series: [{ label: "at", value: (_, s) => s == null ? "–" : clock(s, 1) }, ...plot.lines.map(([key, colour]) => ({ label: key === "inflight" ? "in flight" : key, stroke: () => style.getPropertyValue(colour), width: 1.6, points: { show: false },
      value: (_, v) => v == null ? "–" : Number(v.toFixed(1)).toLocaleString() }))],
    axes: [{ stroke: ink, grid, space: 70, values: (_, at, __, ___, step) => at.map((s) => clock(s, step)) }, { stroke: ink, grid, size: 46 }],
    scales: { y: { range: (_, low, high) => [0, Math.max(high || 1, 1) * 1.08] } },
  }, data, figure);
  new ResizeObserver(() => u.setSize({ width: figure.clientWidth - 26, height: 190 })).observe(figure);
  return u;
}

// ---- orders

const orders = [
  { text: "pause", command: "pause", about: "No new call starts until the time is over or you resume.", time: "10m" },
  { text: "resume", command: "resume", about: "Ends a pause, a hold and a breaker that was forced open." },
  { text: "set limit", command: "set_limit", about: "At most so many slots, whatever the law finds.", value: 10, time: "" },
  { text: "give limit back", command: "set_limit", about: "The law decides alone again.", fixed: -1 },
  { text: "stop", command: "force_breaker", about: "Opens the breaker until you close it.", fixed: 1 },
  { text: "close breaker", command: "force_breaker", about: "Lets calls start again, from a small window.", fixed: 0 },
  { text: "release", command: "release", about: "Ends the hold that a provider's hint put on it." },
];
let acting = "";

function showActions(c) {
  if (acting === c.name) return;
  acting = c.name;
  $("actions").replaceChildren(...orders.map((o) => {
    const button = document.createElement("button");
    button.type = "button";
    put(button, o.text);
    button.addEventListener("click", () => openOrder(o, c.name));
    return button;
  }));
}

let current = null;

function openOrder(order, channel) {
  current = { order, channel };
  put($("order-title"), `${order.text}: ${channel}`);
  put($("order-about"), order.about);
  put($("order-fault"), "");
  $("order-value-label").hidden = order.value === undefined;
  $("order-value").value = order.value ?? "";
  $("order-for-label").hidden = order.time === undefined;
  $("order-for").value = order.time ?? "";
  $("order-token").value = token;
  $("order").showModal();
  $("order-why").focus();
}

$("order").querySelector("form").addEventListener("submit", async (event) => {
  if (event.submitter && event.submitter.value === "cancel") return;
  event.preventDefault();
  const { order, channel } = current;
  token = $("order-token").value.trim();
  const body = { command: order.command, channel, value: order.fixed ?? Number($("order-value").value || 0), for: order.time === undefined ? "" : $("order-for").value.trim(), by: $("order-by").value, why: $("order-why").value };
  try {
    $("order-do").disabled = true;
    const answer = await fetch("api/v1/commands", { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error || answer.statusText);
    $("order").close();
  } catch (fault) {
    put($("order-fault"), String(fault.message || fault));
  } finally {
    $("order-do").disabled = false;
  }
});

// ---- now and then

const mostAgents = 300;

async function showAgents() {
  if (document.hidden || !heard) return;
  try {
    const { agents } = rewound ? { agents: rewound.agents.slice() } : await ask("api/v1/agents");
    const worst = (a) => (a.state === "away" ? 0 : a.lost_attempts > 0 ? 1 : a.state === "here" ? 2 : 3);
    agents.sort((a, b) => worst(a) - worst(b) || a.agent.localeCompare(b.agent));
    fill($("agents").tBodies[0], agents.slice(0, mostAgents).map((a) => [a.agent, a.state, a.mode, a.version, seconds(a.silent_ns / 1e9) + " ago", String(a.slots), String(a.inflight), String(a.queued), String(a.lost_attempts)]), 4, "no agent was heard yet");
    put($("agents-more"), agents.length > mostAgents ? `and ${agents.length - mostAgents} more, all in order` : "");
  } catch { /* the link's state says it */ }
}

async function showParams() {
  if (document.hidden || !heard) return;
  try {
    const p = await ask("api/v1/params");
    put($("params-about"), `${p.name || "the defaults"}, hash ${p.hash}` + (p.by ? `, by ${p.by}` : "") + (p.why ? `: ${p.why}` : "") + (p.seq ? `, since record ${p.seq}` : "") + watched(p.watched));
    fill($("params").tBodies[0], Object.entries(p.params).map(([name, n]) => [name, n.toLocaleString()]), 1, "none");
  } catch { /* the link's state says it */ }
}

function watched(g) {
  if (!g) return "";
  const change = (ppm) => (ppm > 0 ? "+" : "") + (ppm / 1e4).toFixed(1) + " %";
  const figures = g.enough ? `goodput ${change(g.goodput_ppm)} (tolerated ${change(g.goodput_min_ppm)}), waste ${change(g.waste_ppm)} (tolerated ${change(g.waste_max_ppm)})` : "too little to judge yet";
  return `. Watched for ${seconds(g.left_ns / 1e9)} more: ${g.name} (${g.hash})` + (g.canary ? ` on ${g.canary} alone` : "") + `, ${figures}`;
}

// ---- words

function put(at, text) { if (at.textContent !== text) at.textContent = text; }
function seconds(s) { return s < 90 ? Math.max(0, Math.round(s)) + " s" : s < 5400 ? Math.round(s / 60) + " min" : Math.round(s / 3600) + " h"; }
function clock(unix, step) {
  const at = new Date(unix * 1000);
  if (step >= 86400) return at.toLocaleDateString([], { month: "short", day: "numeric" });
  return at.toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) });
}
function count(n, one) { return n.toLocaleString() + " " + one + (n === 1 ? "" : "s"); }
function slots(c) { return (c.window_milli / 1000).toFixed(c.window_milli < 10000 ? 1 : 0); }
function rate(r, key) { return r ? (r[key] ? r[key].toFixed(r[key] < 10 ? 1 : 0) : "0") : "–"; }
function amount(n, of) { return of < 0 ? "–" : n.toLocaleString(); }
function limit(n) { return n < 0 ? "no limit" : n.toLocaleString(); }
function left(p) {
  const out = [];
  if (p && p.requests_per_minute >= 0) out.push(p.requests_left.toLocaleString() + " req");
  if (p && p.tokens_per_minute >= 0) out.push(p.tokens_left.toLocaleString() + " tok");
  return out.join(", ") || "–";
}

for (const [text, span] of ranges) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", String(span === range));
  put(button, text);
  button.addEventListener("click", () => {
    range = span;
    for (const b of $("ranges").children) b.setAttribute("aria-pressed", String(b === button));
    load();
  });
  $("ranges").append(button);
}
$("find").addEventListener("input", showFeeds);
$("now").addEventListener("click", backToNow);
$("then").addEventListener("change", () => {
  const unix = Math.floor(new Date($("then").value).getTime() / 1000);
  if (unix > 0) rewind(unix); else backToNow();
});
setInterval(() => showLink(""), 1000);
setInterval(showAgents, 5000);
setInterval(showParams, 30000);
ask("api/v1/decisions?limit=200").then(({ decisions }) => {
  const newest = feed.length ? feed[feed.length - 1].seq : Infinity;
  feed = feed.concat(decisions.filter((d) => d.seq < newest)).slice(0, keepFeed);
  showFeeds();
}).catch(() => {});
setTimeout(() => { showAgents(); showParams(); }, 1500);
if (chosen) load();
const asked = Number(new URLSearchParams(location.search).get("at"));
if (asked > 0) rewind(asked);
follow();
