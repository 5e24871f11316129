// What the scripts of all reports share.
const shared = (() => {
  "use strict";
  const root = document.documentElement;
  const tone = name => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const axis = () => ({ stroke: tone("muted"), font: "11px " + tone("sans"), grid: { stroke: tone("rule"), width: 1 }, ticks: { show: false } });
  const show = (v, unit) => v == null ? "–" : (Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(2)) + unit;

  // place is where a value of x lies on the canvas, null beside the chart.
  function place(u, at) {
    const x = Math.round(u.valToPos(at, "x", true)) + .5;
    return x < u.bbox.left || x > u.bbox.left + u.bbox.width ? null : x;
  }

  // upright draws a line at a value of x, as high as the chart or from its floor.
  function upright(u, at, color, dash, height = u.bbox.height) {
    const x = place(u, at), floor = u.bbox.top + u.bbox.height;
    if (x === null) return;
    u.ctx.save();
    u.ctx.strokeStyle = color;
    u.ctx.lineWidth = devicePixelRatio;
    u.ctx.setLineDash(dash.map(d => d * devicePixelRatio));
    u.ctx.beginPath();
    u.ctx.moveTo(x, floor);
    u.ctx.lineTo(x, floor - height);
    u.ctx.stroke();
    u.ctx.restore();
  }

  // shade marks the start that is not counted.
  function shade(u, until) {
    const left = Math.max(u.bbox.left, u.valToPos(0, "x", true));
    const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(until, "x", true));
    if (right <= left) return;
    u.ctx.fillStyle = tone("shade");
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
  }

  // series is a line of a chart.
  const series = (l, unit) => ({
    label: l.label, stroke: tone(l.tone), width: l.tone === "quiet" ? 1 : 1.75,
    dash: l.dash ? [5, 4] : undefined, fill: l.fill ? tone(l.tone) + "22" : undefined,
    paths: l.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
    points: { show: false }, value: (u, v) => show(v, unit),
  });

  function save(name, type, text) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([text], { type }));
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  }

  const csv = rows => rows.map(r => r.map(v => v ?? "").join(",")).join("\n") + "\n";

  // redraw draws again what the width, the scheme or paper change: a canvas does
  // not follow by itself. Paper is light, and narrower than what wide names.
  function redraw(draw, wide) {
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    const paper = on => {
      root.classList.toggle("on-paper", on);
      for (const e of wide ? document.querySelectorAll(wide) : []) e.style.width = on ? "700px" : "";
      draw();
    };
    addEventListener("beforeprint", () => paper(true));
    addEventListener("afterprint", () => paper(false));
  }

  // A field with data-filter leaves only the rows of a table that have its text.
  addEventListener("input", ({ target }) => {
    if (!target.dataset.filter) return;
    const want = target.value.toLowerCase();
    for (const tr of document.getElementById(target.dataset.filter).tBodies[0].rows)
      tr.hidden = !tr.textContent.toLowerCase().includes(want);
  });

  return { tone, axis, show, upright, shade, series, save, csv, redraw };
})();
