// What the page's parts share: elements, numbers and times as people read them.

export const $ = (id) => document.getElementById(id);

// put writes a text where it is not there yet. What was written is remembered,
// since asking an element for its text costs more than writing it.
export function put(at, text) {
  if (at.written === text) return;
  at.written = text;
  at.textContent = text;
}

// make makes an element with a class and a text.
export function make(tag, className = "", text = "") {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text) put(e, text);
  return e;
}

const whole = new Intl.NumberFormat(), short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }), tenth = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
export const number = (n) => whole.format(n);
export const compact = (n) => (n < 10000 ? whole : short).format(n);
export const fraction = (n) => tenth.format(n);
export const count = (n, one) => number(n) + " " + one + (n === 1 ? "" : "s");

export function seconds(s) {
  return s < 90 ? Math.max(0, Math.round(s)) + " s" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
}

const times = new Intl.DateTimeFormat([], { hour12: false, hour: "2-digit", minute: "2-digit", second: "2-digit" });
const hours = new Intl.DateTimeFormat([], { hour12: false, hour: "2-digit", minute: "2-digit" });
const days = new Intl.DateTimeFormat([], { month: "short", day: "numeric" });
const moments = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium", hour12: false });

// clock is an instant, in milliseconds, as precise as a step in seconds asks for.
export const clock = (ms, step = 1) => (step >= 86400 ? days : step < 60 ? times : hours).format(ms);
export const moment = (ms) => moments.format(ms);

// amounts
export const slots = (milli) => (milli / 1000).toFixed(milli < 10000 && milli % 1000 ? 1 : 0);
export const rate = (r, key) => (!r ? "–" : r[key] ? r[key].toFixed(r[key] < 10 ? 1 : 0) : "0");
export const limit = (n) => (n < 0 ? "no limit" : number(n));

// reason is a reason as people read it: without the rule that stands before
// some, and without the nanoseconds of its times.
export function reason(text) {
  return text.replace(/^(?:(?:window|latency|breaker|budget|weight|tenant)\.[a-z_]+|agent|config|params|command|term|rebase): /, "")
    .replace(/\b(?:(\d+)h)?(?:(\d+)m)?(\d+\.\d+)s\b/g, (_, h = 0, m = 0, s) => duration(h * 3600 + m * 60 + Number(s)));
}

function duration(s) {
  if (s < 10) return s.toFixed(1) + "s";
  s = Math.round(s);
  const parts = [[Math.floor(s / 3600), "h"], [Math.floor(s / 60) % 60, "m"], [s % 60, "s"]].filter(([n]) => n > 0);
  return parts.map(([n, unit]) => n + unit).join("");
}

// change is the number that a decision changed, in the unit of what changed it.
export function change(d) {
  const [unit, name] = /^(window|latency|breaker)/.test(d.rule) ? [1000, " slots"] : d.rule.startsWith("weight") ? [10000, " %"] : [1, ""];
  return `${fraction(d.before / unit)} to ${fraction(d.after / unit)}${name}`;
}

// fill makes a table's body these rows. From column right on they are numbers.
export function fill(body, table, right, none) {
  if (!table.length) {
    const row = document.createElement("tr");
    row.append(Object.assign(make("td", "none", none), { colSpan: 20 }));
    body.replaceChildren(row);
    return;
  }
  while (body.rows.length > table.length) body.deleteRow(-1);
  table.forEach((texts, i) => {
    let row = body.rows[i];
    if (!row || row.cells.length !== texts.length) {
      const fresh = document.createElement("tr");
      fresh.append(...texts.map((_, k) => make("td", k >= right ? "n" : "")));
      if (row) row.replaceWith(fresh); else body.append(fresh);
      row = fresh;
    }
    texts.forEach((text, k) => put(row.cells[k], text));
  });
}

// arrange makes the children of an element these, and moves only those that
// are not in their place.
export function arrange(at, items) {
  let next = at.firstElementChild;
  for (const item of items) {
    if (item === next) next = next.nextElementSibling;
    else at.insertBefore(item, next);
  }
  while (next) { const gone = next; next = next.nextElementSibling; gone.remove(); }
}
