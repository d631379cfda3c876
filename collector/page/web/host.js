// SPDX-License-Identifier: Apache-2.0
// One host: what is wrong and what helps, its chips and NICs, the last hours, how often it was blamed.
import { answer } from "./data.js";
import { command, h, link, list, number, object, part, quoted, table, text } from "./dom.js";
import { chart, points, rate } from "./chart.js";
import { ago, bytes, clock, count, lookOf, many, ODD, share, since, span, when } from "./look.js";
import { eventList, facts, onCall, reasonOf, telemetry, verdicts, whenThere, EPISODES, episodes, isOpen } from "./pieces.js";

const path = (name) => `/api/v1/hosts/${encodeURIComponent(name)}`;
const eventsPath = (name, event) => `/api/v1/events?host=${encodeURIComponent(name)}&limit=${event ? "200" : "30"}${event ? `&name=${event}` : ""}`;
const seriesPath = (name, metric) => `/api/v1/series?host=${encodeURIComponent(name)}&name=${metric}&limit=2000`;
const VERDICTS = ["OK", "UNKNOWN", "WARN", "FAIL"];

// What is charted, if the host has it: by which attributes its lines differ, and how a value is shown.
const CHARTS = [
  { metric: "tpu.duty_cycle", title: "duty cycle by chip", by: ["tpu.chip"], show: share },
  { metric: "tpu.hbm.usage", title: "HBM used by chip", by: ["tpu.chip"], show: bytes },
  { metric: "system.network.io", title: "network, a second", by: ["network.interface.name", "network.io.direction"], show: bytes, counter: true },
  { metric: "system.memory.usage", title: "memory", by: ["system.memory.state"], show: bytes },
  { metric: "tpu.pressure.stall_time", title: "waited, share of the time", by: ["tpu.pressure.resource", "tpu.pressure.kind"], show: share, counter: true },
  { metric: "tpu.run.loss", title: "loss", by: ["tpu.run.name"], show: (v) => v.toPrecision(4) },
];

const metricsOf = (value) => list(value.metrics).map((m) => ({ name: text(m.name), at: object(m.attributes), value: number(m.value), time: m.time }));

// The last word on each check that is not OK: the value says which, its last event why and what helps.
function checks(name, metrics) {
  const events = new Map();
  for (const event of list(answer(eventsPath(name, "tpu.check.changed")).value?.events)) {
    const body = object(event.body);
    events.set(`${text(body.check)} ${text(body.subject)}`, { ...body, time: event.time });
  }
  const bad = metrics.filter((m) => m.name === "tpu.check.verdict" && m.value >= 1).sort((a, b) => b.value - a.value);
  const seen = metrics.filter((m) => m.name === "tpu.check.verdict").length;
  return h("section", { "aria-label": "Checks" }, h("h2", null, "Checks"),
    bad.length === 0 ? h("p", { class: "muted" }, seen ? `all ${seen} are OK` : "its agent sends no checks here") : null,
    bad.length ? table("Checks that are not OK", ["Check", "Verdict", "Found", "Why and since", "What helps"], bad.map((m) => {
      const check = text(m.at["tpu.check.name"]), subject = text(m.at["tpu.check.subject"]), event = events.get(`${check} ${subject}`) ?? {};
      return [`${check} ${subject}`, h("span", { class: m.value >= 3 ? "ERROR" : null }, VERDICTS[m.value] ?? "–"), text(event.found),
        [text(event.reason), event.time ? h("span", { class: "muted" }, ` ${ago(event.time)}`) : null], text(event.remedy) ? command(text(event.remedy)) : "–"];
    })) : null, bad.length ? onCall("host-unfit") : null);
}

function chips(metrics) {
  const rows = new Map();
  for (const m of metrics) {
    const key = { "tpu.hbm.usage": "used", "tpu.hbm.limit": "total", "tpu.duty_cycle": "duty", "tpu.tensorcore.idle_time": "idle" }[m.name];
    if (!key) continue;
    const id = `${text(m.at["tpu.process"], String(m.at["tpu.process"] ?? ""))}/${m.at["tpu.chip"] ?? ""}`;
    rows.set(id, { chip: String(m.at["tpu.chip"] ?? "–"), run: text(m.at["tpu.run.name"]), ...rows.get(id), [key]: m.value, time: m.time });
  }
  return rows.size === 0 ? null : h("section", { "aria-label": "Chips" }, h("h2", null, "Chips"),
    table("Chips, as libtpu reports them", ["Chip", "Run", "HBM used", "HBM", "Duty cycle", "Idle", "As of"], [...rows.values()].map((c) =>
      [c.chip, c.run ? link("run", c.run) : "–", bytes(c.used), bytes(c.total), share(c.duty), span(c.idle), ago(c.time)])));
}

