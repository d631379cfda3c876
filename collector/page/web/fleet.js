// SPDX-License-Identifier: Apache-2.0
// All slices and hosts, the runs, and what happened lately.
import { answer, feed } from "./data.js";
import { h, link, list, number, object, part, table, text } from "./dom.js";
import { columnsOf, hostGrid } from "./grid.js";
import { longTable } from "./list.js";
import { ago, count, lookOf, LOOKS, many, ODD, share, span, when } from "./look.js";
import { EPISODES, episodes, eventList, hosts, HOSTS, isOpen, isRoutine, reasonOf, RUNS, stateOf, verdicts } from "./pieces.js";

const filter = { look: null, words: "" };
let again = () => {};

const byName = new Intl.Collator("en", { numeric: true }).compare;
const byWorker = (a, b) => (number(a.host.worker_id) ?? 1e9) - (number(b.host.worker_id) ?? 1e9);

// Slices with the oddest hosts first, then by name.
export function slicesOf(seen) {
  const slices = new Map();
  for (const cell of seen) {
    const name = text(cell.host.slice, "no slice");
    if (!slices.has(name)) slices.set(name, { name, odd: LOOKS.length, cells: [] });
    const slice = slices.get(name);
    slice.cells.push(cell);
    slice.odd = Math.min(slice.odd, cell.look.rank);
  }
  for (const slice of slices.values()) {
    slice.cells.sort(byWorker);
    slice.columns = columnsOf(slice.cells[0].host.topology, slice.cells.length);
    slice.odd = Math.min(slice.odd, ODD + 1);
  }
  return [...slices.values()].sort((a, b) => a.odd - b.odd || byName(a.name, b.name));
}

// The runs of the registry, and those that hosts have without it.
export function runsOf(records, all) {
  const runs = new Map();
  for (const host of all) {
    const name = text(host.run);
    if (!name || host.registry === "missing") continue;
    if (!runs.has(name)) runs.set(name, { name, record: {}, hosts: [] });
    runs.get(name).hosts.push(host);
  }
  for (const record of records) {
    const name = text(record.name);
    if (!runs.has(name)) runs.set(name, { name, record, hosts: [] });
    else runs.get(name).record = record;
  }
  return [...runs.values()];
}

// The newest checkpoint that a host of a run saw become whole, as often one alone does; null: none did.
export const lastCheckpoint = (hosts_) => hosts_.map((host) => object(host.checkpoint)).filter((c) => when(c.at) !== null)
  .sort((a, b) => when(b.at) - when(a.at))[0] ?? null;

export function runSum(run) {
  const of = (key) => run.hosts.map((host) => number(host[key])).filter((n) => n !== null).sort((a, b) => a - b);
  const steps = of("step"), times = of("step_seconds"), good = of("goodput");
  const looks = new Map();
  for (const host of run.hosts) looks.set(lookOf(host), (looks.get(lookOf(host)) ?? 0) + 1);
  return { step: steps.at(-1) ?? number(run.record.step), behind: steps.length ? steps.at(-1) - steps[0] : null,
    seconds: times.length ? times[Math.floor(times.length / 2)] : null, goodput: good.length ? good[0] : null,
    checkpoint: lastCheckpoint(run.hosts),
    worst: [...looks.keys()].sort((a, b) => a.rank - b.rank)[0] ?? null };
}

// What a run does, in the word of its oddest host: a run is stalled where a host of it is the suspect.
export const runLook = (sum) => (sum.worst?.word === "suspect" ? LOOKS.find((look) => look.word === "stalled") : sum.worst);

function runTable(every) {
  const living = every.some((run) => run.hosts.length), runs = every.filter((run) => run.hosts.length || text(run.record.state) !== "ended" || !living);
  return h("section", { "aria-label": "Runs" }, h("h2", null, "Runs"),
    table("Runs", ["Run", "State", "Hosts", "Step", "Step time", "Goodput", "Last checkpoint", "Restarts"], runs.map((run) => {
      const { sum } = run, state = text(run.record.state) || "adopted";
      return [link("run", run.name), (state === "running" || state === "adopted") && sum.worst ? stateOf(runLook(sum)) : state,
        count(run.hosts.length), [count(sum.step), sum.behind ? h("span", { class: "muted" }, ` (−${count(sum.behind)})`) : null], span(sum.seconds),
        share(sum.goodput), !run.hosts.length ? "–" : sum.checkpoint ? ago(sum.checkpoint.at) : "none seen", count(number(run.record.restarts) ?? 0)];
    }), "no host has one"));
}

