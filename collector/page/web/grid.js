// SPDX-License-Identifier: Apache-2.0
// All hosts of all slices on one canvas, each slice in its topology: one cell a host. What is out of sight is
// not drawn. The table beside it has the same for the keyboard.
import { h, number, text } from "./dom.js";
import { colour, LOOKS } from "./look.js";

const GAP = 14, TITLE = 16;

// Hosts along the first axis of a topology of chips: those of a host are 2 x 2 of its first two axes.
export function columnsOf(topology, hosts) {
  const axes = text(topology).split("x").map(Number);
  if (axes.length >= 2 && axes.every((n) => n > 0)) {
    const [x, y, ...rest] = axes;
    for (const [a, b] of [[2, 2], [2, 4], [4, 2], [1, 1], [2, 1]])
      if ((x / a) * (y / b) * rest.reduce((p, n) => p * n, 1) === hosts) return x / a;
  }
  return Math.max(1, 2 ** Math.ceil(Math.log2(Math.sqrt(hosts))));
}

// props: { label, slices: [{ name, odd, cells: [{ host, look, dim }] }], open: (host) => … }
export function hostGrid() {
  let props = { slices: [] }, blocks = [], height = 0, cell = 16, pending = 0, width = 0, hot = null;
  const canvas = h("canvas", { role: "img" }), space = h("div"), tip = h("p", { class: "tip", hidden: true });
  const element = h("div", { class: "grid", onscroll: soon }, h("div", { class: "stick" }, canvas), space, tip);
  const sizes = new ResizeObserver(() => layOut());
  sizes.observe(element);
  addEventListener("resize", soon);

  function soon() {
    pending ||= requestAnimationFrame(draw);
  }
  function layOut() {
    width = element.clientWidth;
    const hosts = props.slices.reduce((n, slice) => n + slice.cells.length, 0);
    cell = hosts <= 64 ? 32 : hosts <= 256 ? 22 : hosts <= 2048 ? 16 : 12;
    let x = 0, y = 0, tallest = 0;
    blocks = [];
    for (const slice of props.slices) {
      const fits = Math.max(1, Math.floor(width / cell));
      const columns = Math.min(slice.columns, fits, slice.cells.length), rows = Math.ceil(slice.cells.length / columns);
      const w = Math.max(columns * cell, 6 * Math.min(slice.name.length, 14) + 20), tall = rows * cell + TITLE + GAP;
      if (x > 0 && x + w > width) {
        x = 0;
        y += tallest;
        tallest = 0;
      }
      blocks.push({ slice, x, y, w, tall, columns });
      x += w + GAP;
      tallest = Math.max(tallest, tall);
    }
    height = y + tallest;
    space.style.height = `${height}px`;
    element.classList.toggle("short", height < 400);
    soon();
  }
  function draw() {
    pending = 0;
    const seen = element.clientHeight, ratio = devicePixelRatio || 1, top = element.scrollTop;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(seen * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(seen * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${seen}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, seen);
    pen.textBaseline = "middle";
    const size = cell - 2, ink = colour("text"), signs = `bold ${Math.round(size * 0.8)}px system-ui, sans-serif`;
    const paints = LOOKS.map((look) => colour(look.word)), marks = LOOKS.map((look) => colour(`on-${look.word}`));
    for (const { slice, x, y, w, tall, columns } of blocks) {
      if (y + tall < top || y > top + seen) continue;
      pen.globalAlpha = 1;
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "left";
      pen.fillStyle = ink;
      pen.fillText(slice.name, x, y - top + TITLE / 2, w);
      pen.font = signs;
      pen.textAlign = "center";
      for (let i = 0; i < slice.cells.length; i++) {
        const { look, dim } = slice.cells[i];
        const left = x + (i % columns) * cell, above = y - top + TITLE + Math.floor(i / columns) * cell;
        if (above + cell < 0 || above > seen) continue;
        pen.globalAlpha = dim ? 0.15 : 1;
        pen.fillStyle = paints[look.rank];
        pen.fillRect(left, above, size, size);
        if (look.sign && size > 8) {
          pen.fillStyle = marks[look.rank];
          pen.fillText(look.sign, left + size / 2, above + size / 2 + 1);
        }
      }
    }
    if (hot) {
      pen.globalAlpha = 1;
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(hot.x, hot.y - top, size, size);
    }
    element.drawn?.();
  }
  function find(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top + element.scrollTop;
    for (const { slice, x, y, tall, columns } of blocks) {
      if (py < y + TITLE || py >= y + tall || px < x || px >= x + columns * cell) continue;
      const column = Math.floor((px - x) / cell), row = Math.floor((py - y - TITLE) / cell);
      const found = slice.cells[row * columns + column];
      return found ? { ...found, slice, x: x + column * cell, y: y + TITLE + row * cell } : null;
    }
    return null;
  }
  canvas.addEventListener("pointermove", (event) => {
    const found = find(event);
    if (found?.host === hot?.host) return;
    hot = found;
    tip.hidden = !hot;
    canvas.style.cursor = hot ? "pointer" : "default";
    if (hot) tip.textContent = `${text(hot.host.name)} · ${hot.slice.name}/${number(hot.host.worker_id) ?? "–"} · ${hot.look.word}`;
    soon();
  });
  canvas.addEventListener("pointerleave", () => {
    hot = null;
    tip.hidden = true;
    soon();
  });
  canvas.addEventListener("click", (event) => {
    const found = find(event);
    if (found) props.open(found.host);
  });
  element.update = (next) => {
    props = next;
    canvas.setAttribute("aria-label", props.label);
    layOut();
  };
  element.dispose = () => {
    sizes.disconnect();
    removeEventListener("resize", soon);
  };
  return element;
}
