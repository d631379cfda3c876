// SPDX-License-Identifier: Apache-2.0
// What several views show.
import { answer, feed } from "./data.js";
import { h, link, list, number, object, sentence, text } from "./dom.js";
import { ago, blamedFor, clock, colour, lookOf, many, suspect, when } from "./look.js";

export const HOSTS = "/api/v1/hosts", RUNS = "/api/v1/runs", EPISODES = "/api/v1/episodes", SLICES = "/api/v1/slices";
export const hosts = () => list(answer(HOSTS).value?.hosts);
export const episodes = () => list(answer(EPISODES).value?.episodes);

export function stateOf(look) {
  const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = colour(look.word);
  return h("span", { class: "state" }, swatch, look.word);
}
export const hostState = (host) => stateOf(lookOf(host));

// Why a host is as it is, in one line: of one that is stalled no word of its checks, which are not why.
// Of a verdict, what comes behind the words that say which host it is.
const behindName = (words) => words.slice(words.indexOf(": ") < 0 ? 0 : words.indexOf(": ") + 2).replaceAll("`", "");
export const reasonOf = (host) => behindName(blamedFor(host)) || text(host.suspicion) ||
  (lookOf(host).word === "stalled" ? "no step for longer than is usual"
    : host.registry === "missing" ? text(host.missing) || "missing" : text(host.orders) || text(host.reasons));

// Whom verdicts name that still hold: to be called before anything is drawn.
export const markSuspects = () => suspect(new Map(episodes().filter((e) => isOpen(e) && text(e.named)).map((e) => [text(e.named), text(e.summary)])));
const confirmed = (episode) => text(episode.confirmed) !== "" && text(episode.recovered) === "";

// Runs of which a host says that they stall; looked for once for an answer.
let standing = { value: null, runs: new Set() };
function stands(run) {
  const { value } = answer(HOSTS);
  if (standing.value !== value) standing = { value, runs: new Set(hosts().filter((host) => text(host.doing) === "stall").map((host) => text(host.run))) };
  return standing.runs.has(run);
}

// The verdict of a stall holds until the run goes on. A person's question is about a moment: what it named holds
// while the run stands, and nothing newer is known of it.
const ASKED = 600e3;
const isNewest = (episode) => !episodes().some((e) => text(e.run) === text(episode.run) && (confirmed(e) || (when(e.at) ?? 0) > when(episode.at)));
export const isOpen = (episode) => confirmed(episode) || (text(episode.outcome) === "named" && text(episode.recovered) === "" &&
  Date.now() - (when(episode.at) ?? 0) < ASKED && stands(text(episode.run)) && isNewest(episode));

export function verdicts(shown) {
  return shown.length === 0 ? null : h("ul", { class: "verdicts", "aria-label": "Stalls" }, shown.map((e) =>
    h("li", { class: isOpen(e) ? null : "over", "data-key": text(e.episode) },
      h("a", { href: `#/stall/${encodeURIComponent(text(e.episode))}` }, `Run ${text(e.run)}: `, sentence(text(e.summary) || "its hosts are asked where they stand")),
      h("div", { class: "muted" }, `${isOpen(e) ? "stands still" : text(e.recovered) ? "went on" : "asked"} · ${clock(e.at)}, ${ago(e.at)}`,
        ` · ${many(number(e.answered) ?? 0, "host")} of ${number(e.hosts) ?? "–"} answered`))));
}

export function telemetry() {
  return feed.elsewhere ? h("p", { role: "note" }, `telemetry goes to ${feed.elsewhere}: events, series and lines are there`) : null;
}

// That a host was asked for its stacks, and what it answered: the verdict says what came of it.
export const isRoutine = (event) => /^tpu\.(run|stack)\.captured$/.test(text(event.name)) ||
  (text(event.name) === "tpu.api.acted" && text(object(event.body).call).endsWith("/capture"));

export function eventList(events, title = "What happened lately") {
  const shown = [...events].sort((a, b) => (when(b.time) ?? 0) - (when(a.time) ?? 0));
  return h("section", { "aria-label": title }, h("h2", null, title), telemetry(),
    shown.length === 0 && !feed.elsewhere ? h("p", { class: "muted" }, "nothing yet") : null,
    h("ul", { class: "events" }, shown.map((e) => h("li", { "data-key": String(e.id) },
      h("time", { datetime: text(e.time) }, clock(e.time)),
      text(e.host) && text(e.service) === "tpu-hostd" ? [link("host", text(e.host)), " "] : null,
      h("span", { class: /^(WARN|ERROR|FATAL)$/.test(text(e.severity)) ? text(e.severity) : null },
        text(e.sentence) ? sentence(text(e.sentence)) : `${text(e.name)} ${typeof e.body === "string" ? e.body : ""}`)))));
}

export const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

export const commands = (title, list_) => h("section", { "aria-label": title }, h("h2", null, title), list_);
export const onCall = (anchor) => h("p", { class: "muted" }, "On call: ", h("code", null, `/usr/share/doc/tpu-collector/on-call.md#${anchor}`));

// What is asked for: not there, not yet here, or the nodes of it.
export function whenThere(path, show) {
  const got = answer(path);
  if (got.value && got.status !== 404) return show(object(got.value));
  if (got.error) return h("p", { role: "alert" }, got.error, text(got.value?.remedy) ? h("span", { class: "muted" }, ` — ${text(got.value.remedy)}`) : null);
  return h("p", { class: "muted" }, "asking the collector …");
}
