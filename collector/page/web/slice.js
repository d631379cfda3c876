// SPDX-License-Identifier: Apache-2.0
// One slice: its hosts in their topology, missing hosts, conflicts, and what it was asked about.
import { answer } from "./data.js";
import { command, h, list, number, part, quoted, table, text } from "./dom.js";
import { slicesOf } from "./fleet.js";
import { hostGrid } from "./grid.js";
import { longTable } from "./list.js";
import { clock, count, lookOf, many } from "./look.js";
import { EPISODES, episodes, facts, hosts, HOSTS, hostState, isOpen, onCall, reasonOf, verdicts, whenThere } from "./pieces.js";

const path = (name) => `/api/v1/slices/${encodeURIComponent(name)}`;
const episodesPath = (name) => `${path(name)}/episodes`;

function trouble(record) {
  return [
    list(record.missing).length ? table("Missing hosts", ["Worker", "Host", "Since", "Why"],
      list(record.missing).map((m) => [count(number(m.worker)), text(m.host, "–"), clock(m.since), text(m.why)])) : null,
    list(record.conflicts).length ? table("Worker ids that are claimed twice", ["Worker", "Host", "Holder"],
      list(record.conflicts).map((c) => [count(number(c.worker)), text(c.host), text(c.holder)])) : null,
    list(record.unlike).length ? table("Hosts that are unlike the others", ["Worker", "Host", "Part", "Found", "Others"],
      list(record.unlike).map((u) => [count(number(u.worker)), text(u.host), text(u.part), text(u.found), text(u.others)])) : null,
  ];
}

function render(name) {
  const mine = hosts().filter((host) => text(host.slice) === name), cells = mine.map((host) => ({ host, look: lookOf(host) }));
  const old = list(answer(episodesPath(name)).value?.episodes);
  return [
    h("h1", null, `Slice ${name}: ${many(mine.length, "host")}`),
    verdicts(episodes().filter((e) => isOpen(e) && Array.isArray(e.slices) && e.slices.includes(name))),
    whenThere(path(name), (record) => [facts([["State", text(record.state)], ["Generation", count(number(record.generation))], ["Since", clock(record.since)],
      ["Hosts", count(number(record.hosts))], ["Accelerator", text(mine[0]?.accelerator_type)], ["Topology", text(mine[0]?.topology)]]), trouble(record)]),
    h("div", { class: "two" },
      h("section", { "aria-label": "Hosts by topology" }, h("h2", null, "Hosts"),
        part("grid", hostGrid, { label: `${many(mine.length, "host")} of slice ${name}`, slices: slicesOf(cells),
          open: (host) => (location.hash = `#/host/${encodeURIComponent(text(host.name))}`) })),
      h("section", { "aria-label": "Hosts as a table" }, h("h2", null, "Odd ones first"),
        part("hosts", longTable, { caption: many(mine.length, "host"), heads: ["Host", "State", "Why", "Worker", "Run", "Step"],
          rows: [...cells].sort((a, b) => a.look.rank - b.look.rank || (number(a.host.worker_id) ?? 0) - (number(b.host.worker_id) ?? 0)).map(({ host }) => ({
            href: `#/host/${encodeURIComponent(text(host.name))}`, cells: () => [text(host.name), hostState(host), reasonOf(host),
              number(host.worker_id) ?? "–", text(host.run, "–"), count(number(host.step))] })) }))),
    old.length ? h("section", { "aria-label": "Captures" }, h("h2", null, "When its stacks were asked for"), verdicts(old.slice(0, 10))) : null,
    h("section", { "aria-label": "What you can do" }, h("h2", null, "What you can do"),
      command(`tpuctl diagnose ${quoted(name)} --capture`), command(`tpuctl events --slice ${quoted(name)}`), onCall("host-missing")),
  ];
}

export const slice = { title: (name) => `Slice ${name}`, paths: (name) => [HOSTS, EPISODES, path(name), episodesPath(name)], render };
