"""A site to look at: a real tpu-collectord with two slices of simulated hosts, a run over each, telemetry of
the last hour, and a run that stands still because one host reads. BUILD_DIR names the build."""

import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "collector")]
import otlp  # noqa: E402
from collector_case import Collector  # noqa: E402
from test_diagnosis import C10D, Captured, stacks  # noqa: E402
from registry_hosts import until  # noqa: E402

TOP = TESTS.parent
WEB = TOP / "collector/page/web"
LIBRARIES = TOP / "build/page"
RUN = "gemma-pretrain"
MAIN = [
    {"file": "train.py", "line": 214, "function": "train_step"},
    {"file": "train.py", "line": 391, "function": "main"},
    {"file": "train.py", "line": 402, "function": "<module>"},
]
WAITS = {
    "state": "S",
    "wait": "futex_wait_queue",
    "frames": [
        {"file": C10D, "line": 2050, "function": "all_reduce"},
        {"file": "optim.py", "line": 77, "function": "sync_gradients"},
        *MAIN,
    ],
}
READS = {
    "state": "S",
    "wait": "pipe_read",
    "syscall": "read",
    "frames": [
        {"file": "shards.py", "line": 51, "function": "read_record"},
        {"file": "dataset.py", "line": 88, "function": "next_batch"},
        *MAIN,
    ],
}
BLAMED = "s1-5"


def page_missing():
    absent = [n for n in ("uPlot.min.js", "uPlot.min.css") if not (LIBRARIES / n).exists()]
    return (
        f"{absent[0]} is not there: tools/deps page fetches it"
        if absent and not os.environ.get("GATE")
        else ""
    )


def page_folder(into):
    """The files of the page as a package has them."""
    folder = pathlib.Path(into)
    folder.mkdir(exist_ok=True)
    for file in [*WEB.iterdir(), *LIBRARIES.iterdir()]:
        shutil.copy(file, folder)
    return folder


def agent(host, slice_name, worker, accelerator="v6e-16"):
    return {
        "host.name": host,
        "service.name": "tpu-hostd",
        "service.version": "0.2.0",
        "tpu.boot.id": f"b-{host}",
        "tpu.slice.name": slice_name,
        "tpu.worker.id": worker,
        "tpu.accelerator.type": accelerator,
    }


