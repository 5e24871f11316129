// The fleet at a glance: what is wrong, and a table for each kind of part.

import { $, put, make, number, compact, count, seconds, clock, moment, slots, rate, limit, reason, fill, arrange } from "./words.js";
import { page, rates, stateOf, since, forget, routesOf, serving, now } from "./state.js";

const rows = new Map();      // channel -> its row of the table
const states = new Map();    // channel -> its state
const mostTroubles = 5;
const sortEvery = 5000;      // milliseconds
let sorted = 0;              // when the rows were put in order

// take works out every channel's state; the parts below show it.
function take() {
  states.clear();
  for (const c of page.last.channels) {
    const r = rates(c.name);
    states.set(c.name, Object.assign(stateOf(c, r), { rate: r }));
  }
}

// show shows everything that a telling brings. choose is what a channel's name
// does, give what an order does.
export function show(choose, give) {
  take();
  showTroubles(choose, give);
  showChannels(choose);
  showRoutes();
  showPools();
  showDays();
}

// ---- what is wrong

function showTroubles(choose, give) {
  const s = page.last.status;
  put($("fleet"), s.fleet);
  put($("controller"), `${s.controller}${s.leads ? " leads" : " follows " + s.leader}, term ${s.term}, ${count(s.channels, "channel")}, ${count(s.agents, "agent")}, record ${number(s.seq)}` +
    (s.lag_events ? `, ${number(s.lag_events)} behind` : "") + (s.version ? `, version ${s.version}` : ""));
  const wrong = page.last.channels.filter((c) => states.get(c.name).bad >= 2).sort((a, b) => states.get(b.name).bad - states.get(a.name).bad);
  const general = generalTroubles(s);
  const head = [];
  if (general.length) head.push(general[0].what);
  if (wrong.length) head.push(wrong.length === page.last.channels.length && wrong.length > 1 ? `No channel takes calls as it should.` : `${wrong.slice(0, 2).map((c) => `${c.name} ${plainWord(c)}`).join(", ")}${wrong.length > 2 ? `, and ${wrong.length - 2} more` : ""}.`);
  const calm = !head.length;
  $("verdict").className = "verdict " + (calm ? "good" : general.length || wrong.some((c) => states.get(c.name).bad >= 3) ? "bad" : "slow");
  put($("verdict"), calm ? (page.last.channels.length ? allWell() : "There is no channel yet: weir config push puts a file in force.") : head.join(" "));
  const items = general.map(generalItem).concat(wrong.slice(0, mostTroubles).map((c) => troubleItem(c, choose, give)));
  if (wrong.length > mostTroubles) items.push(make("li", "more", `and ${wrong.length - mostTroubles} more channels, first in the table below`));
  arrange($("troubles"), items);
  $("troubles").hidden = !items.length;
}

// allWell is what is said when nothing is wrong; where work waits, that too.
function allWell() {
  const full = page.last.channels.filter((c) => states.get(c.name).kind === "full");
  if (!full.length) return "All channels take calls.";
  return `All channels take calls. Calls wait for their turn at ${full.slice(0, 2).map((c) => c.name).join(", ")}${full.length > 2 ? ` and ${full.length - 2} more` : ""}.`;
}

// plainWord is a state's word without its countdown, so that nobody is told
// every second.
function plainWord(c) {
  return { key: "refuses the key", open: "is stopped", held: "is held", refusing: "refuses" }[states.get(c.name).kind] || states.get(c.name).word;
}

function generalTroubles(s) {
  const out = [];
  if (!s.leads && !s.leader) out.push({ what: "No controller leads.", why: "None was elected, or none reaches NATS.", next: "Agents go on with their safe share; no call fails because of it.", act: "Start a controller, or look at NATS." });
  if (s.outbox_failure) out.push({ what: "Agents cannot be told.", why: s.outbox_failure, next: "They use what they were granted, then their safe share.", act: "Look at NATS." });
  const away = page.agents.filter((a) => a.state === "away");
  if (away.length) out.push({ what: `${count(away.length, "agent")} ${away.length === 1 ? "is" : "are"} not heard.`, why: `${away.slice(0, 3).map((a) => `${a.agent} for ${seconds(a.silent_ns / 1e9)}`).join(", ")}${away.length > 3 ? " and more" : ""}.`,
    next: "Their slots stay reserved for them, and are given to others when they are presumed gone.", act: "Look whether they run and reach NATS." });
  if (s.log_faults.length) out.push({ what: `The log had ${count(s.log_faults.length, "fault")}.`, why: JSON.stringify(s.log_faults[s.log_faults.length - 1]), next: "The controller has anchored the log anew and goes on.", act: "Look at NATS' disk; weir log verify tells whether the rest folds." });
  return out;
}

const kept = new Map(); // what a trouble is about -> its item

