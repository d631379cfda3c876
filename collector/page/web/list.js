// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows in sight are in the document. Arrow keys move from row to row.
import { h, morph } from "./dom.js";

const ROW = 32, SPARE = 6, LEAST = 13; // as many as the highest that it gets has room for

// props: { caption, heads: [text], rows: [{ key, href, cells: () => [cell] }] }; the first cell is the link.
export function longTable() {
  let props = { caption: "", heads: [], rows: [] }, pending = 0, focus = -1;
  const body = h("tbody"), head = h("thead"), caption = h("caption");
  const inner = h("table", { class: "long" }, caption, head, body);
  const element = h("div", { class: "scroll tall", onscroll: soon, onkeydown: move, role: "group" }, inner);

  function soon() {
    pending ||= requestAnimationFrame(draw);
  }
  function spacer(rows) {
    const row = h("tr", { "aria-hidden": "true", class: "spacer" }, h("td", { colspan: props.heads.length }));
    row.firstChild.style.height = `${rows * ROW}px`;
    return row;
  }
  function draw() {
    pending = 0;
    const n = props.rows.length, seen = Math.max(Math.ceil(element.clientHeight / ROW), LEAST);
    const from = Math.max(0, Math.min(Math.floor(element.scrollTop / ROW) - SPARE, n - seen));
    const to = Math.min(n, from + seen + 2 * SPARE);
    const rows = props.rows.slice(from, to).map((row, i) => h("tr", { "aria-rowindex": from + i + 2, "data-index": from + i },
      row.cells().map((cell, column) => column === 0
        ? h("th", { scope: "row" }, h("a", { href: row.href }, cell))
        : props.heads[column] === "Why" ? h("td", { class: "why", title: cell || null }, cell) : h("td", null, cell))));
    inner.setAttribute("aria-rowcount", n + 1);
    morph(body, [spacer(from), ...rows, spacer(n - to)]);
    if (focus >= from && focus < to) {
      body.querySelector(`tr[data-index="${focus}"] a`)?.focus();
      focus = -1;
    }
  }
  function move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const row = event.target.closest?.("tr[data-index]");
    if (!step || !row) return;
    event.preventDefault();
    focus = Math.min(Math.max(Number(row.getAttribute("data-index")) + step, 0), props.rows.length - 1);
    const top = focus * ROW, view = element.clientHeight - 2 * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + view) element.scrollTop = top - view;
    draw();
  }
  element.update = (next) => {
    props = next;
    caption.textContent = props.caption;
    element.setAttribute("aria-label", props.caption);
    morph(head, [h("tr", null, props.heads.map((title) => h("th", { scope: "col" }, title)))]);
    draw();
  };
  return element;
}
