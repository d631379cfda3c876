// SPDX-License-Identifier: Apache-2.0
// The views by address: #/fleet, #/run/NAME, #/slice/NAME, #/host/NAME, #/stall/ID. One is shown; it says which
// answers of the collector it needs, and draws what is there of them.
import { isAsked, staleness, start, turn } from "./data.js";
import { h, morph } from "./dom.js";
import { fleet } from "./fleet.js";
import { host } from "./host.js";
import { span } from "./look.js";
import { markSuspects } from "./pieces.js";
import { run } from "./run.js";
import { slice } from "./slice.js";
import { stall } from "./stall.js";

const views = { fleet, run, slice, host, stall };
const main = document.getElementById("main"), fresh = document.getElementById("fresh");
let view = fleet, name = "", drawn = 0;

function route() {
  const [, kind = "fleet", ...rest] = location.hash.split("/");
  let wanted = "";
  try {
    wanted = decodeURIComponent(rest.join("/"));
  } catch {
    wanted = rest.join("/");
  }
  const next = Object.hasOwn(views, kind) ? views[kind] : fleet, other = next !== view || wanted !== name;
  [view, name] = [next, wanted];
  document.title = `${view.title(name)} · TPU fleet`;
  if (!other) return;
  morph(main, []);
  draw();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  void turn();
}

// At most once a frame.
function draw() {
  drawn ||= requestAnimationFrame(() => {
    drawn = 0;
    try {
      markSuspects();
      morph(main, [view.render(name, draw)].flat());
    } catch (error) { // an answer that nobody thought of; what was drawn before stays
      console.warn(error);
      morph(main, [h("p", { role: "alert" }, "What the collector answered cannot be shown. tpuctl shows it as it is.")]);
    }
    if (view.paths(name).some((path) => !isAsked(path))) void turn();
    tell();
  });
}

// How old it is what stands here.
function tell() {
  const { error, at } = staleness(), age = at === null ? null : Math.max(0, (Date.now() - at) / 1000);
  const words = error
    ? age === null ? `The collector does not answer: ${error}.` : `The collector does not answer (${error}). The last known, ${span(age)} old.`
    : age === null ? "asking the collector …" : age > 90 ? `as of ${span(age)} ago` : "live";
  if (fresh.textContent !== words) fresh.textContent = words;
  fresh.className = error ? "away" : "";
}

addEventListener("hashchange", route);
addEventListener("resize", draw);
setInterval(tell, 1000);
start(() => view.paths(name), draw);
route();
draw();