function item(key) {
  let li = kept.get(key);
  if (!li) {
    li = make("li");
    li.parts = {};
    const head = make("p", "what"), facts = make("dl");
    li.append(head, facts);
    li.parts.head = head;
    for (const name of ["why", "next", "do"]) {
      facts.append(make("dt", "", name), (li.parts[name] = make("dd")));
    }
    kept.set(key, li);
    if (kept.size > 200) kept.delete(kept.keys().next().value);
  }
  return li;
}

function generalItem(t) {
  const li = item("/" + t.what.replace(/\d+/, ""));
  put(li.parts.head, t.what);
  put(li.parts.why, t.why);
  put(li.parts.next, t.next);
  put(li.parts.do, t.act);
  return li;
}

function troubleItem(c, choose, give) {
  const li = item(c.name), state = states.get(c.name), from = since(c, state);
  if (!li.parts.word) {
    const name = make("button", "name", c.name);
    name.type = "button";
    name.addEventListener("click", () => choose(c.name));
    li.parts.word = make("span", "state");
    li.parts.since = make("span", "since");
    li.parts.head.append(name, " ", li.parts.word, " ", li.parts.since);
  }
  li.parts.word.className = "state " + state.look;
  put(li.parts.word, state.word);
  put(li.parts.since, `since ${clock(from.at)}${from.by ? "" : " or before"}, ${seconds((now() - from.at) / 1000)}`);
  const why = from.by ? from.by.reason : c.reason;
  put(li.parts.why, why ? reason(why) : "nothing was decided about it yet");
  put(li.parts.next, whatNext(c, state));
  showDo(li, c, state, give);
  return li;
}

// whatNext says what Weir does by itself, and who serves meanwhile.
function whatNext(c, state) {
  const wait = c.wait_ns / 1e9, soon = wait > 0 && wait < 1e8 ? `in ${seconds(wait)}` : "when someone closes the breaker";
  const next = {
    key: "Nothing is tried until the key is mended.",
    open: c.breaker === "half_open" ? "One call of the whole fleet is being tried; it decides." : `One call of the whole fleet is tried ${soon}.`,
    held: `Calls start again in ${seconds(wait)}.`,
    refusing: `The window, ${slots(c.window_milli)} slots now, is fitted to what the provider takes, and grows again afterwards.`,
  }[state.kind];
  if (state.kind === "refusing") return next;
  const lost = [], served = [];
  for (const r of routesOf(c.name, states)) (r.serving ? served : lost).push(r);
  const by = [...new Set(served.map((r) => r.serving.who))];
  const names = (all) => all.slice(0, 3).map((r) => r.route).join(", ") + (all.length > 3 ? ` and ${all.length - 3} more` : "");
  return [next, served.length ? `Meanwhile ${names(served)} ${served.length === 1 ? "is" : "are"} served by ${by.slice(0, 2).join("; ")}.` : "", lost.length ? `Nothing else serves ${names(lost)}: its calls wait or are refused.` : ""].filter(Boolean).join(" ");
}

const advice = {
  key: [["resume", "after the key is mended in the agents' own file"]],
  open: [["close breaker", "to let calls start now"], ["pause", "to stop the tries too"]],
  held: [["resume", "to let calls start now"], ["release", "to end a hold of the provider's hint"]],
  refusing: [["set limit", "if you know what it takes"], ["pause", "to give it rest"]],
};

function showDo(li, c, state, give) {
  const acts = page.rewound ? [] : advice[state.kind] || [];
  const key = acts.map((a) => a[0]).join();
  if (li.parts.acts === key) return;
  li.parts.acts = key;
  li.parts.do.replaceChildren(...acts.map(([name, why]) => {
    const span = make("span", "act"), button = make("button", "", name);
    button.type = "button";
    button.setAttribute("aria-label", `${name}: ${c.name}`);
    button.addEventListener("click", () => give(name, c.name));
    span.append(button, " " + why);
    return span;
  }));
  if (!acts.length) li.parts.do.textContent = "–";
}

// ---- tables

function showChannels(choose) {
  const pools = new Map(page.last.pools.map((p) => [p.name, p]));
  for (const c of page.last.channels) {
    let row = rows.get(c.name);
    if (!row) rows.set(c.name, (row = addRow(c.name, choose)));
    const state = states.get(c.name);
    row.badness = state.bad;
    const look = "state " + state.look, chosen = c.name === page.chosen ? "chosen" : "";
    if (row.parts.state.className !== look) row.parts.state.className = look;
    if (row.className !== chosen) row.className = chosen;
    put(row.parts.state, state.word);
    const texts = [slots(c.window_milli), number(c.inflight), number(c.queued), rate(state.rate, "ok"), rate(state.rate, "refused"), rate(state.rate, "failed"),
      (c.weight_ppm / 10000).toFixed(0) + " %", c.latency_ppm ? (c.latency_ppm / 1e6).toFixed(2) + "×" : "–", left(pools.get("channel/" + c.name)), reason(c.reason)];
    for (let i = 0; i < texts.length; i++) put(row.parts.cells[i], texts[i]);
    if (row.parts.title !== c.reason) row.parts.cells[9].title = row.parts.title = c.reason;
  }
  const body = $("channels").tBodies[0];
  for (const [name] of rows) if (!states.has(name)) { rows.delete(name); forget(name); }
  if (rows.size !== body.rows.length || mayMove(body)) {
    sorted = Date.now();
    arrange(body, page.last.channels.map((c) => rows.get(c.name)).sort((a, b) => b.badness - a.badness));
  }
  if (!rows.size) fill(body, [], 0, "there is no channel yet");
}

