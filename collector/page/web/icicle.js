// SPDX-License-Identifier: Apache-2.0
// The merged tree of a verdict: the width of a frame is how many hosts are in it. What few hosts have is bright,
// the rest is grey. The list beside it has the same for the keyboard.
import { h, list, number, text } from "./dom.js";
import { colour } from "./look.js";

const ROW = 20, DEPTH = 60, BOXES = 3000, LISTED = 400;

export function frameText(frame) {
  const name = text(frame.function, "?");
  if (frame.kind === "kernel") return `${name} [kernel]`;
  if (frame.kind === "native") return `${name} [${text(frame.module)}]`;
  return text(frame.file) ? `${name} (${text(frame.file)}${number(frame.line) ? `:${frame.line}` : ""})` : name;
}

// The tree as boxes: { depth, from, to (of all hosts, 0 to 1), name, hosts, set, odd }.
export function boxesOf(tree) {
  const all = number(tree?.hosts) ?? 0, boxes = [];
  if (all <= 0) return boxes;
  const visit = (node, depth, from, whole) => {
    const hosts = number(node.hosts) ?? 0, to = from + Math.min(hosts / all, whole);
    for (const frame of list(node.frames)) {
      if (depth >= DEPTH || boxes.length >= BOXES) return;
      boxes.push({ depth: depth++, from, to, name: frameText(frame), hosts, set: text(node.set), odd: hosts * 2 < all });
    }
    let at = from;
    for (const child of list(node.children)) {
      visit(child, depth, at, to - at);
      at += Math.min((number(child.hosts) ?? 0) / all, Math.max(0, to - at));
    }
  };
  visit(tree, 0, 0, 1);
  return boxes;
}

// What is common to all and leads to nothing else is one line: the odd frames are what people came for.
export function listed(boxes) {
  return [...boxes].sort((a, b) => Number(b.odd) - Number(a.odd) || a.from - b.from || a.depth - b.depth).slice(0, LISTED);
}

// props: { label, boxes }
export function icicle() {
  let props = { boxes: [] }, hot = null;
  const canvas = h("canvas", { role: "img" }), told = h("p", { class: "told", "aria-hidden": "true" });
  const element = h("div", { class: "icicle" }, canvas, told);
  const sizes = new ResizeObserver(draw);
  sizes.observe(element);
  addEventListener("resize", draw);

  function draw() {
    const width = element.clientWidth, ratio = devicePixelRatio || 1;
    const height = ROW * (1 + Math.max(0, ...props.boxes.map((b) => b.depth)));
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    for (const box of props.boxes) {
      const x = box.from * width, w = Math.max(1, (box.to - box.from) * width - 1), y = box.depth * ROW;
      pen.fillStyle = colour(box.odd ? "odd" : "common");
      pen.fillRect(x, y, w, ROW - 1);
      if (box === hot) {
        pen.strokeStyle = colour("text");
        pen.strokeRect(x + 0.5, y + 0.5, w - 1, ROW - 2);
      }
      if (w < 24) continue;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w - 2, ROW);
      pen.clip();
      pen.fillStyle = colour(box.odd ? "on-odd" : "on-common");
      pen.fillText(box.name, x + 4, y + ROW / 2);
      pen.restore();
    }
  }
  canvas.addEventListener("pointermove", (event) => {
    const edge = canvas.getBoundingClientRect(), at = (event.clientX - edge.left) / edge.width;
    const depth = Math.floor((event.clientY - edge.top) / ROW);
    hot = props.boxes.find((b) => b.depth === depth && b.from <= at && at < b.to) ?? null;
    told.textContent = hot ? `${hot.name}: ${hot.hosts} of ${props.hosts} hosts, ${hot.set}` : "";
    draw();
  });
  element.update = (next) => {
    props = next;
    canvas.setAttribute("aria-label", next.label);
    draw();
  };
  element.dispose = () => {
    sizes.disconnect();
    removeEventListener("resize", draw);
  };
  return element;
}
