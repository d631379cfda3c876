// SPDX-License-Identifier: Apache-2.0
// Who waits for whom, as boxes with arrows: the hosts that wait on the left, the end of the chain on the right.
import { list, number, object, svg, text } from "./dom.js";
import { frameText } from "./icicle.js";
import { many } from "./look.js";

const WIDE = 300, TALL = 64, GAP = 70, LINES = 3, LETTERS = 42;

// Of a verdict, as nodes { id, title, text, end } and edges { from, to }: who owes whom by their sockets, as far as
// that leads to a host that is named; else the classes of ranks and the hosts that are named tell it in one step.
const SHOWN = 10;
function ofDebts(diagnosis, names) {
  const graph = object(diagnosis.graph), about = new Map(list(graph.nodes).map((n) => [text(n.host), n]));
  const debts = list(graph.debts).filter((d) => text(d.from) && text(d.to)).sort((a, b) => (number(b.weight) ?? 0) - (number(a.weight) ?? 0));
  const edges = debts.filter((d) => names.has(text(d.to))).slice(0, SHOWN).map((d) => ({ from: text(d.from), to: text(d.to), text: "waits for" }));
  const ids = [...new Set(edges.flatMap((e) => [e.from, e.to]))];
  return { edges, nodes: ids.map((id) => ({ id, title: id, end: names.has(id), text: names.get(id) ?? `waits: ${text(object(about.get(id)).kind, "–")}` })) };
}

export function graphOf(diagnosis) {
  const by = new Map(list(diagnosis.suspects).filter((s) => (number(s.score) ?? 0) >= 0.5 && text(s.host)).map((s) => [text(s.host), text(s.sentence)]));
  const owed = ofDebts(diagnosis, by);
  if (owed.edges.length > 0) return owed;
  const named = list(diagnosis.suspects).filter((s) => (number(s.score) ?? 0) >= 0.5).slice(0, 3);
  const waiting = list(diagnosis.classes).filter((c) => !named.some((s) => text(s.kind) === text(c.kind) && (number(c.ranks) ?? 0) <= named.length)).slice(0, 4);
  const ends = named.map((s, i) => ({ id: `s${i}`, end: true,
    title: `${text(s.host) || "host"} · ${text(s.slice)}, worker ${number(s.worker) ?? "–"}`, text: text(s.sentence) }));
  const starts = waiting.map((c, i) => ({ id: `c${i}`, title: `${many(number(c.ranks) ?? 0, "rank waits", "ranks wait")} in ${text(c.in)}`,
    text: `${text(c.hosts)}${c.frame ? `, ${frameText(object(c.frame))}` : ""}` }));
  return { nodes: [...starts, ...ends], edges: starts.flatMap((a) => ends.map((b) => ({ from: a.id, to: b.id, text: "wait for" }))) };
}

function wrap(words, room) {
  const lines = [""];
  for (const word of words.split(/\s+/)) {
    if (lines.at(-1).length + word.length + 1 > LETTERS && lines.at(-1)) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${word.slice(0, LETTERS)}`;
  }
  return lines.length > room ? [...lines.slice(0, room - 1), `${lines[room - 1].slice(0, LETTERS - 1)}…`] : lines;
}

// Columns by the longest way from a node that waits first; a circle ends at its first node.
function columnsOf({ nodes, edges }) {
  const depth = new Map(nodes.map((n) => [n.id, 0]));
  for (let i = 0; i < nodes.length; i++)
    for (const e of edges)
      if (depth.has(e.from) && depth.has(e.to) && depth.get(e.to) < depth.get(e.from) + 1 && depth.get(e.from) + 1 < nodes.length)
        depth.set(e.to, depth.get(e.from) + 1);
  const columns = [];
  for (const node of nodes) (columns[depth.get(node.id)] ||= []).push(node);
  return columns.filter(Boolean);
}

// narrow: the chain goes down instead of to the right.
export function picture(graph, narrow) {
  const columns = columnsOf(graph), places = new Map(), tall = TALL + (LINES - 1) * 16;
  columns.forEach((column, i) => column.forEach((node, j) => places.set(node.id, narrow
    ? { x: 0, y: [...columns.slice(0, i)].reduce((n, c) => n + c.length * (tall + 14), 0) + j * (tall + 14) + i * 26, node }
    : { x: i * (WIDE + GAP), y: j * (tall + 18), node })));
  const width = narrow ? WIDE + 30 : columns.length * (WIDE + GAP) - GAP;
  const height = Math.max(...[...places.values()].map((p) => p.y)) + tall + 2;
  const edges = graph.edges.filter((e) => places.has(e.from) && places.has(e.to)).slice(0, 60);
  return svg("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Who waits for whom: ${graph.edges.slice(0, 12).map((e) => `${places.get(e.from)?.node.title} ${e.text || "waits for"} ${places.get(e.to)?.node.title}`).join("; ")}` },
  svg("defs", null, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
    svg("path", { d: "M0 0L8 4L0 8z" }))),
  edges.map((e) => {
    const a = places.get(e.from), b = places.get(e.to);
    return narrow
      ? svg("path", { d: `M${WIDE} ${a.y + tall / 2}h20V${b.y + tall / 2}h-18`, "marker-end": "url(#tip)" })
      : svg("path", { d: `M${a.x + WIDE} ${a.y + tall / 2}C${a.x + WIDE + GAP / 2} ${a.y + tall / 2} ${b.x - GAP / 2} ${b.y + tall / 2} ${b.x - 1} ${b.y + tall / 2}`,
        "marker-end": "url(#tip)" });
  }),
  [...places.values()].map(({ x, y, node }) => svg("g", { class: node.end ? "end" : "" },
    svg("rect", { x: x + 1, y: y + 1, width: WIDE - 2, height: tall - 2, rx: 6 }),
    wrap(node.title, 1).map((line, i) => svg("text", { x: x + 12, y: y + 22 + i * 17, "font-weight": 600 }, line)),
    wrap(node.text.replaceAll("`", ""), LINES).map((line, i) => svg("text", { class: "small", x: x + 12, y: y + 44 + i * 16 }, line)))));
}
