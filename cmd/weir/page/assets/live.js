// The page of a running controller. It asks for nothing beyond the controller
// that served it, and puts what it is told into the page as text only.

import { $, put, make, number, seconds, clock, moment, reason, change, fill, arrange } from "./words.js";
import { page, ask, headers, enterToken, hear, before, decisions } from "./state.js";
import * as tables from "./tables.js";
import * as one from "./one.js";
import * as orders from "./order.js";

const staleAfter = 5000; // milliseconds without news

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
        for (const e of events) if (e.startsWith("data: ")) { told(JSON.parse(e.slice(6))); wait = 500; }
      }
    } catch (fault) {
      showLink(String(fault.message || fault));
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

function told(telling) {
  const first = !page.heard;
  const fresh = hear(telling);
  showLink("");
  if (first) { showAgents(); showParams(); }
  if (page.rewound || document.hidden) return;
  showState();
  if (fresh || first) showFeeds();
}

function showState() {
  tables.show(choose, orders.open);
  orders.show(page.chosen);
  one.show();
}

// ---- the link

function showLink(fault) {
  const age = Date.now() - page.heard;
  document.body.classList.toggle("over", Boolean(page.rewound));
  if (page.rewound) {
    $("link").className = "link stale";
    put($("link"), `as it was at ${moment(page.rewound.unix * 1000)}, record ${number(page.rewound.seq)}`);
    return;
  }
  const stale = Boolean(fault) || !page.heard || age > staleAfter;
  document.body.classList.toggle("stale", stale && page.heard > 0);
  $("link").className = stale ? "link stale" : "link";
  put($("link"), !page.heard ? "connecting" + (fault ? ": " + fault : "") : stale ? "no news for " + seconds(age / 1000) + (fault ? ": " + fault : "") + "; what you see is old" : "live");
}

// ---- moments that are over

// rewind shows the fleet as it was at a time in seconds since 1970.
async function rewind(unix) {
  put($("then-fault"), "");
  try {
    const was = await ask("api/v1/at?time=" + unix);
    page.rewound = was;
    page.agents = was.agents;
    const status = page.live ? page.live.status : { fleet: "", version: "" };
    page.last = { channels: was.channels, pools: was.pools, days: was.days, routes: was.routes, status: { ...status, controller: was.leader, leader: was.leader, leads: true, term: was.term, seq: was.seq,
      channels: was.channels.length, agents: was.agents.length, lag_events: 0, outbox_failure: "", log_faults: [] } };
    showMoment();
  } catch (fault) {
    put($("then-fault"), String(fault.message || fault));
  }
}

function backToNow() {
  page.rewound = null;
  $("then").value = "";
  put($("then-fault"), "");
  if (page.live) page.last = page.live;
  showMoment();
}

function showMoment() {
  $("now").hidden = !page.rewound;
  $("actions").hidden = Boolean(page.rewound);
  history.replaceState(null, "", (page.rewound ? "?at=" + page.rewound.unix : location.pathname) + location.hash);
  one.anew();
  showLink("");
  if (page.last) showState();
  showFeeds();
  showAgents();
  load();
}

// ---- decisions

const items = new WeakMap(); // decision -> its item in each list

function showFeeds() {
  const words = $("find").value.trim().toLowerCase();
  const fits = (d) => !words || [d.channel, d.agent, d.rule, d.reason].some((t) => t && t.toLowerCase().includes(words));
  list($("feed"), decisions().filter(fits), true, words ? "nothing that was decided lately has these words" : "nothing was decided yet");
  if (page.chosen) list($("one-feed"), one.feed(), false, "nothing was decided about it yet");
}

function list(at, all, named, none) {
  const shown = all.slice(0, 200).map((d) => {
    let known = items.get(d);
    if (!known) items.set(d, (known = {}));
    return (known[at.id] ??= entry(d, named));
  });
  arrange(at, shown.length ? shown : [make("li", "none", none)]);
}

function entry(d, named) {
  const item = make("li", d.rule.split(".")[0]), when = make("time", "", clock(d.at_ns / 1e6));
  when.dateTime = new Date(d.at_ns / 1e6).toISOString();
  when.title = `${moment(d.at_ns / 1e6)}, record ${d.seq}`;
  const who = make("b", "", named ? [d.channel, d.agent].filter(Boolean).join(" ") : d.agent || "");
  item.append(when, who, make("span", "rule", d.rule), make("span", "", reason(d.reason) + (d.before !== d.after ? ` (${change(d)})` : "")));
  return item;
}

// ---- one channel

async function choose(name) {
  page.chosen = name;
  history.replaceState(null, "", "#/" + encodeURIComponent(name));
  one.anew();
  if (page.last) { showState(); showFeeds(); }
  $("one").scrollIntoView({ block: "nearest" });
  await load();
}

function load() {
  return one.load(() => { one.again(); if (page.last) one.show(); showFeeds(); });
}

// ---- now and then

async function showAgents() {
  if (document.hidden || !page.heard) return;
  try {
    if (!page.rewound) page.agents = (await ask("api/v1/agents")).agents;
    tables.showAgents();
  } catch { /* the link's state says it */ }
}

let parameters = null;

async function showParams() {
  if (document.hidden || !page.heard) return;
  try {
    const p = parameters = await ask("api/v1/params");
    put($("params-about"), `${p.name || "the defaults"}, hash ${p.hash}` + (p.by ? `, by ${p.by}` : "") + (p.why ? `: ${p.why}` : "") + (p.seq ? `, since record ${number(p.seq)}` : "") + watched(p.watched));
    fill($("params").tBodies[0], Object.entries(p.params).map(([name, n]) => [name, inUnit(n, p.units[name])]), 1, "none");
    const { decisions } = await ask("api/v1/decisions?rule=params&limit=20");
    list($("params-feed"), decisions, true, "none was ever pushed");
  } catch { /* the link's state says it */ }
}

function inUnit(n, unit) {
  if (unit === "ns") return n % 1e9 ? number(n / 1e6) + " ms" : number(n / 1e9) + " s";
  return unit === "ppm" ? number(n / 1e4) + " %" : `${number(n)} ${unit}`;
}

function watched(g) {
  if (!g) return "";
  const change = (ppm) => (ppm > 0 ? "+" : "") + (ppm / 1e4).toFixed(1) + " %";
  const figures = g.enough ? `goodput ${change(g.goodput_ppm)} (tolerated ${change(g.goodput_min_ppm)}), waste ${change(g.waste_ppm)} (tolerated ${change(g.waste_max_ppm)})` : "too little to judge yet";
  return `. Watched for ${seconds(g.left_ns / 1e9)} more: ${g.name} (${g.hash})` + (g.canary ? ` on ${g.canary} alone` : "") + `, ${figures}`;
}

$("find").addEventListener("input", showFeeds);
$("now").addEventListener("click", backToNow);
$("push").addEventListener("click", () => { if (parameters) orders.push(parameters.params, parameters.units); });
$("order").addEventListener("close", () => setTimeout(showParams, 300));
$("then").addEventListener("change", () => {
  const unix = Math.floor(new Date($("then").value).getTime() / 1000);
  if (unix > 0) rewind(unix); else backToNow();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && page.last) { showState(); showFeeds(); showAgents(); } });
setInterval(() => showLink(""), 1000);
setInterval(showAgents, 5000);
setInterval(showParams, 30000);
ask("api/v1/decisions?limit=500").then(({ decisions }) => { before(decisions); showFeeds(); }).catch(() => {});
if (page.chosen) load();
const asked = Number(new URLSearchParams(location.search).get("at"));
if (asked > 0) rewind(asked);
follow();
