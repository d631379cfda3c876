// SPDX-License-Identifier: Apache-2.0
// Series over time, drawn by uPlot. The last values stand in the legend and in the label.
import { h, list, number, text } from "./dom.js";
import { colour, when } from "./look.js";

const HEIGHT = 170, LINES = 8;

// One time axis for series that were measured at different times.
export function aligned(series) {
  const times = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const place = new Map(times.map((t, i) => [t, i]));
  return [times, ...series.map((s) => {
    const values = new Array(times.length).fill(null);
    for (const [t, v] of s.points) values[place.get(t)] = v;
    return values;
  })];
}

// Points of the API as [whole seconds, value], in order: what is measured at one tick differs by less.
export function points(series) {
  return list(series.points).map((p) => [Math.round(when(p.time) / 1000), number(p.value)])
    .filter(([t, v]) => Number.isFinite(t) && v !== null).sort((a, b) => a[0] - b[0]);
}

// A counter as what it grew a second; a smaller value is a restart.
export function rate(counter) {
  return counter.slice(1).map(([t, v], i) => [t, (v - counter[i][1]) / (t - counter[i][0])]).filter(([, v]) => v >= 0 && Number.isFinite(v));
}

// props: { title, series: [{ label, points }], show: (value) => text }
export function chart() {
  let plot = null, props = null, drawn = "";
  const title = h("h3"), place = h("div", { class: "plot", role: "img" });
  const element = h("figure", null, title, place);
  const sizes = new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT }));
  sizes.observe(place);
  addEventListener("resize", redraw);

  function redraw() {
    drawn = "";
    if (props) element.update(props);
  }
  element.update = (next) => {
    props = next;
    const series = next.series.filter((s) => s.points.length).slice(0, LINES);
    const names = JSON.stringify([next.title, series.map((s) => s.label)]);
    title.textContent = next.title;
    place.setAttribute("aria-label", series.length === 0 ? `${next.title}: no data`
      : `${next.title}: ${series.map((s) => `${s.label} ${next.show(s.points.at(-1)[1])}`).join(", ")}`);
    element.classList.toggle("none", series.length === 0);
    if (series.length === 0 || typeof uPlot === "undefined") {
      plot?.destroy();
      plot = null;
      drawn = "";
      place.textContent = series.length === 0 ? (next.asked === false ? "asking the collector …" : "no data in the last hour") : "uPlot is not there";
      return;
    }
    if (drawn === names && plot) {
      plot.setData(aligned(series));
      return void last();
    }
    plot?.destroy();
    place.textContent = "";
    const grid = { stroke: colour("line"), width: 1 };
    plot = new uPlot({
      width: place.clientWidth || 320, height: HEIGHT, legend: { live: true }, cursor: { y: false },
      series: [{ value: (_, v) => (v ? new Date(v * 1000).toISOString().slice(11, 19) : "–") },
        ...series.map((s, i) => ({ label: text(s.label), stroke: colour(`line-${i % LINES}`), width: 1.5, spanGaps: true,
          value: (_, v) => (v === null || v === undefined ? "–" : next.show(v)) }))],
      axes: [{ stroke: colour("muted"), grid, ticks: grid, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toISOString().slice(11, ticks.at(-1) - ticks[0] < 300 ? 19 : 16)) },
        { stroke: colour("muted"), grid, ticks: grid, size: 64, values: (_, ticks) => ticks.map(next.show) }],
    }, aligned(series), place);
    place.querySelector(".u-legend")?.setAttribute("aria-label", `${next.title}: values`);
    drawn = names;
    last();
  };
  // The legend has the last values while nobody points at others: once uPlot has drawn, which empties it.
  function last() {
    setTimeout(() => {
      if (plot && (plot.cursor.idx === null || plot.cursor.idx === undefined))
        plot.setLegend({ idxs: plot.data.map((values) => values.findLastIndex((v) => v !== null && v !== undefined)) });
    });
  }
  place.addEventListener("pointerleave", last);
  element.dispose = () => {
    sizes.disconnect();
    removeEventListener("resize", redraw);
    plot?.destroy();
  };
  return element;
}
