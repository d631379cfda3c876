// SPDX-License-Identifier: Apache-2.0
// What a host does, in one word, with its colour and sign; and how times and numbers are written.
import { number, text } from "./dom.js";

const SILENT = 60; // seconds, as tpuctl fleet has it

// In the order of oddness: the first is what people look for. sign: what stands in a cell beside its colour.
export const LOOKS = [
  ["suspect", "!"], ["stalled", "="], ["silent", "×"], ["unfit", "!"], ["cordoned", "/"], ["degraded", "·"], ["pause", "p"],
  ["evaluation", "e"], ["checkpoint", "c"], ["compiling", "c"], ["starting", "s"], ["unknown", "?"],
  ["ready", ""], ["stepping", ""],
].map(([word, sign], rank) => ({ word, sign, rank }));
const BY_WORD = new Map(LOOKS.map((look) => [look.word, look]));
const DOING = { stall: "stalled", pause: "pause", evaluation: "evaluation", checkpoint: "checkpoint",
  compile: "compiling", start: "starting", step: "stepping" };

let suspects = new Map(); // host -> the sentence that names it
export const suspect = (named) => (suspects = named);
export const blamedFor = (host) => suspects.get(text(host.name)) ?? "";

export function lookOf(host) {
  if (suspects.has(text(host.name))) return BY_WORD.get("suspect");
  const state = text(host.state);
  let word = DOING[text(host.doing)];
  if (host.registry === "missing" || (number(host.age_seconds) ?? 0) > SILENT) word = "silent";
  else if (word === "stalled") ;
  else if (state === "unfit") word = "unfit";
  else if (text(host.orders)) word = "cordoned";
  else if (state === "degraded" && (!word || word === "stepping")) word = "degraded";
  else word ||= state === "ready" ? "ready" : text(host.run) ? "stepping" : "unknown";
  return BY_WORD.get(word);
}
export const ODD = 5; // looks up to this rank are odd

// The colours of the page's style, for canvases.
let colours = null;
export function colour(name) {
  colours ||= new Map();
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "gray");
  return colours.get(name);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours = null;
  dispatchEvent(new Event("resize")); // canvases draw again
});
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function span(seconds) {
  const n = number(seconds);
  if (n === null) return "–";
  if (n < 1) return `${Math.round(n * 1000)} ms`;
  if (n < 10) return `${n.toFixed(1)} s`;
  if (n < 120) return `${Math.round(n)} s`;
  if (n < 7200) return `${Math.round(n / 60)} min`;
  return n < 172800 ? `${Math.round(n / 3600)} h` : `${Math.round(n / 86400)} d`;
}
export const since = (seconds) => (number(seconds) !== null && seconds < 1 ? "just now" : `${span(seconds)} ago`);
export const share = (n) => (number(n) === null ? "–" : n > 0 && n < 0.005 ? "< 1 %" : `${(n * 100).toFixed(n > 0.995 && n < 1 ? 1 : 0)} %`);
export const count = (n) => (number(n) === null ? "–" : n.toLocaleString("en-US"));
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
export function bytes(n) {
  if (number(n) === null) return "–";
  const unit = Math.min(Math.floor(Math.log2(Math.max(n, 1)) / 10), 5);
  return `${(n / 1024 ** unit).toFixed(unit && n / 1024 ** unit < 100 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}
// A time of the API: RFC 3339, or microseconds since 1970 in records.
export function when(value) {
  const at = typeof value === "number" ? (value > 0 ? value / 1000 : NaN) : Date.parse(text(value));
  return Number.isFinite(at) ? at : null;
}
export function clock(value) {
  const at = when(value);
  if (at === null) return "–";
  const iso = new Date(at).toISOString();
  return Math.abs(Date.now() - at) < 20 * 3600e3 ? `${iso.slice(11, 19)} UTC` : `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}
export const ago = (value) => (when(value) === null ? "–" : since((Date.now() - when(value)) / 1000));
