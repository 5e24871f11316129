(() => {
  "use strict";
  const { tone, axis, upright, save, redraw } = shared;
  const $ = id => document.getElementById(id);
  const study = JSON.parse($("study").textContent);
  const show = v => v == null ? "–" : v.toFixed(4);
  const most = 8; // slices
  let plots = [];

  // dots is a series of points without a line.
  const dots = (label, colour, size, hollow) => ({
    label, stroke: tone(colour), paths: () => null, value: (u, v) => show(v),
    points: { show: true, size, stroke: tone(colour), fill: hollow ? tone("card") : tone(colour), width: 1 },
  });
  const line = (label, colour, more) => ({ label, stroke: tone(colour), width: 1.75, spanGaps: true, points: { show: false }, value: (u, v) => show(v), ...more });

  // range leaves the worst twentieth out: one bad set would flatten all others.
  function range(values) {
    const v = values.filter(x => x != null).sort((a, b) => a - b);
    if (v.length === 0) return [0, 1];
    const low = v[0], high = v[Math.floor((v.length - 1) * .95)];
    const pad = Math.max((high - low) * .08, 1e-4);
    return [low - pad, high + pad];
  }

  function plot(cell, height, x, across, scale, axisX, series, data, hooks) {
    const u = new uPlot({
      width: cell.clientWidth, height, padding: [10, 14, 0, 0],
      cursor: { points: { size: 6 }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: scale } },
      axes: [{ ...axis(), size: 28, ...axisX }, { ...axis(), size: 58 }],
      series: [x, ...series], hooks: hooks || {},
    }, data, cell);
    if (across) u.setScale("x", { min: across[0], max: across[1] });
    plots.push(u);
  }

  function history() {
    const t = study.trials;
    let best = null;
    const bests = t.map(o => (o.best && (best === null || o.score < best) && (best = o.score), best));
    const selected = t.map(o => o.selected);
    if (selected.some(v => v != null)) { // holds until the next that was taken there
      for (let i = 1, last = selected[0]; i < t.length; i++)
        selected[i] == null || !t[i].best ? selected[i] = last : last = selected[i];
    }
    const [low, high] = range(t.map(o => o.score));
    plot($("history"), 300, { label: "trial", value: (u, v) => v == null ? "–" : String(v) }, null, [low, Math.max(high, ...selected.map(v => v == null ? high : v + (high - low) * .05))], {}, [
      dots("dropped", "quiet", 5, true), dots("every run", "plain", 5),
      line("best so far", "good", { paths: uPlot.paths.stepped({ align: 1 }) }),
      line("hold-out", "weir", { dash: [5, 4], paths: uPlot.paths.stepped({ align: 1 }) }),
    ], [t.map(o => o.id), t.map(o => o.full ? null : o.score), t.map(o => o.full ? o.score : null), bests, selected]);
  }

  function front() {
    const a = +$("across").value, b = +$("up").value;
    const t = study.trials.filter(o => o.full && !o.broken).sort((p, q) => p.losses[a] - q.losses[a] || p.id - q.id);
    const share = v => v == null ? "–" : (100 * v).toFixed(1) + " %";
    const dot = (label, colour, size, of) => [{ ...dots(label, colour, size), value: (u, v) => share(v) }, t.map(o => of(o) ? o.losses[b] : null)];
    const all = [dot("every run", "quiet", 5, o => !o.front && o.id > 0), dot("on the front", "weir", 7, o => o.front && o.id > 0), dot("in force", "bad", 9, o => o.id === 0)];
    plot($("front"), 320, { label: study.objectives[a], value: (u, v) => share(v) }, range(t.map(o => o.losses[a])), range(t.map(o => o.losses[b])),
      { values: (u, vs) => vs.map(share) }, all.map(s => s[0]), [t.map(o => o.losses[a]), ...all.map(s => s[1])]);
  }

  // valueAt is the value at a place in a parameter's range, as text.
  function valueAt(p, at) {
    const shift = p.min > 0 ? 0 : 1 - p.min;
    const v = p.log ? Math.exp(Math.log(p.min + shift) + at * (Math.log(p.max + shift) - Math.log(p.min + shift))) - shift : p.min + at * (p.max - p.min);
    const short = x => x >= 100 ? x.toFixed(0) : x.toPrecision(2);
    if (p.unit === "ppm") return short(v / 1e6);
    if (p.unit === "milli-slots") return short(v / 1e3);
    if (p.unit === "ns") return v >= 1e9 ? short(v / 1e9) + " s" : short(v / 1e6) + " ms";
    return short(v);
  }

  function slices() {
    const box = $("slices");
    box.replaceChildren();
    const params = study.params.map((p, k) => ({ ...p, k })).filter(p => p.share >= .005).sort((a, b) => b.share - a.share).slice(0, most);
    const scale = range(study.trials.map(o => o.score));
    for (const p of params) { // all of them first: they share the width
      const cell = document.createElement("div"), title = document.createElement("h3");
      title.textContent = p.name;
      cell.append(title);
      box.append(cell);
    }
    for (const [i, p] of params.entries()) {
      const cell = box.children[i];
      const t = study.trials.filter(o => o.score != null).sort((a, b) => a.at[p.k] - b.at[p.k] || a.id - b.id);
      const marks = [[place(p, p.before), []]];
      if (study.found && p.before !== p.after) marks.push([place(p, p.after), [4, 4]]);
      plot(cell, 170, { label: "value", value: (u, v) => v == null ? "–" : valueAt(p, v) }, null, scale,
        { values: (u, vs) => vs.map(v => valueAt(p, v)) },
        [dots("dropped", "quiet", 4, true), dots("every run", "plain", 5)],
        [t.map(o => o.at[p.k]), t.map(o => o.full ? null : o.score), t.map(o => o.full ? o.score : null)],
        { draw: [u => { for (const m of marks) upright(u, m[0], tone("muted"), m[1]); }] });
    }
  }

  // moves draws each incident that moved most: what was completed, and what the
  // providers had in hand.
  function moves() {
    const box = $("moves");
    if (!box) return;
    box.replaceChildren();
    const cells = [];
    for (const m of study.moves) { // all of them first: they share the width
      for (const of of ["completed a second", "in flight"]) {
        const cell = document.createElement("div"), title = document.createElement("h3");
        title.textContent = `${m.before.incident}, ${show(m.gain)} gained: ${of}`;
        cell.append(title);
        box.append(cell);
        cells.push(cell);
      }
    }
    const number = (label, colour, more) => line(label, colour, { value: (u, v) => v == null ? "–" : v.toFixed(1), ...more });
    const second = { label: "second", value: (u, v) => v == null ? "–" : v.toFixed(0) };
    for (const [i, m] of study.moves.entries()) {
      const pair = (cell, bound, most, of) => plot(cell, 190, second, null, (u, min, max) => [0, max > 0 ? max * 1.05 : 1], {},
        [number(bound, "quiet", { dash: [2, 3] }), number("in force", "plain"), number("found", "weir")], [m.before.t_s, most, m.before[of], m.after[of]]);
      pair(cells[2 * i], "could have been", m.before.could_have_served, "completed");
      pair(cells[2 * i + 1], "true cap", m.before.capacity, "in_flight");
    }
  }

  // place is where a value lies in a parameter's range.
  function place(p, v) {
    const shift = p.min > 0 ? 0 : 1 - p.min;
    if (!p.log) return (v - p.min) / (p.max - p.min);
    return (Math.log(v + shift) - Math.log(p.min + shift)) / (Math.log(p.max + shift) - Math.log(p.min + shift));
  }

  function draw() {
    for (const p of plots) p.destroy();
    plots = [];
    history();
    front();
    slices();
    moves();
  }

  for (const [id, chosen] of [["across", 0], ["up", 1]]) {
    for (const [k, name] of study.objectives.entries()) $(id).add(new Option(name, k, false, k === chosen));
    $(id).addEventListener("change", draw);
  }
  $("save").addEventListener("click", () => save("weir-tune.json", "application/json", JSON.stringify(study, null, 1)));
  redraw(draw);
  draw();
})();
