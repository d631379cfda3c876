// SPDX-License-Identifier: Apache-2.0
// One stall: the sentence, who waits for whom, the merged tree, what else was seen, what to do.
import { answer } from "./data.js";
import { command, h, link, list, number, object, part, quoted, sentence, svg, table, text } from "./dom.js";
import { boxesOf, frameText, icicle, listed } from "./icicle.js";
import { linkMatrix } from "./links.js";
import { ago, clock, count, many, span, when } from "./look.js";
import { EPISODES, facts, HOSTS, isOpen, isRoutine, onCall, telemetry, whenThere } from "./pieces.js";
import { graphOf, picture } from "./waits.js";

const path = (id) => `/api/v1/episodes/${encodeURIComponent(id)}`;
const BEFORE = 600e3, AFTER = 300e3;
const slicesOf = (value) => (Array.isArray(value?.slices) ? value.slices.filter((s) => typeof s === "string") : []);
function eventPaths(id) {
  const value = answer(path(id)).value, at = when(value?.at);
  return at === null ? [] : slicesOf(value).slice(0, 4).map((s) =>
    `/api/v1/events?slice=${encodeURIComponent(s)}&from=${encodeURIComponent(new Date(at - BEFORE).toISOString())}&limit=500`);
}

// Whether a person's question still holds is seen on the hosts (isOpen).
const needsHosts = (id) => answer(path(id)).value !== null && !text(answer(path(id)).value.confirmed);

function suspects(diagnosis) {
  const named = list(diagnosis.suspects).slice(0, 8);
  return named.length === 0 ? null : h("section", { "aria-label": "Suspects" }, h("h2", null, "Who is named, and why"),
    table("Hosts by score", ["Host", "Score", "Sentence", "Details"], named.map((s) => [text(s.host) ? link("host", text(s.host)) : `worker ${number(s.worker) ?? "–"}`,
      (number(s.score) ?? 0).toFixed(2), sentence(text(s.sentence)), (Array.isArray(s.details) ? s.details : []).filter((d) => typeof d === "string").join(" · ")])),
    named.slice(0, 2).map((s) => (list(s.chain).length === 0 ? null
      : [h("h3", null, `The chain of waits on ${text(s.host)}`), table(`The chain of waits on ${text(s.host)}`, ["Process", "Thread", "Stands in", "Waits for"], list(s.chain).slice(0, 20).map((c) =>
        [`${text(c.command, "–")} (${number(c.pid) ?? "–"})`, `${text(c.name)} ${number(c.tid) ?? ""}`, text(c.kind), text(c.waits) || "nobody that is known"]))])));
}

function waits(diagnosis) {
  const graph = graphOf(diagnosis);
  return graph.nodes.length === 0 ? null : h("section", { "aria-label": "Who waits for whom" }, h("h2", null, "Who waits for whom"),
    picture(graph, innerWidth < 700),
    list(diagnosis.classes).length ? table("Where ranks stand", ["Waits for", "Ranks", "Where", "Hosts", "Moved"], list(diagnosis.classes).slice(0, 40).map((c) =>
      [text(c.kind), count(number(c.ranks)), [text(c.in), c.frame ? h("div", { class: "muted" }, frameText(object(c.frame))) : null], text(c.hosts), c.moved === true ? "yes" : "no"])) : null);
}

function tree(diagnosis) {
  const boxes = boxesOf(object(diagnosis.tree)), hosts = number(object(diagnosis.tree).hosts) ?? 0;
  if (boxes.length === 0) return null;
  return h("section", { "aria-label": "Merged stacks" }, h("h2", null, `Where ${many(hosts, "host")} stand`),
    h("p", { class: "muted" }, "Outermost frame on top; the width is how many hosts are in it. Bright: fewer than half of them."),
    part("tree", icicle, { boxes, hosts, label: `Merged stacks of ${many(hosts, "host")}. Odd frames: ${boxes.filter((b) => b.odd).slice(-3).map((b) => `${b.name} (${b.set})`).join("; ") || "none"}` }),
    h("details", null, h("summary", null, "The same as a table"),
      table("Frames, odd ones first", ["Frame", "Hosts", "Which", "Depth"], listed(boxes).map((b) => [b.name, count(b.hosts), b.set, b.depth + 1]))));
}

const around = (id, at) => eventPaths(id).flatMap((p) => list(answer(p).value?.events))
  .filter((e) => when(e.time) !== null && when(e.time) <= at + AFTER && when(e.time) >= at - BEFORE && !isRoutine(e));

