// What the page knows, and how it asks its controller.

import { seconds } from "./words.js";

const keepLive = 3700;   // points of the page's own per channel, one a second
const keepFeed = 500;    // decisions in the feed
const rateOver = 10;     // seconds over which rates are taken

export const page = {
  last: null,            // what is shown: the newest telling, or a moment that is over
  live: null,            // the newest telling
  rewound: null,         // the moment that is shown, null for now
  heard: 0,              // when, by this browser's clock
  agents: [],            // as they were last asked for
  feed: [],              // decisions, the newest first
  token: "",             // kept in memory only
  chosen: decodeURIComponent(location.hash.replace(/^#\/?/, "")), // #/NAME, which names no element
};

export const points = new Map(); // channel -> the page's own points
const first = new Map();         // channel -> since when the page saw its state

// decisions are those of the moment that is shown.
export const decisions = () => (page.rewound ? page.rewound.decisions : page.feed);

export const now = () => (page.rewound ? page.rewound.unix * 1000 : page.last ? page.last.unix_ms : Date.now());

// ---- asking

export function headers(more) {
  return page.token ? { ...more, Authorization: "Bearer " + page.token } : { ...more };
}

export async function ask(path) {
  const answer = await fetch(path, { headers: headers() });
  if (answer.status === 401 && enterToken()) return ask(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

export async function order(path, body) {
  const answer = await fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error || answer.statusText);
}

// enterToken asks for the token that looking from another machine needs.
export function enterToken() {
  const entered = window.prompt("This controller shows itself to other machines only with its token:");
  if (entered) page.token = entered.trim();
  return Boolean(entered);
}

// ---- what was told

// hear takes a telling and returns whether it brought decisions.
export function hear(telling) {
  page.live = telling;
  page.heard = Date.now();
  for (const c of telling.channels) keepPoint(c, Math.floor(telling.unix_ms / 1000));
  const known = page.feed.length ? page.feed[0].seq : 0;
  const fresh = telling.decisions.filter((d) => d.seq > known);
  if (fresh.length) page.feed = fresh.concat(page.feed).slice(0, keepFeed);
  if (!page.rewound) page.last = telling;
  return fresh.length > 0;
}

// before adds decisions from before the page was opened.
export function before(old) {
  const oldest = page.feed.length ? page.feed[page.feed.length - 1].seq : Infinity;
  page.feed = page.feed.concat(old.filter((d) => d.seq < oldest)).slice(0, keepFeed);
}

const refusals = new Set(["rate_limited", "overloaded", "quota_exhausted", "auth"]);

function keepPoint(c, unix) {
  let ok = 0, refused = 0, failed = 0;
  for (const name in c.attempts) {
    const n = c.attempts[name];
    if (name === "ok") ok += n;
    else if (refusals.has(name)) refused += n;
    else if (name !== "invalid" && name !== "canceled") failed += n;
  }
  let all = points.get(c.name);
  if (!all) points.set(c.name, (all = []));
  if (all.length && all[all.length - 1].unix >= unix) all.pop();
  all.push({ unix, window: c.window_milli / 1000, leased: c.leased_slots, inflight: c.inflight, queued: c.queued,
    weight: c.weight_ppm / 10000, latency: c.latency_ppm ? c.latency_ppm / 10000 : null, ok, refused, failed });
  if (all.length > keepLive * 1.1) all.splice(0, all.length - keepLive);
}

// rates are attempts a second over the last seconds.
export function rates(name) {
  const all = points.get(name);
  if (page.rewound || !all || all.length < 2) return null;
  const b = all[all.length - 1];
  let i = all.length - 1;
  while (i > 0 && all[i - 1].unix >= b.unix - rateOver) i--;
  const a = all[i], span = b.unix - a.unix;
  if (!span) return null;
  return { ok: (b.ok - a.ok) / span, refused: (b.refused - a.refused) / span, failed: (b.failed - a.failed) / span };
}

// ---- what a channel's state means

// stateOf is a channel's state: its look, a word, how bad it is (from 2 on it
// is a trouble), and its kind.
export function stateOf(c, rate) {
  const wait = c.wait_ns / 1e9;
  if (c.breaker === "misconfigured") return { look: "bad", word: "refuses the key", bad: 5, kind: "key" };
  if (c.breaker === "open") return { look: "bad", word: "stopped" + (wait > 0 && wait < 1e8 ? ", tried in " + seconds(wait) : ""), bad: 4, kind: "open" };
  if (c.breaker === "half_open") return { look: "bad", word: "being probed", bad: 3, kind: "open" };
  if (wait > 0) return { look: "slow", word: "held for " + seconds(wait), bad: 2, kind: "held" };
  if (c.mode === "observe") return { look: "seen", word: "only watched", bad: 0, kind: "observe" };
  if (rate && rate.refused > 0.02 * (rate.ok + rate.refused + rate.failed)) return { look: "slow", word: "refusing", bad: 2, kind: "refusing" };
  if (c.queued > 0) return { look: "slow", word: "full, " + c.queued + " wait", bad: 1, kind: "full" };
  return { look: "ok", word: "takes calls", bad: 0, kind: "ok" };
}

// begins are the rules by which a state begins, ends those by which it was over.
const begins = { open: ["breaker.open"], key: ["breaker.open"], held: ["budget.hold", "command", "budget.day"] };
const ends = { open: ["breaker.close"], key: ["breaker.close"], held: [] };

// since is when a channel's state began in milliseconds, and the decision that
// began it; without one it is when the page saw it first.
export function since(c, state) {
  const seen = first.get(c.name);
  if (!seen || seen.kind !== state.kind) first.set(c.name, { kind: state.kind, at: now() });
  let found = null;
  for (const d of begins[state.kind] ? decisions() : []) {
    if (d.channel !== c.name) continue;
    if (ends[state.kind].includes(d.rule)) break;
    if (begins[state.kind].includes(d.rule)) {
      found = d;
      if (state.kind === "held") break;
    }
  }
  return { at: found ? found.at_ns / 1e6 : first.get(c.name).at, by: found };
}

// forget drops what is known of channels that are gone.
export function forget(name) {
  points.delete(name);
  first.delete(name);
}

// routesOf are the routes that a channel serves, and who serves them instead
// while it takes no calls.
export function routesOf(name, stateByName) {
  const out = [];
  for (const r of page.last.routes || []) {
    const at = r.tiers.findIndex((t) => (t.channels || []).includes(name));
    if (at >= 0) out.push({ route: r.name, tier: at, serving: serving(r, stateByName) });
  }
  return out;
}

// serving is the first tier of a route that takes calls, null for none.
export function serving(route, stateByName) {
  for (let i = 0; i < route.tiers.length; i++) {
    const t = route.tiers[i];
    const up = (t.channels || []).filter((c) => (stateByName.get(c)?.bad ?? 0) < 3 && stateByName.get(c)?.kind !== "held");
    if (t.rule) return { tier: i, who: "a fixed answer" };
    if (up.length) return { tier: i, who: up.join(", ") };
  }
  return null;
}