function nics(metrics) {
  const rows = new Map();
  for (const m of metrics) {
    const nic = text(m.at["network.interface.name"]), way = text(m.at["network.io.direction"]);
    const key = { "system.network.io": `io-${way}`, "system.network.errors": "errors", "system.network.packet.dropped": "dropped", "tpu.net.retransmits": "again" }[m.name];
    if (!key || !nic) continue;
    const row = rows.get(nic) ?? {};
    rows.set(nic, { ...row, [key]: (row[key] ?? 0) + (m.value ?? 0) });
  }
  return rows.size === 0 ? null : h("section", { "aria-label": "NICs" }, h("h2", null, "NICs"),
    table("NICs, since the host booted", ["NIC", "Received", "Sent", "Errors", "Dropped", "Retransmits"], [...rows].map(([nic, r]) =>
      [nic, bytes(r["io-receive"]), bytes(r["io-transmit"]), count(r.errors ?? 0), count(r.dropped ?? 0), count(r.again ?? null)])));
}

function peers(metrics) {
  const rows = new Map();
  for (const m of metrics.filter((m_) => m_.name === "tpu.net.retransmits" && m_.value > 0)) {
    const peer = text(m.at["tpu.net.peer"]) || text(m.at["network.peer.address"]);
    const row = rows.get(peer) ?? { all: 0, kinds: [] };
    row.all += m.value;
    row.kinds.push(`${text(m.at["tpu.net.retransmit.kind"], "unknown")} ${count(m.value)}`);
    rows.set(peer, row);
  }
  return rows.size === 0 ? null : h("section", { "aria-label": "Retransmits" }, h("h2", null, "Retransmits by peer"),
    table("Retransmits, the worst first", ["Peer", "Segments", "Kinds"], [...rows].sort((a, b) => b[1].all - a[1].all).slice(0, 12)
      .map(([peer, r]) => [peer, count(r.all), r.kinds.join(", ")])));
}

function charts(name, metrics) {
  const have = new Set(metrics.map((m) => m.name)), shown = CHARTS.filter((c) => have.has(c.metric));
  return shown.length === 0 ? null : h("section", { "aria-label": "The last hour" }, h("h2", null, "The last hour"),
    h("div", { class: "charts" }, shown.map((c) => part(`${name}-${c.metric}`, chart, { title: `${c.title} (${c.metric})`, show: c.show,
      series: list(answer(seriesPath(name, c.metric)).value?.series).map((s) => ({
        label: c.by.map((key) => String(object(s.attributes)[key] ?? "")).join(" "), points: c.counter ? rate(points(s)) : points(s) })) }))));
}

function blame(name) {
  const times = ["tpu.run.stall_confirmed", "tpu.run.straggler"].flatMap((event) => list(answer(eventsPath(name, event)).value?.events))
    .sort((a, b) => (when(b.time) ?? 0) - (when(a.time) ?? 0));
  return h("section", { "aria-label": "Blame" }, h("h2", null, "How often it was blamed"),
    h("p", { class: "muted" }, times.length ? `${many(times.length, "time")} among the events that are kept` : "never, among the events that are kept"),
    times.length ? table("Blamed", ["When", "What for"], times.slice(0, 10).map((e) => [clock(e.time), text(e.sentence)])) : null);
}

function render(name) {
  return [
    h("h1", null, `Host ${name}`),
    whenThere(path(name), (value) => {
      const look = lookOf(value), metrics = metricsOf(value);
      return [
        h("div", { class: look.rank <= ODD ? "lead" : "lead over" }, h("strong", null, look.word), reasonOf(value) ? `: ${reasonOf(value)}` : null,
          h("div", { class: "muted" }, `heard ${since(value.age_seconds)}`)),
        verdicts(episodes().filter((e) => isOpen(e) && Array.isArray(e.slices) && e.slices.includes(text(value.slice)))),
        facts([["Slice", text(value.slice) ? [link("slice", text(value.slice)), `, worker ${number(value.worker_id) ?? "–"}`] : null],
          ["Run", text(value.run) ? link("run", text(value.run)) : "none"], ["Step", number(value.step) === null ? null : count(value.step)],
          ["Step time", number(value.step_seconds) === null ? null : span(value.step_seconds)], ["Goodput", number(value.goodput) === null ? null : share(value.goodput)],
          ["State", text(value.state)], ["Orders", text(value.orders)], ["Accelerator", text(value.accelerator_type)], ["Topology", text(value.topology)],
          ["Agent", text(value.version)], ["Registry", text(value.registry)]]),
        telemetry(), checks(name, metrics), h("div", { class: "two" }, h("div", null, chips(metrics), peers(metrics)), h("div", null, nics(metrics))),
        charts(name, metrics)];
    }),
    blame(name),
    eventList(list(answer(eventsPath(name)).value?.events), "What happened here"),
    h("section", { "aria-label": "What you can do" }, h("h2", null, "What you can do"),
      command(`tpuctl fleet cordon ${quoted(name)} 'why'`), command(`tpuctl fleet uncordon ${quoted(name)}`), command(`tpuctl events --host ${quoted(name)}`),
      onCall("take-a-host-out")),
  ];
}

export const host = { title: (name) => `Host ${name}`,
  paths: (name) => [path(name), EPISODES, eventsPath(name), ...["tpu.check.changed", "tpu.run.stall_confirmed", "tpu.run.straggler"].map((e) => eventsPath(name, e)),
    ...CHARTS.filter((c) => list(answer(path(name)).value?.metrics).some((m) => m.name === c.metric)).map((c) => seriesPath(name, c.metric))],
  render };