// Sorting 12,800 hosts takes longer than a frame: done once for an answer, and each filter only passes over it.
let sorted = { value: null, verdicts: "" };
function sortedHosts() {
  const value = answer(HOSTS).value, verdicts_ = episodes().map((e) => `${text(e.episode)} ${text(e.recovered)} ${text(e.named)}`).join();
  if (sorted.value === value && sorted.verdicts === verdicts_ && sorted.records === answer(RUNS).value) return sorted;
  const all = hosts(), sums = new Map(), cells = all.map((host) => ({ host, look: lookOf(host),
    words: `${text(host.name)} ${text(host.slice)} ${text(host.run)}`.toLowerCase() }));
  for (const { look } of cells) sums.set(look, (sums.get(look) ?? 0) + 1);
  const slices = slicesOf(cells), place = new Map(slices.map((s, i) => [s.name, i]));
  const at = (cell) => place.get(text(cell.host.slice, "no slice"));
  sorted = { value, verdicts: verdicts_, records: answer(RUNS).value, all, slices, sums: [...sums].sort(([a], [b]) => a.rank - b.rank), runs: runsOf(list(answer(RUNS).value?.runs), all).map((run) => ({ ...run, sum: runSum(run) })),
    rows: cells.sort((a, b) => a.look.rank - b.look.rank || at(a) - at(b) || byWorker(a, b)) };
  return sorted;
}

const matches = (cell) => (!filter.look || cell.look.word === filter.look) && (!filter.words || cell.words.includes(filter.words));
const chosenSlices = (slices) => (!filter.look && !filter.words ? slices
  : slices.map((s) => ({ ...s, cells: s.cells.filter(matches) })).filter((s) => s.cells.length));

function render() {
  const { all, slices, sums, runs, rows: everyRow } = sortedHosts(), rows = !filter.look && !filter.words ? everyRow : everyRow.filter(matches);
  const words = sums.map(([look, n]) => `${count(n)} ${look.word}`).join(", ");
  return [
    h("h1", null, `${many(all.length, "host")}${words ? `: ${words}` : ""}`),
    verdicts(episodes().filter(isOpen)),
    answer(HOSTS).value === null ? h("p", { class: "muted" }, answer(HOSTS).error ?? "asking the collector …")
      : all.length === 0 ? h("p", null, "No host has reported to this collector yet. On a host, ", h("code", null, "tpuctl uplink"), " says where it reports.") : null,
    h("div", { class: "two" },
      h("section", { "aria-label": "Hosts by slice" }, h("h2", null, "Hosts"),
        h("div", { class: "chips", role: "group", "aria-label": "Filter by what a host does" },
          sums.map(([look, n]) => h("button", { type: "button", "data-key": look.word,
            "aria-pressed": String(filter.look === look.word), onclick: () => choose({ look: filter.look === look.word ? null : look.word }) },
          stateOf(look), ` ${count(n)}`)),
          h("input", { class: "filter", type: "search", placeholder: "host, slice or run", "aria-label": "Filter by host, slice or run",
            oninput: (e) => choose({ words: e.target.value.trim().toLowerCase() }) })),
        part("grid", hostGrid, { label: `${many(rows.length, "host")} by slice: ${words}`, slices: chosenSlices(slices),
          open: (host) => (location.hash = `#/host/${encodeURIComponent(text(host.name))}`) })),
      h("section", { "aria-label": "Hosts as a table" }, h("h2", null, "Odd ones first"),
        part("hosts", longTable, { caption: many(rows.length, "host"), heads: ["Host", "State", "Why", "Slice", "Run", "Step"],
          rows: rows.map(({ host, look }) => ({ key: text(host.name), href: `#/host/${encodeURIComponent(text(host.name))}`,
            cells: () => [text(host.name), stateOf(look), reasonOf(host), `${text(host.slice, "–")}/${number(host.worker_id) ?? "–"}`,
              text(host.run, "–"), count(number(host.step))] })) }))),
    h("div", { class: "two" }, runTable(runs), eventList(feed.events.filter((e) => !isRoutine(e)).slice(-20))),
  ];
}

function choose(change) {
  Object.assign(filter, change);
  again();
}

export const fleet = { title: () => "Fleet", paths: () => [HOSTS, RUNS, EPISODES],
  render: (name, redraw) => {
    again = redraw;
    return render();
  } };