// mayMove reports whether rows may change places: seldom, and not under the
// pointer or the focus of somebody who is about to choose one.
const mayMove = (body) => Date.now() - sorted > sortEvery && !body.matches(":hover, :focus-within");

function addRow(name, choose) {
  const row = document.createElement("tr"), head = make("th"), button = make("button", "name", name);
  head.scope = "row";
  button.type = "button";
  button.addEventListener("click", () => choose(name));
  head.append(button);
  const first = make("td"), state = make("span", "state");
  first.append(state);
  const cells = Array.from({ length: 10 }, (_, i) => make("td", i < 9 ? "n" : ""));
  row.append(head, first, ...cells);
  cells[9].append((cells[9] = make("div", "why")));
  row.parts = { state, cells };
  return row;
}

function left(p) {
  const out = [];
  if (p && p.requests_per_minute >= 0) out.push(compact(p.requests_left) + " req");
  if (p && p.tokens_per_minute >= 0) out.push(compact(p.tokens_left) + " tok");
  return out.join(", ") || "–";
}

// showRoutes says for each route who serves it, and whether that is a lesser tier.
function showRoutes() {
  const name = (i) => "L" + i;
  fill($("routes").tBodies[0], (page.last.routes || []).map((r) => {
    const up = serving(r, states);
    const state = !up ? "nothing serves it" : up.tier ? `degraded to ${name(up.tier)}` : "as it should be";
    return [r.name, state, up ? up.who : "–", r.tiers.map((t, i) => `${name(i)}${t.capability ? " (" + t.capability + ")" : ""}: ${t.rule ? "a fixed answer" : (t.channels || []).map((c) => c + mark(c)).join(", ")}`).join("   ")];
  }), 9, "there is no route yet");
}

function mark(channel) {
  const state = states.get(channel);
  return state && (state.bad >= 3 || state.kind === "held") ? ` (${state.kind === "held" ? "held" : "stopped"})` : "";
}

const from = (text) => (text ? ` (${text})` : "");

function showPools() {
  const shown = page.last.pools.filter((p) => p.requests_per_minute >= 0 || p.tokens_per_minute >= 0);
  const amount = (n, of) => (of < 0 ? "–" : number(n));
  fill($("pools").tBodies[0], shown.map((p) => [p.name, amount(p.requests_left, p.requests_per_minute), limit(p.requests_per_minute) + from(p.requests_from), amount(p.tokens_left, p.tokens_per_minute),
    limit(p.tokens_per_minute) + from(p.tokens_from), number(p.waiting_requests), p.wait_ns > 0 ? seconds(p.wait_ns / 1e9) : "–"]), 1, "no budget is told or learned");
}

function showDays() {
  const of = (f, unit) => number(f.used / unit) + (f.hard ? " of " + number(f.hard / unit) : "") + (f.soft ? ", warns at " + number(f.soft / unit) : "");
  const limited = (d) => [d.requests, d.tokens, d.cost_millionths].some((f) => f.soft || f.hard);
  const shown = (page.last.days || []).filter((d) => limited(d) || d.name.startsWith("tenant/"));
  fill($("days").tBodies[0], shown.map((d) => [d.name, d.stage, of(d.requests, 1), of(d.tokens, 1), of(d.cost_millionths, 1e6), moment(d.ends_unix_ns / 1e6)]), 2,
    "nothing is limited by the day, and there are no tenants");
}

const mostAgents = 100;

export function showAgents() {
  const worst = (a) => (a.state === "away" ? 0 : a.lost_attempts > 0 ? 1 : a.state === "here" ? 2 : 3);
  const all = page.agents.slice().sort((a, b) => worst(a) - worst(b) || (a.agent < b.agent ? -1 : 1));
  fill($("agents").tBodies[0], all.slice(0, mostAgents).map((a) => [a.agent, a.state, a.mode, a.version || "–", seconds(a.silent_ns / 1e9) + " ago", number(a.slots), number(a.inflight), number(a.queued), number(a.lost_attempts)]), 4, "no agent was heard yet");
  put($("agents-more"), all.length > mostAgents ? `and ${number(all.length - mostAgents)} more, of which none is away or has lost anything that those above have not` : "");
}

// shownState is the state of a channel as it is shown.
export const shownState = (name) => states.get(name);