class World:
    """slices: {name: how many hosts}; the run is over all of them."""

    def __init__(self, slices=(("s0", 8), ("s1", 8)), seed=7):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="page-test-"))
        page_folder(self.folder / "page")
        config = self.folder / "collectord.conf"
        config.write_text("[Collector]\nCapturePatience=4s\n")
        self.collector = Collector(
            str(self.folder / "c.db"), "--config", str(config), "--page", str(self.folder / "page")
        )
        self.url = f"http://127.0.0.1:{self.collector.api}/"
        self.random, self.stands, self.began, self.hosts = random.Random(seed), False, time.time(), []
        self.step0 = 18_203
        for name, n in slices:
            for worker in range(n):
                self.hosts.append(self._host(name, worker, n))

    def _host(self, slice_name, worker, n):
        h = Captured(
            self.collector,
            slice_name,
            worker,
            n,
            lambda k, me=f"{slice_name}-{worker}": stacks(READS if me == BLAMED else WAITS, self.step()),
            topology="4x8",
            accelerator="v6e-32",
            version="0.2.0",
        )
        h.figures = lambda: self._figures(h)
        return h

    def step(self):
        return self.step0 + (0 if self.stands else int((time.time() - self.began) / 4))

    def _checkpoint(self, h):
        """One host alone prints about saves."""
        if h.member["worker"] or h.member["slice"] != "s0":
            return {}
        saved = {"at": int((time.time() - 300) * 1e6), "step": 18_000, "took": 31_000_000, "since": 203}
        return {"checkpoint": saved}

    def _figures(self, h):
        part = h.parts.get(RUN)
        if not part or part["state"] != "running":
            return []
        doing = "stall" if self.stands else "step"
        return [
            {
                "run": RUN,
                "generation": part["generation"],
                "at": int(time.time() * 1e6),
                "step": self.step(),
                "step_time": 4_100_000,
                "doing": doing,
                "goodput": 0.93 if h.member["worker"] else 0.91,
                **self._checkpoint(h),
            }
        ]

    def start(self):
        for h in self.hosts:
            until(
                lambda h=h: h.records.get(f"slice/{h.member['slice']}", {}).get("state") == "ready", "ready"
            )
        body = json.dumps(
            {
                "v": 1,
                "name": RUN,
                "user": "alice",
                "framework": "torch",
                "argv": ["python3", "train.py"],
                "slices": sorted({h.member["slice"] for h in self.hosts}),
                "min": 1,
                "max": len({h.member["slice"] for h in self.hosts}),
            }
        )
        answer = self.collector.get("/api/v1/runs", "POST", body, {"Content-Type": "application/json"})
        assert answer.status == 201, answer.text
        until(lambda: all(h.parts.get(RUN, {}).get("state") == "running" for h in self.hosts), "all run it")

    def stall(self):
        """It stands still until the end; returns the episode with its verdict."""
        self.stands, self.step0 = True, self.step()
        at = int(time.time() * 1e6)
        for h in self.hosts:
            h.part(RUN, suspected=at, suspicion="no step for 41 s, usually 4 s")
        return until(self.verdict, "a verdict")

    def verdict(self):
        open_ = [e for e in self.collector.get("/api/v1/episodes").json["episodes"] if e["outcome"]]
        return open_[0] if open_ else None

    # --- Telemetry

    def past(self, minutes=60):
        """An hour of series, and what happened."""
        now = time.time()
        for h in self.hosts:
            self._past_of(h, [now - 15 * i for i in range(minutes * 4, -1, -1)])
        self.event(
            self.hosts[3],
            "tpu.check.changed",
            {
                "check": "nic.mtu",
                "subject": "eth1",
                "from": "OK",
                "to": "WARN",
                "found": "1460",
                "wanted": "8896",
                "source": "profiles/v6e.conf",
                "reason": "the route to the peers is narrower than the NIC",
                "remedy": "sudo tpu-netcfg --once",
                "silenced": "",
            },
            13,
            now - 900,
        )
        self.event(
            self.hosts[-3],
            "tpu.net.link_bad",
            {
                "run": RUN,
                "nic": "eth1",
                "peer": "s1-2",
                "address": "10.0.1.2",
                "links": 1,
                "timeouts": 4,
                "retransmits": 38,
                "text": "NIC eth1 to worker 2: 38 segments sent again in 10 s",
            },
            13,
            now - 40,
        )

    def event(self, h, name, body, severity=9, at=None):
        self.collector.post(
            "/v1/logs", otlp.request(self.agent(h), [otlp.log(name, body, severity, at or time.time())])
        )

    def agent(self, h):
        return agent(h.member["host"], h.member["slice"], h.member["worker"], "v6e-32")

    def _past_of(self, h, times):
        run, worker = {"tpu.run.name": RUN}, h.member["worker"]
        slow = 1.0 + (0.04 if h.member["host"] == BLAMED else 0.01 * self.random.random())
        sums, counts, value = [], [], 0.0
        for i, t in enumerate(times):
            value += 3.66 * 4.1 * slow * (1.6 if i % 80 == 79 else 1.0)
            sums.append(otlp.point(value, run, t))
            counts.append(otlp.point(float(int((i + 1) * 3.66)), run, t))
        chips = [(i, {"tpu.run.name": RUN, "tpu.process": 0, "tpu.chip": i}) for i in range(4)]
        wave = [0.86 + 0.08 * self.random.random() for _ in times]
        gauges = [
            otlp.gauge("tpu.run.step.duration.sum", sums),
            otlp.gauge("tpu.run.step.duration.count", counts),
            otlp.gauge("tpu.hbm.limit", [otlp.point(32 << 30, a, times[-1]) for _, a in chips]),
            otlp.gauge(
                "tpu.hbm.usage",
                [
                    otlp.point(int((27.1 + 0.2 * i + 0.3 * wave[k]) * (1 << 30)), a, t)
                    for i, a in chips
                    for k, t in list(enumerate(times))[::4]
                ],
            ),
            otlp.gauge(
                "tpu.duty_cycle",
                [
                    otlp.point(wave[k] - 0.01 * i, a, t)
                    for i, a in chips
                    for k, t in list(enumerate(times))[::4]
                ],
            ),
            otlp.gauge("tpu.tensorcore.idle_time", [otlp.point(0.2, a, times[-1]) for _, a in chips]),
            otlp.gauge(
                "tpu.run.loss",
                [
                    otlp.point(2.9 - 0.001 * i + 0.02 * self.random.random(), run, t)
                    for i, t in list(enumerate(times))[::4]
                ],
            ),
            otlp.gauge(
                "system.network.io",
                [
                    otlp.point(
                        float(2e9 * i * (1 + self.random.random() / 20)),
                        {"network.interface.name": nic, "network.io.direction": way},
                        t,
                    )
                    for nic in ("eth0", "eth1")
                    for way in ("receive", "transmit")
                    for i, t in list(enumerate(times))[::4]
                ],
            ),
            otlp.gauge(
                "tpu.run.time",
                [
                    otlp.point(seconds, {**run, "tpu.run.time.cause": cause}, times[-1])
                    for cause, seconds in (
                        ("step", 83_500.0),
                        ("start", 410.0),
                        ("compile", 720.0),
                        ("checkpoint", 3_900.0),
                        ("stall", 310.0),
                        ("restart", 1_240.0),
                    )
                ],
            ),
            otlp.gauge(
                "tpu.host.state",
                [
                    otlp.point(int(s == "ready"), {"tpu.host.state": s}, times[-1])
                    for s in ("ready", "degraded", "unfit")
                ],
            ),
            otlp.gauge(
                "tpu.check.verdict",
                [
                    otlp.point(
                        2 if (check, worker) == ("nic.mtu", 3) else 0,
                        {"tpu.check.name": check, "tpu.check.subject": subject},
                        times[-1],
                    )
                    for check, subject in (("nic.mtu", "eth1"), ("tpu.chips", ""), ("memory.locked", ""))
                ],
            ),
            otlp.gauge(
                "tpu.net.retransmits",
                [
                    otlp.point(
                        12.0 if h.member["host"] == BLAMED else 0.0,
                        {
                            "tpu.net.peer": "s1-2",
                            "network.interface.name": "eth1",
                            "tpu.net.retransmit.kind": "timeout",
                            **run,
                        },
                        times[-1],
                    )
                ],
            ),
        ]
        answer = self.collector.post("/v1/metrics", otlp.request(self.agent(h), gauges))
        assert answer.status == 200, answer.content

    def close(self):
        for h in self.hosts:
            h.ended.set()
        if self.collector.process.poll() is None:
            self.collector.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
