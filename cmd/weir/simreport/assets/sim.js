(() => {
  "use strict";
  const { tone, axis, upright, shade, series, save, csv, redraw } = shared;
  const $ = id => document.getElementById(id);
  const study = JSON.parse($("study").textContent);
  const cells = JSON.parse($("cell-list").textContent);
  const sync = uPlot.sync("sides");
  const tones = ["plain", "weir", "good", "bad", "bound", "quiet"];
  const chosen = { incident: null, seed: null, left: null, right: null };
  let plots = [];

  const incident = () => study.incidents.find(i => i.name === chosen.incident);
  const timeline = policy => study.timelines.find(t => t.incident === chosen.incident && t.seed === chosen.seed && t.policy === policy);
  const line = (label, tone, of, more) => ({ label, tone, of, ...more });

  // charts are the rows for two timelines. What only one of them has, a class
  // of refusals or a window, is an empty line in the other.
  function charts(sides) {
    const classes = [...new Set(sides.flatMap(t => t.classes.map(c => c.name)))];
    const channels = sides[0].channels.map(c => c.name);
    const of = key => t => t[key];
    const channel = (k, key) => t => t.channels[k][key];
    const rows = [
      { title: "Requests a second", unit: "/s", top: 1, lines: [
        line("could be served", "bound", of("could_have_served"), { dash: true }),
        line("completed", "good", of("completed"), { fill: true }),
        line("failed", "bad", of("failed")),
        line("offered", "quiet", of("wanted")),
      ] },
      { title: "Attempts a second at the providers", unit: "/s", top: 1, lines: [
        line("refused", "bad", of("refused"), { fill: true }),
        line("given up", "quiet", of("abandoned")),
        line("sent", "plain", of("sent")),
      ] },
    ];
    if (classes.length > 1)
      rows.push({ title: "Refused a second, by class", unit: "/s", top: 1, lines: classes.map((name, k) =>
        line(name, tones[k % tones.length], t => (t.classes.find(c => c.name === name) || { refused: t.t_s.map(() => 0) }).refused)) });
    rows.push({ title: "Calls at the providers", unit: "", top: 1, lines: [
      line("in flight", "plain", of("in_flight"), { fill: true }),
      line("true capacity", "bad", of("capacity"), { dash: true }),
      line("Weir's window", "weir", of("window"), { free: true }),
    ] });
    if (channels.length > 1)
      channels.forEach((name, k) => rows.push({ title: "Calls at the provider of " + name, unit: "", top: 1, lines: [
        line("in flight", "plain", channel(k, "in_flight"), { fill: true }),
        line("true capacity", "bad", channel(k, "capacity"), { dash: true }),
        line("Weir's window", "weir", channel(k, "window"), { free: true }),
      ] }));
    rows.push({ title: "Time of completed requests", unit: " s", top: .1, lines: [
      line("p50", "plain", of("p50_s")), line("p95", "weir", of("p95_s")), line("p99", "quiet", of("p99_s")),
    ] });
    for (const [key, title] of [["weight", "Weir's weight"], ["breaker", "Weir's breaker (1 open, ½ half-open)"]])
      rows.push({ title, unit: "", top: 1.05, low: true, lines: channels.map((name, k) =>
        line(name, tones[k % tones.length], channel(k, key), { step: key === "breaker" })) });
    return rows.filter(r => r.lines.some(l => sides.some(t => l.of(t).some(v => v != null))));
  }

  function over(u) {
    for (const m of incident().marks) upright(u, m.at_s, tone("muted"), [2, 4]);
  }

  const clock = s => s >= 600 ? (s / 60).toFixed(s % 60 ? 1 : 0) + " min" : s + " s";

  function plot(cell, chart, top, t) {
    let lines = chart.lines.filter(l => l.of(t).some(v => v != null));
    const data = [t.t_s, ...lines.map(l => l.of(t))];
    if (lines.length === 0) {
      lines = [{ label: "nobody decides here", tone: "quiet" }];
      data.push(t.t_s.map(() => null));
    }
    const u = new uPlot({
      width: cell.clientWidth, height: chart.low ? 120 : 172, padding: [8, 14, 0, 0],
      cursor: { sync: { key: sync.key, scales: ["x", null] }, points: { size: 5 }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: [0, top] } },
      axes: [{ ...axis(), size: 26, values: (u, vs) => vs.map(clock) }, { ...axis(), size: 50 }],
      series: [{ label: "at", value: (u, v) => v == null ? "–" : clock(v) }, ...lines.map(l => series(l, chart.unit))],
      hooks: { drawClear: [u => shade(u, incident().counted_from_s)], draw: [over] },
    }, data, cell);
    u.setScale("x", { min: 0, max: incident().seconds });
    plots.push(u);
  }

  // ceiling is the upper end of a row's scale. A few instants far above all
  // else would flatten the rest; they leave the picture.
  function ceiling(chart, sides) {
    const all = [];
    for (const t of sides) for (const l of chart.lines) if (!l.free) for (const v of l.of(t)) if (v != null) all.push(v);
    if (all.length === 0) return chart.top;
    all.sort((a, b) => a - b);
    const most = all[all.length - 1], nearly = all[Math.floor((all.length - 1) * .995)];
    const top = most > 3 * nearly && nearly > 0 ? nearly * 1.5 : most;
    return top > chart.top ? top * 1.06 : chart.top;
  }

  function drawRows() {
    for (const p of plots) { sync.unsub(p); p.destroy(); }
    plots = [];
    const rows = $("rows");
    rows.replaceChildren();
    const sides = [timeline(chosen.left), timeline(chosen.right)];
    if (!sides[0] || !sides[1]) return;
    for (const chart of charts(sides)) {
      const h = document.createElement("h3");
      h.textContent = chart.title;
      rows.append(h);
      const top = ceiling(chart, sides);
      for (const [k, t] of sides.entries()) {
        const cell = document.createElement("div");
        cell.className = "cell";
        cell.setAttribute("role", "img");
        cell.setAttribute("aria-label", chart.title + ", " + [chosen.left, chosen.right][k]);
        rows.append(cell);
        plot(cell, chart, top, t);
      }
    }
    drawSpread();
  }

  function drawSpread() {
    const cell = $("spread");
    cell.replaceChildren();
    const lines = study.timelines.filter(t => t.incident === chosen.incident && t.seed === chosen.seed && t.spread_s && t.spread_s.length);
    if (lines.length === 0) {
      cell.textContent = "No request was completed.";
      return;
    }
    const emphasis = t => t.policy === chosen.left || t.policy === chosen.right;
    const colour = t => t.policy === chosen.left ? "bound" : t.policy === chosen.right ? "weir" : "quiet";
    const x = lines[0].spread_s.map((_, i) => i);
    const positive = lines.flatMap(t => t.spread_s).filter(v => v > 0);
    const u = new uPlot({
      width: cell.clientWidth, height: 260, padding: [8, 14, 0, 0],
      cursor: { points: { size: 5 }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { distr: 3, range: [Math.min(...positive) * .9, Math.max(...positive) * 1.2] } },
      axes: [{ ...axis(), size: 26, values: (u, vs) => vs.map(v => v + " %") }, { ...axis(), size: 56, values: (u, vs) => vs.map(v => v == null ? "" : +v.toPrecision(2) + " s") }],
      series: [{ label: "of requests", value: (u, v) => v == null ? "–" : v + " %" },
        ...lines.map(t => ({ ...series({ label: t.policy, tone: colour(t) }, " s"), width: emphasis(t) ? 2 : 1 }))],
    }, [x, ...lines.map(t => t.spread_s.map(v => v > 0 ? v : null))], cell);
    plots.push(u);
  }

  const svg = (name, attributes, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text != null) e.textContent = text;
    return e;
  };

  // tick is a round step that divides a scale into at most four parts.
  function tick(top) {
    const raw = top / 4, unit = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map(m => m * unit).find(s => s >= raw);
  }

  // strip draws the seeds of every policy as dots on one scale.
  function strip(title, unit, of, spread, never) {
    const rows = study.policies.map(p => ({
      policy: p.name,
      runs: study.runs.filter(r => r.incident === chosen.incident && r.policy === p.name),
      spread: spread(cells.find(c => c.incident === chosen.incident && c.policy === p.name) || {}),
    })).filter(r => r.runs.length);
    const values = rows.flatMap(r => r.runs.map(of)).filter(v => v != null);
    if (values.length === 0 && !never) return null;
    const longest = Math.max(...rows.map(r => r.policy.length));
    const wide = 380, label = Math.min(150, 24 + 6.4 * longest), right = 26, high = 22, head = 4;
    const top = Math.max(...values, 1) * 1.02;
    const x = v => label + (wide - label - right) * Math.min(v / top, 1);
    const box = svg("svg", { class: "strip", viewBox: `0 0 ${wide} ${head + rows.length * high + 20}`, role: "img", "aria-label": title });
    for (let v = 0, s = tick(top); v <= top * 1.0001; v += s) {
      box.append(svg("line", { class: "rule", x1: x(v), x2: x(v), y1: head, y2: head + rows.length * high }));
      box.append(svg("text", { class: "muted", x: x(v), y: head + rows.length * high + 14, "text-anchor": "middle" }, unit === " %" ? Math.round(100 * v) + " %" : +v.toPrecision(3) + unit));
    }
    rows.forEach((r, k) => {
      const y = head + (k + .5) * high;
      box.append(svg("text", { x: label - 8, y: y + 4, "text-anchor": "end" }, r.policy.length > 20 ? r.policy.slice(0, 19) + "…" : r.policy));
      if (r.runs.length > 1 && r.spread && r.spread.low != null)
        box.append(svg("line", { class: "range", x1: x(r.spread.low), x2: x(r.spread.high), y1: y, y2: y }));
      for (const run of r.runs) {
        const v = of(run);
        if (v == null) {
          const at = wide - right + 12;
          box.append(svg("path", { class: "bad", d: `M${at - 4} ${y - 4}l8 8m0 -8l-8 8` }));
          continue;
        }
        box.append(svg("circle", { class: "dot", cx: x(v), cy: y, r: 3 }));
        if (run.collapsed) box.append(svg("circle", { class: "bad", cx: x(v), cy: y, r: 5.5 }));
      }
      if (r.spread && r.spread.median != null)
        box.append(svg("line", { class: "middle", x1: x(r.spread.median), x2: x(r.spread.median), y1: y - 7, y2: y + 7 }));
    });
    const figure = document.createElement("div"), h = document.createElement("h3");
    h.textContent = title;
    figure.append(h, box);
    return figure;
  }

  function drawStrips() {
    const changes = incident().last_change_s > 0;
    $("strips").replaceChildren(...[
      strip("Goodput, of the oracle's", " %", r => r.goodput_ratio, c => c.goodput_ratio),
      strip("Wasted attempts", " %", r => r.waste_ratio, c => c.waste_ratio),
      changes ? strip("Time to recover", " s", r => r.recover_s, c => c.recover_s, true) : null,
      strip("Request time, 99th percentile", " s", r => r.p99_s, c => c.p99_s),
    ].filter(Boolean));
  }

  const options = (select, values, value, text) => {
    select.replaceChildren(...values.map(v => {
      const o = document.createElement("option");
      o.value = v;
      o.textContent = text ? text(v) : v;
      return o;
    }));
    select.value = value;
    select.disabled = values.length < 2;
  };

  const about = name => (study.policies.find(p => p.name === name) || { about: "" }).about;

  // choose fills the selectors with what there is and draws it.
  function choose(want) {
    Object.assign(chosen, want);
    const known = [...new Set(study.timelines.map(t => t.incident))];
    if (!known.includes(chosen.incident)) chosen.incident = known[0];
    const mine = study.timelines.filter(t => t.incident === chosen.incident);
    const seeds = [...new Set(mine.map(t => t.seed))];
    if (!seeds.includes(chosen.seed)) chosen.seed = seeds[0];
    const policies = mine.filter(t => t.seed === chosen.seed).map(t => t.policy);
    if (!policies.includes(chosen.left)) chosen.left = policies.includes("none") ? "none" : policies[0];
    if (!policies.includes(chosen.right)) chosen.right = policies.includes("weir") ? "weir" : policies[policies.length - 1];
    options($("incident"), known, chosen.incident);
    options($("seed"), seeds, chosen.seed, s => s === study.seeds[0] ? s : s + " (the worst)");
    options($("left"), policies, chosen.left);
    options($("right"), policies, chosen.right);
    $("about").textContent = incident().about;
    $("left-about").textContent = about(chosen.left);
    $("right-about").textContent = about(chosen.right);
    $("marks").replaceChildren(...incident().marks.map(m => {
      const li = document.createElement("li"), b = document.createElement("b");
      b.textContent = clock(m.at_s);
      li.append(b, " " + m.text);
      return li;
    }));
    for (const td of document.querySelectorAll(".heat td"))
      td.classList.toggle("shown", td.dataset.incident === chosen.incident && [chosen.left, chosen.right].includes(td.dataset.policy));
    drawRows();
    drawStrips();
  }

  function columns(t) {
    const flat = Object.entries(t).filter(([k, v]) => Array.isArray(v) && v.length === t.t_s.length && typeof v[0] !== "object" && k !== "spread_s" || k === "t_s");
    for (const c of t.classes) flat.push(["refused_" + c.name, c.refused]);
    for (const c of t.channels) for (const k of ["in_flight", "capacity", "window", "weight", "breaker"]) flat.push([c.name + "_" + k, c[k]]);
    return [flat.map(f => f[0]), ...t.t_s.map((_, i) => flat.map(f => f[1][i]))];
  }

  for (const b of document.querySelectorAll("[data-save]"))
    b.addEventListener("click", () => {
      const what = b.dataset.save;
      if (what === "json") return save("weir-sim.json", "application/json", JSON.stringify(study, null, 1));
      if (what === "runs") {
        const keys = Object.keys(study.runs[0] || {});
        return save("weir-sim-runs.csv", "text/csv", csv([keys, ...study.runs.map(r => keys.map(k => r[k]))]));
      }
      const t = timeline(chosen[what]);
      if (t) save(["weir-sim", t.incident, t.policy, t.seed].join("-") + ".csv", "text/csv", csv(columns(t)));
    });

  for (const td of document.querySelectorAll(".heat td")) {
    const pick = () => {
      const policy = td.dataset.policy;
      choose(policy === "none" ? { incident: td.dataset.incident, left: policy } : { incident: td.dataset.incident, right: policy });
      $("over-time").scrollIntoView({ behavior: "smooth" });
    };
    td.addEventListener("click", pick);
    td.addEventListener("keydown", e => { if (e.key === "Enter") pick(); });
  }
  $("incident").addEventListener("change", e => choose({ incident: e.target.value }));
  $("seed").addEventListener("change", e => choose({ seed: Number(e.target.value) }));
  $("left").addEventListener("change", e => choose({ left: e.target.value }));
  $("right").addEventListener("change", e => choose({ right: e.target.value }));

  redraw(drawRows, ".grid, #spread");
  if (study.timelines.length) choose({});
})();
