"""Hosts that speak to the registry of tpu-collectord as agents do: a thread each, its own connection,
acting on the runs it is told of."""

import http.client
import json
import threading
import time

TIME = 60  # s: how long a condition may take on a slow machine


def until(condition, what, seconds=TIME):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)


class Host:
    """member: what it says of itself; records: what it was told. acts=False: it only listens."""

    def __init__(self, collector, slice_name, worker, hosts, acts=True, **more):
        self.collector = collector
        self.member = {"v": 1, "slice": slice_name, "worker": worker, "host": f"{slice_name}-{worker}",
                       "id": f"id-{slice_name}-{worker}",
                       "incarnation": f"{hash((slice_name, worker)) & 0xffffffffffff:016x}",
                       "address": [f"10.0.{slice_name[-1]}.{worker}"],
                       "hosts": hosts, "accelerator": "v6e-16",
                       "fingerprint": {"digest": "d", "parts": {"libtpu": "d"}}, "state": "ready",
                       "runs": [], **more}
        self.records, self.conflict, self.refuses, self.answers, self.whole = {}, None, None, 0, 0
        self.acts, self.ended, self.changed, self.error = acts, threading.Event(), True, None
        self.revision, self.parts, self.lock = None, {}, threading.Lock()
        self.figures = None  # a function: what each sync says of its runs
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def end(self):
        """It falls silent, as a host that lost its power."""
        self.ended.set()
        self.thread.join(TIME)

    def say(self, **more):
        with self.lock:
            self.member.update(more)
            self.changed = True

    def part(self, run, **more):
        """What it says of a run."""
        with self.lock:
            self.parts[run].update(more)
            self.changed = True

    def _run(self):
        c = None
        while not self.ended.is_set():
            try:
                c = c or http.client.HTTPConnection("127.0.0.1", self.collector.otlp, timeout=TIME)
                self._sync(c)
            except (OSError, http.client.HTTPException, ValueError) as e:
                self.error, c = e, None
                time.sleep(0.1)

    def _sync(self, c):
        with self.lock:
            whole, self.changed = self.changed, False
            self.member["runs"] = [dict(p) for p in self.parts.values()]
            q = {"v": 1, "member": self.member} if whole else \
                {"v": 1, "same": f"{self.member['slice']}/{self.member['worker']}",
                 "incarnation": self.member["incarnation"]}
            if self.figures:
                q["figures"] = self.figures()
            text = json.dumps({**q, "wait": 1, **({"since": self.revision} if self.revision else {})})
        c.request("POST", "/registry/v1/sync", text)
        r = c.getresponse()
        answer = json.loads(r.read())
        if r.status != 200:
            self.error, self.changed = answer, True
            time.sleep(0.1)
            return
        self.answers += 1
        self.conflict = answer["conflict"]
        if answer["tell"] or self.conflict:
            self.changed = True
            time.sleep(0.1)
            return
        self.revision = answer["revision"]
        records = {} if answer["whole"] else dict(self.records)
        records.update(answer["records"])
        self.records = {k: v for k, v in records.items() if v is not None}  # at once: others look at it
        self.whole += answer["whole"]
        if self.acts:
            self._act()

    def _act(self):
        """What docs/registry.md says a host does for a run."""
        for key, r in self.records.items():
            if not key.startswith("run/"):
                continue
            mine = self.parts.get(r["name"], {"generation": 0, "state": None})
            inside = any(s["slice"] == self.member["slice"]
                         and any(h["worker"] == self.member["worker"] for h in s["hosts"])
                         for s in r["slices"])
            alive, older = mine["state"] in ("starting", "running"), mine["generation"] < r["generation"]
            state = None
            if alive and (r["state"] in ("stopping", "ended") or not inside
                          or (older and r["state"] != "waiting")):
                state = "stopped"
            elif inside and r["state"] == "preparing" and older:
                state, mine = "refused" if self.refuses else "prepared", {"generation": r["generation"]}
            elif inside and r["state"] == "running" and not older and mine["state"] == "prepared":
                state = "running"
            if state:
                with self.lock:
                    self.parts[r["name"]] = {"name": r["name"], "generation": mine["generation"],
                                             "state": state, "cause": "", "code": "",
                                             "status": "", "step": 0, "detail": self.refuses or ""}
                    self.changed = True
