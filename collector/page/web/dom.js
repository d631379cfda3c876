// SPDX-License-Identifier: Apache-2.0
// Elements out of data. Text only ever becomes a text node: nothing here can make markup of it.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) (element.handlers ||= {})[key.slice(2)] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const type of Object.keys(element.handlers || {})) element.addEventListener(type, dispatch);
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return element;
}

// A handler is looked up when the event comes, so that a morph can exchange it.
function dispatch(event) {
  const handler = event.currentTarget.handlers?.[event.type];
  if (handler) handler(event);
}

export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

// An element that keeps its own state (a canvas, a list that scrolls): made once for a key, then updated.
export function part(key, create, props) {
  const place = document.createElement("div");
  place.made = { key, create, props };
  return place;
}

function realize(place) {
  const { key, create, props } = place.made;
  const element = create();
  element.partKey = key;
  queueMicrotask(() => element.update(props)); // by then it is in the document
  return element;
}

// Makes the children of `parent` equal to `wanted` and keeps what is alike: focus and scrolling stay.
export function morph(parent, wanted) {
  let at = parent.firstChild;
  for (const next of wanted.flat(Infinity).filter((n) => n !== null && n !== undefined && n !== false)) {
    const node = next instanceof Node ? next : document.createTextNode(String(next));
    if (at && alike(at, node)) {
      renew(at, node);
      at = at.nextSibling;
    } else
      parent.insertBefore(node.made ? realize(node) : settle(node), at);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    drop(gone);
    gone.remove();
  }
}

function drop(node) {
  node.dispose?.();
  for (const child of node.children ?? []) drop(child);
}

function settle(node) {
  if (node.nodeType === Node.ELEMENT_NODE)
    for (const child of [...node.children])
      if (child.made) child.replaceWith(realize(child));
      else settle(child);
  return node;
}

function alike(old, node) {
  if (node.made) return old.partKey === node.made.key;
  return !old.partKey && old.nodeName === node.nodeName &&
    (old.nodeType !== Node.ELEMENT_NODE || old.getAttribute("data-key") === node.getAttribute("data-key"));
}

function renew(old, node) {
  if (node.made) return old.update(node.made.props);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes])
    if (!node.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  for (const { name, value } of node.attributes)
    if (old.getAttribute(name) !== value)
      if (name === "style") old.style.cssText = value; // as an attribute the policy forbids it
      else old.setAttribute(name, value);
  for (const type of Object.keys(node.handlers || {}))
    if (!old.handlers?.[type]) old.addEventListener(type, dispatch);
  old.handlers = node.handlers;
  morph(old, [...node.childNodes]);
}

// What came from outside: of the type that is wanted, or the value that stands for nothing.
export const text = (value, otherwise = "") => (typeof value === "string" ? value : otherwise);
export const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
export const list = (value) => (Array.isArray(value) ? value.filter((v) => v && typeof v === "object") : []);
export const object = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});

export const link = (view, name, shown = name) => h("a", { href: `#/${view}/${encodeURIComponent(name)}` }, shown);

// A command as it is typed, to be copied.
export function command(words) {
  return h("span", { class: "command" }, h("code", null, words),
    h("button", { type: "button", onclick: (e) => copy(words, e.currentTarget), "aria-label": `Copy: ${words}` }, "Copy"));
}

async function copy(words, button) {
  try {
    await navigator.clipboard.writeText(words);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it by hand";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

// A sentence of a verdict: what stands between backticks is code.
export const sentence = (words) => words.split("`").map((s, i) => (i % 2 ? h("code", null, s) : s));

// A word of a shell: quoted where it is not plain.
export const quoted = (word) =>
  /^[A-Za-z0-9._/:@+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export function table(caption, heads, rows, empty = "none") {
  if (rows.length === 0) return h("p", { class: "muted" }, `${caption}: ${empty}`);
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", null, h("caption", null, caption),
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, i) =>
        i === 0 ? h("th", { scope: "row" }, cell) : h("td", null, cell)))))));
}
