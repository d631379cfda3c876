// SPDX-License-Identifier: Apache-2.0
// One run: how far its hosts are, how long steps take, where its time goes, how often it started.
import { answer, isAsked } from "./data.js";
import { command, h, link, list, number, object, part, quoted, table, text } from "./dom.js";
import { chart, points } from "./chart.js";
import { runLook, runSum } from "./fleet.js";
import { lagStrip } from "./lag.js";
import { longTable } from "./list.js";
import { ago, clock, count, lookOf, many, share, span, when } from "./look.js";
import { EPISODES, episodes, facts, hosts, HOSTS, hostState, isOpen, onCall, reasonOf, telemetry, verdicts } from "./pieces.js";

const CHARTED = 6;
const CAUSES = [["step", "stepping"], ["start", "starting"], ["compile", "compiling"], ["checkpoint", "checkpoint"], ["evaluation", "cordoned"],
  ["pause", "unknown"], ["stall", "stalled"], ["restart", "unfit"]];

const here = (name) => hosts().filter((host) => text(host.run) === name && host.registry !== "missing");
const oddFirst = (list_) => [...list_].sort((a, b) => lookOf(a).rank - lookOf(b).rank || (number(b.step_seconds) ?? 0) - (number(a.step_seconds) ?? 0) ||
  (number(a.worker_id) ?? 0) - (number(b.worker_id) ?? 0));
const byPlace = (list_) => [...list_].sort((a, b) => text(a.slice).localeCompare(text(b.slice), "en", { numeric: true }) ||
  (number(a.worker_id) ?? 0) - (number(b.worker_id) ?? 0));
const recordPath = (name) => `/api/v1/runs/${encodeURIComponent(name)}`;
const linesPath = (name) => `${recordPath(name)}/logs?limit=40`;
const charted = (name) => oddFirst(here(name)).slice(0, CHARTED).map((host) => text(host.name));
const seriesPath = (host, metric) => `/api/v1/series?host=${encodeURIComponent(host)}&name=${metric}&limit=1000`;

// Step times of a host out of its histogram: what it grew, by how many steps that were.
export function stepTimes(sum, n) {
  const counts = new Map(n);
  const both = sum.filter(([t]) => counts.has(t)).map(([t, v]) => [t, v, counts.get(t)]);
  return both.slice(1).map(([t, v, k], i) => [t, (v - both[i][1]) / (k - both[i][2])]).filter(([, v]) => Number.isFinite(v) && v >= 0);
}
function ofRun(path, run) {
  const found = list(answer(path).value?.series).find((s) => text(object(s.attributes)["tpu.run.name"]) === run);
  return found ? points(found) : [];
}

function timeBar(name, worst) {
  const metrics = list(answer(`/api/v1/hosts/${encodeURIComponent(worst)}`).value?.metrics)
    .filter((m) => text(m.name) === "tpu.run.time" && text(object(m.attributes)["tpu.run.name"]) === name);
  const spent = new Map(metrics.map((m) => [text(object(m.attributes)["tpu.run.time.cause"]), number(m.value) ?? 0]));
  const total = [...spent.values()].reduce((a, b) => a + b, 0);
  if (!(total > 0)) return null;
  const parts = CAUSES.map(([cause, look]) => ({ cause, look, n: spent.get(cause) ?? 0 })).filter((p) => p.n > 0);
  return h("section", { "aria-label": "Where its time went" }, h("h2", null, `Where its time went on ${worst}`),
    h("div", { class: "bar", role: "img", "aria-label": parts.map((p) => `${p.cause} ${share(p.n / total)}`).join(", ") }, parts.map((p) => {
      const bar = h("span");
      bar.style.width = `${(100 * p.n) / total}%`;
      bar.style.background = `var(--${p.look})`;
      return bar;
    })),
    table("Time by cause", ["Cause", "Share", "Time"], parts.map((p) => [p.cause, share(p.n / total), span(p.n)])));
}

function generations(record) {
  const rows = list(record.history).map((g) => [count(number(g.generation)), clock(g.from), clock(g.to),
    Array.isArray(g.slices) ? g.slices.filter((s) => typeof s === "string").join(" ") : "–", text(g.why)]);
  return rows.length ? h("section", { "aria-label": "Generations" }, h("h2", null, "Its starts"),
    table("Generations", ["Generation", "From", "To", "Slices", "Why"], rows.reverse())) : null;
}

const earlier = (stalls) => (stalls.length === 0 ? null
  : h("section", { "aria-label": "Earlier" }, h("h2", null, "When its stacks were asked for before"), verdicts(stalls)));

// How old it is, of which step, how long it took, and what would be lost now.
function checkpointWords(c) {
  if (c === null) return "none seen";
  const step = number(c.step), took = number(c.took_seconds), lost = number(c.steps_since);
  return [ago(c.at), step === null ? "" : `step ${count(step)}`, took === null ? "" : `took ${span(took)}`,
    lost === null ? "" : `${many(lost, "step")} since`].filter(Boolean).join(", ");
}

