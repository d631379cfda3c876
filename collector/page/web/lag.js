// SPDX-License-Identifier: Apache-2.0
// How far hosts are behind the first of their run, host by host: a bar each, or of many hosts one for neighbours.
// The table beside it has the same for the keyboard.
import { h, number, svg, text } from "./dom.js";
import { count, many } from "./look.js";

const BARS = 200, HIGH = 48, WIDE = 1000;

// { from, n }: what the most that is behind in each bar is; from: the first host of the bar.
export function barsOf(hosts, most) {
  const behind = hosts.map((host) => ({ host, n: number(host.step) === null ? 0 : most - host.step }));
  const each = Math.max(1, Math.ceil(behind.length / BARS)), bars = [];
  for (let i = 0; i < behind.length; i += each)
    bars.push(behind.slice(i, i + each).reduce((a, b) => (b.n > a.n ? b : a)));
  return bars;
}

// hosts: in the order of slices and workers.
export function lagStrip(hosts, most) {
  if (most === null || hosts.length < 2) return null;
  const bars = barsOf(hosts, most), worst = bars.reduce((a, b) => (b.n > a.n ? b : a)), wide = WIDE / bars.length;
  return h("section", { "aria-label": "Lag" }, h("h2", null, "Steps behind the first host"),
    worst.n === 0 ? h("p", { class: "muted" }, `none: ${many(hosts.length, "host")} at step ${count(most)}`) : [
      svg("svg", { class: "picture strip", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img",
        "aria-label": `Steps behind the first host, by slice and worker; the most: ${text(worst.host.name)}, ${count(worst.n)}` },
      bars.map((bar, i) => svg("rect", { x: i * wide, width: Math.max(wide - 1, wide / 2),
        y: HIGH - 2 - ((HIGH - 2) * bar.n) / worst.n, height: 2 + ((HIGH - 2) * bar.n) / worst.n, class: bar.n * 2 > worst.n ? "far" : null }))),
      h("p", { class: "muted" }, `the most: ${text(worst.host.name)}, ${many(worst.n, "step")}`)]);
}
