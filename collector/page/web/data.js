// SPDX-License-Identifier: Apache-2.0
// What the collector says: asked for again and again, and at once when an event comes. Each path's last answer
// stays when the collector is away, with its age.
import { list, number, object, text } from "./dom.js";

const TIMEOUT = 20e3, LEAST = 5e3, MOST = 60e3, WAIT = 25, EVENTS_KEPT = 100;
const answers = new Map(); // path -> { value, at, error, status }
let wanted = () => [], changed = () => {}, timer = 0, running = false, again = false, slowest = 0;
export const feed = { events: [], next: null, elsewhere: null };

export class Failure extends Error {
  constructor(words, status, value) {
    super(words);
    this.status = status;
    this.value = value;
  }
}

export async function ask(path, options) {
  const stop = new AbortController(), late = setTimeout(() => stop.abort(), options?.timeout ?? TIMEOUT);
  try {
    const response = await fetch(path, { redirect: "manual", cache: "no-store", signal: stop.signal, ...options?.fetch });
    if (response.type === "opaqueredirect") throw new Failure("another collector leads now: load the page again", 307);
    const value = await response.json().catch(() => null);
    if (!response.ok) throw new Failure(text(value?.error, `answer ${response.status}`), response.status, object(value));
    if (value === null || typeof value !== "object") throw new Failure("its answer is not understood", 0);
    return value;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(stop.signal.aborted ? "no answer in time" : "no connection", 0);
  } finally {
    clearTimeout(late);
  }
}

// All hosts, however many answers that takes.
async function askHosts(path) {
  const all = [];
  for (let offset = 0, turns = 0; offset !== null && turns < 20; turns++) {
    const answer = await ask(`${path}?offset=${offset}`);
    all.push(...list(answer.hosts));
    offset = number(answer.next);
  }
  return { hosts: all };
}

async function refresh(path) {
  const old = answers.get(path);
  try {
    const value = await (path === "/api/v1/hosts" ? askHosts(path) : ask(path));
    answers.set(path, { value, at: Date.now(), error: null, status: 200 });
  } catch (error) {
    answers.set(path, { value: error.status === 404 ? error.value : old?.value ?? null,
      at: error.status === 404 ? Date.now() : old?.at ?? null, error: error.message, status: error.status });
  }
}

// One turn at a time. The pause grows with what a turn takes, so that a large fleet is not asked all the time.
export async function turn() {
  clearTimeout(timer);
  if (running) return void (again = true);
  running = true;
  const began = performance.now(), paths = [...new Set(wanted())];
  for (const path of [...answers.keys()]) if (!paths.includes(path)) answers.delete(path);
  await Promise.all(paths.map(refresh));
  slowest = performance.now() - began;
  running = false;
  changed();
  const pause = again ? 500 : Math.min(Math.max(LEAST, 10 * slowest), MOST);
  again = false;
  if (!document.hidden) timer = setTimeout(turn, pause);
}

export const answer = (path) => answers.get(path) ?? { value: null, at: null, error: null, status: null };

export const isAsked = (path) => answers.has(path);

// How old the oldest answer of the view is, and what keeps it from being renewed.
export function staleness() {
  const failed = [...answers.values()].find((a) => a.error && a.status !== 404);
  const at = Math.min(...[...answers.values()].map((a) => a.at ?? Infinity));
  return { error: failed?.error ?? null, at: Number.isFinite(at) ? at : null };
}

// Events come by a call that waits for them; a new one is worth a turn.
async function follow() {
  for (let pause = 0; ; ) {
    if (pause) await new Promise((done) => setTimeout(done, pause));
    if (document.hidden) {
      pause = 1000;
      continue;
    }
    const began = Date.now();
    try {
      const path = feed.next === null ? `?limit=${EVENTS_KEPT}` : `?since=${feed.next}&wait=${WAIT}&limit=${EVENTS_KEPT}`;
      const answer = await ask(`/api/v1/events${path}`, { timeout: (WAIT + 10) * 1000 });
      const events = list(answer.events), next = number(answer.next);
      const first = feed.next === null;
      feed.elsewhere = null;
      feed.next = next ?? feed.next ?? 0;
      feed.events = [...feed.events, ...events].slice(-EVENTS_KEPT);
      if (events.length && !first) void turn();
      if (events.length) changed();
      pause = events.length || Date.now() - began > 5000 ? 300 : 5000; // too many wait there already
    } catch (error) {
      feed.elsewhere = error.status === 404 ? text(error.value.telemetry) || "another place" : null;
      pause = error.status === 404 ? MOST : LEAST;
      changed();
    }
  }
}

export function start(paths, onChange) {
  wanted = paths;
  changed = onChange;
  document.addEventListener("visibilitychange", () => document.hidden || turn());
  void turn();
  void follow();
}
