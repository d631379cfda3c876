// SPDX-License-Identifier: Apache-2.0
// Which paths lost packets: segments that were sent again, from host to peer, as hosts reported of bad links.
import { h, number, object, text } from "./dom.js";
import { count } from "./look.js";

const SHOWN = 16; // hosts, and peers, those with most first

// Events of bad links as { rows, columns, at: (row, column) => segments }.
export function matrixOf(events) {
  const cells = new Map(), rows = new Map(), columns = new Map();
  for (const event of events.filter((e) => text(e.name) === "tpu.net.link_bad")) {
    const body = object(event.body), n = number(body.retransmits) ?? 0, from = text(event.host), to = text(body.peer) || text(body.address);
    if (!from || !to || n <= 0) continue;
    const key = JSON.stringify([from, to]);
    cells.set(key, (cells.get(key) ?? 0) + n);
    rows.set(from, (rows.get(from) ?? 0) + n);
    columns.set(to, (columns.get(to) ?? 0) + n);
  }
  const most = (sums) => [...sums].sort((a, b) => b[1] - a[1]).slice(0, SHOWN).map(([name]) => name);
  return { rows: most(rows), columns: most(columns), at: (row, column) => cells.get(JSON.stringify([row, column])) ?? 0 };
}

export function linkMatrix(events) {
  const { rows, columns, at } = matrixOf(events);
  if (rows.length === 0) return null;
  const most = Math.max(...rows.flatMap((row) => columns.map((column) => at(row, column)))), caption = "Segments sent again, from host to peer";
  return h("section", { "aria-label": "Retransmits" }, h("h2", null, caption),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
      h("table", { class: "matrix" }, h("caption", null, caption),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "from \\ to"), columns.map((column) => h("th", { scope: "col" }, column)))),
        h("tbody", null, rows.map((row) => h("tr", null, h("th", { scope: "row" }, row),
          columns.map((column) => h("td", { class: at(row, column) * 2 > most ? "far" : null }, at(row, column) ? count(at(row, column)) : "·"))))))));
}
