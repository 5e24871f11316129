(() => {
  "use strict";
  const { tone, axis, show, upright, shade, series, save, csv, redraw } = shared;
  const charts = JSON.parse(document.getElementById("chart-list").textContent);
  const cells = [...document.querySelectorAll(".cell")];
  const sync = uPlot.sync("phases");
  const height = 172;
  const root = document.documentElement;
  let plots = [];
  let run, seconds, tops; // tops: the upper end of each row's scale, one for all phases

  // instant is a second of a phase, in the unit of its length.
  const instant = s => seconds < 600 ? s + " s" : seconds < 14400 ? +(s / 60).toFixed(1) + " min" : +(s / 3600).toFixed(2) + " h";

  function read() {
    run = JSON.parse(document.getElementById("run").textContent);
    seconds = Math.max(...run.phases.map(p => p.seconds));
    tops = charts.map(c => {
      let top = c.top;
      for (const p of run.phases)
        for (const l of c.lines)
          if (!l.free) for (const v of p.samples[l.key]) if (v > top) top = v;
      return top > c.top ? top * 1.06 : top;
    });
  }

  // over draws the script's marks and the ticks of decisions.
  function over(u, phase) {
    for (const m of phase.marks) upright(u, m.at_s, tone("quiet"), [2, 4]);
    for (const d of phase.decisions ?? []) upright(u, d.at_s, tone("weir"), [], 5 * devicePixelRatio);
  }

  function options(chart, lines, row, phase, width) {
    return {
      width, height,
      padding: [8, 14, 0, 0],
      cursor: { sync: { key: sync.key, scales: ["x", null] }, points: { size: 5 }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: () => [0, tops[row]] } },
      axes: [
        { ...axis(), size: 26, values: (u, vs) => vs.map(instant) },
        { ...axis(), size: 46 },
      ],
      series: [
        { label: "at", value: (u, v) => v == null ? "–" : seconds < 600 ? show(v, " s") : instant(Math.round(v)) },
        ...lines.map(l => series(l, chart.unit)),
      ],
      hooks: { drawClear: [u => shade(u, run.counted_from_s)], draw: [u => over(u, run.phases[phase])] },
    };
  }

  // linesOf are the lines that a cell has anything of.
  const linesOf = cell => charts[cell.dataset.chart].lines.filter(l => run.phases[cell.dataset.phase].samples[l.key].some(v => v != null));
  const keysOf = lines => lines.map(l => l.key).join();

  function dataOf(cell, lines) {
    const s = run.phases[cell.dataset.phase].samples;
    return [s.t_s, ...(lines.length ? lines.map(l => s[l.key]) : [s.t_s.map(() => null)])];
  }

  function draw() {
    for (const p of plots) { sync.unsub(p); p.destroy(); }
    plots = cells.map(cell => {
      const { chart, phase } = cell.dataset, lines = linesOf(cell);
      const none = { label: run.phases[phase].samples.t_s.length ? "nobody decides here" : "not yet", tone: "quiet" };
      const u = new uPlot(options(charts[chart], lines.length ? lines : [none], chart, phase, cell.clientWidth), dataOf(cell, lines), cell);
      u.setScale("x", { min: 0, max: seconds });
      u.keys = keysOf(lines);
      return u;
    });
  }

  // renew puts in what another page of the same run has, and leaves the charts
  // where they are looked at.
  function renew(page) {
    const fresh = page.querySelectorAll("[data-part]");
    document.querySelectorAll("[data-part]").forEach((at, i) => at.replaceWith(fresh[i]));
    root.toggleAttribute("data-live", page.documentElement.hasAttribute("data-live"));
    read();
    if (plots.some((u, i) => u.keys !== keysOf(linesOf(cells[i])))) return draw();
    plots.forEach((u, i) => {
      const { min, max } = u.scales.x;
      u.setData(dataOf(cells[i], linesOf(cells[i])), false);
      u.setScale("x", { min, max });
    });
  }

  // follow takes the page anew each second while its run goes on.
  async function follow() {
    while (root.hasAttribute("data-live")) {
      await new Promise(done => setTimeout(done, 1000));
      try {
        const answer = await fetch(location.href, { cache: "no-store" });
        renew(new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch {
        document.getElementById("link").textContent = "Whoever runs it does not answer: this is how it stood when it last did.";
      }
    }
  }

  function table(samples) {
    const keys = Object.keys(samples);
    return csv([keys, ...samples.t_s.map((_, i) => keys.map(k => samples[k][i]))]);
  }

  for (const b of document.querySelectorAll("[data-save]"))
    b.addEventListener("click", () => {
      if (b.dataset.save === "json") return save("weir-run.json", "application/json", JSON.stringify(run, null, 1));
      const phase = run.phases[b.dataset.save];
      save("weir-" + phase.name.toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".csv", "text/csv", table(phase.samples));
    });

  redraw(draw, ".grid");
  read();
  draw();
  follow();
})();