function evidence(id, value) {
  const at = when(value.at), events = at === null ? [] : around(id, at);
  if (at === null) return null;
  const shown = events.filter((e) => /WARN|ERROR|FATAL/.test(text(e.severity)) || text(e.name).startsWith("tpu.run."))
    .sort((a, b) => when(a.time) - when(b.time)).slice(-200);
  const wide = innerWidth < 700 ? 400 : 1000, place = (ms) => 20 + ((ms + BEFORE) / (BEFORE + AFTER)) * (wide - 40);
  return h("section", { "aria-label": "Evidence" }, h("h2", null, "What else happened, on one time line"), telemetry(),
    shown.length === 0 ? h("p", { class: "muted" }, "no event of these slices from 10 minutes before to 5 minutes after") : [
      svg("svg", { class: "picture", viewBox: `0 0 ${wide} 70`, width: wide, height: 70, role: "img", "aria-label": `${many(shown.length, "event")} around the stall` },
        svg("line", { x1: 20, x2: wide - 20, y1: 34, y2: 34 }), svg("line", { x1: place(0), x2: place(0), y1: 8, y2: 52 }),
        [-10, -5, 0, 5].map((m) => svg("text", { class: "small", x: place(m * 60e3), y: 66, "text-anchor": m === 5 ? "end" : m === -10 ? "start" : "middle" },
          m === 0 ? "asked" : `${m > 0 ? "+" : "−"}${Math.abs(m)} min`)),
        shown.map((e) => svg("circle", { cx: place(when(e.time) - at), cy: 34, r: 6, class: `dot dot-${text(e.severity).replace(/[^A-Z]/g, "")}` }))),
      table("Events around the stall", ["When", "Host", "What"], shown.map((e) => {
        const off = (when(e.time) - at) / 1000;
        return [`${off < 0 ? "−" : "+"}${span(Math.abs(off))}`, text(e.service) === "tpu-hostd" ? link("host", text(e.host)) : text(e.host), text(e.sentence) ? sentence(text(e.sentence)) : text(e.name)];
      }))],
    linkMatrix(events));
}

function actions(value, diagnosis) {
  const named = list(diagnosis.suspects).filter((s) => (number(s.score) ?? 0) >= 0.5 && text(s.host)).slice(0, 2);
  return h("section", { "aria-label": "What you can do" }, h("h2", null, "What you can do"),
    named.map((s) => command(`tpuctl fleet cordon ${quoted(text(s.host))} ${quoted(`stall ${text(value.episode)}`)}`)),
    slicesOf(value).slice(0, 1).flatMap((s) => [command(`tpuctl diagnose ${quoted(s)} --episode ${quoted(text(value.episode))}`), command(`tpuctl diagnose ${quoted(s)} --capture`)]),
    text(value.run) ? command(`tpuctl logs ${quoted(text(value.run))} --fleet`) : null, onCall("hang"));
}

function render(id) {
  return whenThere(path(id), (value) => {
    const diagnosis = object(value.diagnosis), open = isOpen(value);
    return [
      h("h1", null, `Run ${text(value.run) || "–"} ${open ? "stands still" : text(value.confirmed) ? "stood still" : "was asked where it stands"}`),
      h("div", { class: open ? "lead" : "lead over", role: "group", "aria-label": "Verdict" },
        h("strong", null, text(value.summary) ? sentence(text(value.summary)) : "No verdict yet: the hosts are asked where they stand."),
        h("div", { class: "muted" }, text(value.recovered) ? `It went on at ${clock(value.recovered)}.` : text(value.confirmed) ? `Confirmed at ${clock(value.confirmed)}.` : value.suspected === false ? `Asked by ${text(value.by) || "somebody"}; no host had suspected a stall.` : "Not confirmed.",
          ` Its hosts were asked at ${clock(value.at)}, ${ago(value.at)}.`)),
      actions(value, diagnosis),
      facts([["Run", text(value.run) ? link("run", text(value.run)) : null], ["Generation", number(value.generation) === null ? null : count(value.generation)],
        ["Slices", slicesOf(value).map((s, i) => [i ? ", " : "", link("slice", s)])], ["Answered", `${number(value.answered) ?? "–"} of ${number(value.hosts) ?? "–"} hosts`],
        [value.suspected === false ? "Asked by" : "Suspected by", text(value.by)], ["Because", text(value.why)], ["Outcome", text(value.outcome)], ["Episode", text(value.episode)]]),
      waits(diagnosis), suspects(diagnosis), tree(diagnosis), evidence(id, value)];
  });
}

export const stall = { title: () => "Stall", paths: (id) => [path(id), EPISODES, ...(needsHosts(id) ? [HOSTS] : []), ...eventPaths(id)], render: (id) => [render(id)].flat() };