function lastLines(name) {
  const lines = list(answer(linesPath(name)).value?.lines);
  return h("section", { "aria-label": "What it printed last" }, h("h2", null, "What it printed last"), telemetry(),
    lines.length ? h("pre", { tabindex: 0 }, lines.map((l) => `${clock(l.time).slice(0, 8)} ${text(l.host)}  ${text(l.text)}\n`))
      : h("p", { class: "muted" }, "no line is kept here"),
    command(`tpuctl logs ${quoted(name)} --fleet`));
}

function render(name) {
  const mine = here(name), record = object(answer(recordPath(name)).value), known = text(record.name) === name;
  const sum = runSum({ record, hosts: mine }), ordered = oddFirst(mine), worst = ordered[0] ? text(ordered[0].name) : "";
  const stalls = episodes().filter((e) => text(e.run) === name), most = number(sum.step);
  if (!known && mine.length === 0) return [h("h1", null, `Run ${name}`), h("p", { role: "alert" },
    answer(HOSTS).value === null ? "asking the collector …" : "no host has this run, and the registry has no record of it"), command("tpuctl runs --fleet")];
  return [
    h("h1", null, `Run ${name}: `, known && text(record.state) !== "running" ? text(record.state) : runLook(sum)?.word ?? "–"),
    verdicts(stalls.filter(isOpen)),
    facts([["Step", sum.step === null ? null : count(sum.step)], ["Step time", span(sum.seconds)], ["Goodput, least of its hosts", share(sum.goodput)],
      ["Last checkpoint", mine.length ? checkpointWords(sum.checkpoint) : null],
      ["Hosts", many(mine.length, "host")], ["Generation", known ? count(number(record.generation)) : "adopted: others started it"],
      ["Restarts", known ? count(number(record.restarts)) : null], ["Since", known && when(record.since) ? clock(record.since) : null],
      ["Why", text(record.why)], ["Outcome", [text(record.outcome), text(record.cause)].filter(Boolean).join(": ")], ["Blamed", text(record.blame)],
      ["Waits for", Array.isArray(record.waits_for) ? record.waits_for.filter((s) => typeof s === "string").join("; ") : null],
      ["Slices", list(record.slices).map((s, i) => [i ? ", " : "", link("slice", text(s.slice))])]].filter(([, v]) => !Array.isArray(v) || v.length)),
    h("div", { class: "two" },
      h("section", { "aria-label": "Its hosts" }, h("h2", null, "Its hosts, odd ones first"),
        part("run-hosts", longTable, { caption: many(mine.length, "host"), heads: ["Host", "State", "Why", "Step", "Behind", "Step time", "Goodput", "Slice"],
          rows: ordered.map((host) => ({ href: `#/host/${encodeURIComponent(text(host.name))}`, cells: () => [text(host.name), hostState(host), reasonOf(host),
            count(number(host.step)), most !== null && number(host.step) !== null ? count(most - host.step) : "–",
            span(host.step_seconds), share(host.goodput), `${text(host.slice, "–")}/${number(host.worker_id) ?? "–"}`] })) })),
      h("section", { "aria-label": "Step time" }, h("h2", null, "Step time"),
        part(`steps-${name}`, chart, { title: `seconds a step, ${mine.length > CHARTED ? `the oddest ${CHARTED} hosts` : "by host"}`, show: span, asked: charted(name).every((host) => isAsked(seriesPath(host, "tpu.run.step.duration.sum"))),
          series: charted(name).map((host) => ({ label: host,
            points: stepTimes(ofRun(seriesPath(host, "tpu.run.step.duration.sum"), name), ofRun(seriesPath(host, "tpu.run.step.duration.count"), name)) })) }),
        worst ? timeBar(name, worst) : null)),
    lagStrip(byPlace(mine), most),
    generations(record),
    earlier(stalls.filter((e) => !isOpen(e)).slice(0, 5)),
    lastLines(name),
    h("section", { "aria-label": "What you can do" }, h("h2", null, "What you can do"),
      [...new Set(mine.map((host) => text(host.slice)).filter(Boolean))].slice(0, 2).map((slice) => command(`tpuctl diagnose ${quoted(slice)} --capture`)),
      known && text(record.state) !== "ended" ? command(`tpuctl stop ${quoted(name)} --fleet`) : null, onCall("hang")),
  ];
}

export const run = { title: (name) => `Run ${name}`,
  paths: (name) => [HOSTS, EPISODES, recordPath(name), linesPath(name),
    ...charted(name).flatMap((host) => ["sum", "count"].map((k) => seriesPath(host, `tpu.run.step.duration.${k}`))),
    ...charted(name).slice(0, 1).map((host) => `/api/v1/hosts/${encodeURIComponent(host)}`)],
  render };
