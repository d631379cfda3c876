#!/usr/bin/python3
"""The demo: four booted hosts of two slices, two collectors over etcd, a real training by one command;
agents, the leader and a rank are killed, a rank is stopped; then a training in a container that nobody told
us of. Started by tools/demo.

One line a step, with its time. Every fact is read by an outside observer (in brackets: who) beside our
own answer.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import own_container
import control
import page_view
import scenario as s
import slices
from lab.tree import apt_layer, training_layer
from scenario import LabError

HOSTS, PER_SLICE = 4, 2
UNTOLD, GO = "sweep-7", "/srv/chips-are-free"  # a training that no agent is told of, and what it waits for
AIM = 20  # seconds up to step 1, where a demo ran before
PICTURES = Path(__file__).resolve().parents[2] / "build/demo"


class Teller:
    """Prints one line a step; while a long one runs on a terminal, its seconds are counted."""

    def __init__(self, total):
        self.total, self.number, self.good = total, 0, 0

    def step(self, title, action):
        self.number += 1
        began = time.monotonic()
        if sys.stdout.isatty():
            print(f"  {self.number:2}/{self.total}  {title} …", end="\r", flush=True)
        try:
            said = action()
            mark, self.good = "ok  ", self.good + 1
        except Exception as error:
            name = "failed" if isinstance(error, LabError) else type(error).__name__
            said, mark = f"{name}: {error}", "FAIL"
        took = time.monotonic() - began
        print(f"{mark}{self.number:2}/{self.total}  {title}  ({took:.1f} s)", flush=True)
        for line in str(said).splitlines():
            print(f"            {line}", flush=True)
        return mark == "ok  "


def boot(lab):
    lab.start()
    control.start_etcd(lab)
    slices.prepare(lab)
    return (f"{HOSTS} hosts of {HOSTS // PER_SLICE} slices and two collectors booted in "
            f"{lab.boot_seconds:.1f} s, the packages installed by apt; "
            f"an etcd of three members; {control.leader(lab).name} leads")


def tuned(lab):
    lines = []
    for host in lab.hosts:
        mtus = [s.link(host, nic)["mtu"] for nic in ("eth0", "eth1")]
        if mtus != [s.WANTED_MTU] * 2 or s.tcp_rmem(host) != s.WANTED_RMEM:
            raise LabError(f"{host.name}: ip says {mtus}, /proc says {s.tcp_rmem(host)}")
        checks = s.ctl_json(host, "check")["checks"]
        told = ", ".join(f"{name} {verdict} {n}" for name in ("nic.mtu", "nic.feature", "sysctl")
                         for verdict in ("FAIL", "WARN", "UNKNOWN", "OK")
                         if (n := sum((f["check"], f["verdict"]) == (name, verdict) for f in checks)))
        lines.append(f"{host.name}: MTU {mtus[0]}/{mtus[1]} [ip], tcp_rmem {s.tcp_rmem(host)} [/proc]; "
                     f"tpuctl check: {told}")
    return "\n".join(lines)


def identity(lab):
    shown = s.ctl(lab.hosts[1], "env", "--framework", "jax").out
    lines = [line for line in shown.splitlines() if line.startswith("TPU_")]
    return "h1, tpuctl env --framework jax: " + " ".join(lines)[:300]


def train(lab):
    def members():
        return all(s.ctl_json(h, "status")["registry"]["state"] == "member" for h in lab.hosts)
    s.wait_until(members, 60, "every host is a member of its slice")
    done = slices.train(lab.hosts[0], "train", "--slices", "1:2", "--restarts", "5", "--grace", "5")
    if done.code:
        raise LabError(done.out + done.err)
    step = s.wait_step(lab.hosts[3], "train", 25, 120)
    loss = slices.losses(lab.hosts[3], "train")
    return (f"h0: tpuctl run --name train --framework torch --user alice --slices 1:2 -- python3 train.py\n"
            f"{done.out.rstrip()}\n"
            f"h3: step {step} reached, loss {loss[0]:.2f} at step 0, {loss[step]:.2f} now [the training's "
            f"own log]")


def fleet(lab):
    def in_database():
        return {n for n, in s.query(lab, "SELECT name FROM hosts")} >= {h.name for h in lab.hosts}
    s.wait_until(in_database, 20, "all hosts in the collector's database")

    def all_show_steps():
        out = s.ctl(lab.hosts[0], "fleet").out
        return out if len(re.findall(r"\btrain\b", out)) >= HOSTS else None
    shown = s.wait_until(all_show_steps, 20, "tpuctl fleet with a step for each host")
    names = [n for n, in s.query(lab, "SELECT name FROM hosts WHERE state IS NOT NULL ORDER BY name")]
    return shown.rstrip() + f"\n[database: {', '.join(names)}]"


def kill_agents(lab):
    at = s.last_step(lab.hosts[0], "train")
    killed = sum(len(s.kill_agents(h)) for h in lab.hosts)
    then = s.wait_step(lab.hosts[0], "train", at + 10, 60)
    numbers = [n for n, _ in s.training_steps(lab.hosts[0], "train")]
    if numbers != list(range(len(numbers))):
        raise LabError("steps are missing in the training's own log")
    for host in lab.hosts:
        for name in s.AGENTS:
            host.wait_for(["systemctl", "is-active", "-q", f"{name}.service"], 15)
    return (f"{killed} agent processes killed at step {at}; the training went on to step {then}, "
            "none missing [its own log]; agents are back")


def kill_leader(lab):
    """Hosts go to the other collector; nobody is missed, and the training notices nothing."""
    old, at = control.leader(lab), s.last_step(lab.hosts[0], "train")
    old.sh("systemctl kill -s KILL tpu-collectord; systemctl stop tpu-collectord")
    began = time.monotonic()
    new = control.leader(lab, but=old)
    took = time.monotonic() - began
    s.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in lab.hosts), 60,
                 "every host is a member at the new leader")
    run = json.loads(s.ctl(lab.hosts[0], "runs", "--fleet", "--json").out)
    old.sh("systemctl start tpu-collectord")
    then = s.wait_step(lab.hosts[0], "train", at + 10, 60)
    numbers = [n for n, _ in s.training_steps(lab.hosts[0], "train")]
    if numbers != list(range(len(numbers))):
        raise LabError("steps are missing in the training's own log")
    generation = next(r["generation"] for r in run["runs"] if r["name"] == "train")
    if generation != 1:
        raise LabError(f"the run was restarted: generation {generation}")
    return (f"SIGKILL to tpu-collectord on {old.name} at step {at}; {new.name} leads after {took:.1f} s "
            f"(the lease is 15 s), "
            f"all {HOSTS} hosts are members; the run is the same (generation 1) and at step {then}, none "
            f"missing [its own log]")


def kill_rank(lab):
    host = lab.hosts[2]
    host.sh(f"kill -KILL {s.unit(host, 'tpu-run-train.service', 'MainPID')['MainPID']}")
    s.wait_until(lambda: all(slices.resumed(h, "train") for h in lab.hosts), 60,
                 "every rank goes on from a checkpoint")
    kept = slices.resumed(lab.hosts[0], "train")[-1]
    s.wait_until(lambda: max(slices.since_resumed(lab.hosts[0], "train"), default=0) > kept + 5, 60,
                 "five steps behind the checkpoint")
    told = s.ctl(lab.hosts[0], "runs", "--fleet").out
    return (f"SIGKILL to the rank on h2; all four resumed from the checkpoint of step {kept} [their own "
            f"logs]\n{told.rstrip()}")


def stop_rank(lab):
    host = lab.hosts[3]
    pid = s.unit(host, "tpu-run-train.service", "MainPID")["MainPID"]
    host.sh(f"kill -STOP {pid}")
    time.sleep(1)
    at = s.last_step(lab.hosts[0], "train")
    time.sleep(3)
    now = s.last_step(lab.hosts[0], "train")
    if now > at + 1:
        raise LabError(f"h0 went on from step {at} to {now}")
    return f"SIGSTOP to rank 3 on h3; h0 stands still at step {now} [its own log]"


def name_it(lab):
    """All hosts of the run are asked for their stacks, twice; the collector says who is at fault."""
    host = lab.hosts[3]
    pid = s.unit(host, "tpu-run-train.service", "MainPID")["MainPID"]
    done = lab.hosts[0].run(["tpuctl", "diagnose", "s0", "--capture"], check=False, timeout=90)
    sentence = done.out.split("\n")[0]
    if done.code != 2 or not sentence.startswith(f"slice s1, worker 1 ({host.address('eth0')}) holds "
                                                 f"the run up: its process {pid} is stopped"):
        raise LabError(f"exit code {done.code}: {done.err}{done.out}")
    return (f"h0: tpuctl diagnose s0 --capture\n{sentence}\n[h3, ps: process {pid} is in state "
            f"{host.sh(f'ps -o stat= -p {pid}').strip()}]")


def show_stack(lab):
    host = lab.hosts[3]
    # Refused within a second of another capture: diagnose's second one may just have been taken.
    shown = s.wait_until(lambda: host.run(["tpuctl", "stack", "train"], check=False, timeout=60).out, 20,
                         "tpuctl stack train shows frames")
    frames = s.frames_in(shown)
    wrong = s.wrong_frames(frames)
    if not frames or wrong:
        raise LabError(f"wrong frames {wrong} in: {shown}")
    s.wait_until(lambda: s.events(lab, host, "tpu.stack.captured"), 20,
                 "the stack in the collector's database")
    main_thread = shown.split("\nthread ")[1]
    return (f"tpuctl stack train on h3:\nthread {main_thread.rstrip()}\n"
            f"[training script: line {frames[0][0]} lies in {frames[0][1]}; database: the record is there]")


def see_it(lab):
    """The page of the collector that leads, while the run stands: in pictures, and on a terminal in the
    person's own browser until a key is pressed."""
    collector = control.leader(lab)
    script = (f"import json, urllib.request as u; answer = u.urlopen('{page_view.PAGE}/api/v1/episodes'); "
              "print(json.load(answer)['episodes'][0]['episode'])")
    episode = collector.run(["python3", "-c", script], check=True).out.strip()
    files = page_view.pictures(collector, PICTURES, {
        "fleet": ("#/fleet", f"{HOSTS} hosts: 1 suspect"), "run": ("#/run/train", "Run train"),
        "stall": (f"#/stall/{episode}", "holds the run up")})
    if sys.stdin.isatty() and sys.stdout.isatty():
        with page_view.on_loopback(collector) as url:
            print(f"            open {url} in a browser of this machine; any key goes on", flush=True)
            page_view.wait_for_key()
    if not files:
        return f"no pictures: no chromium here; the page is {page_view.PAGE} on {collector.name}"
    names = ", ".join(f.name for f in files)
    return f"pictures in {PICTURES.relative_to(PICTURES.parents[1])}: {names}"


def resume(lab):
    host = lab.hosts[3]
    at = s.last_step(lab.hosts[0], "train")
    host.sh(f"kill -CONT {s.unit(host, 'tpu-run-train.service', 'MainPID')['MainPID']}")
    return f"SIGCONT; step {s.wait_step(lab.hosts[0], 'train', at + 5, 60)} reached [the training's own log]"


def end(lab):
    first = lab.hosts[0]
    s.ctl(first, "stop", "train", "--fleet", "--yes")

    def ended():
        return next((j for j in s.ctl_json(first, "runs")["runs"] if j["state"] == "exited"), None)
    run = s.wait_until(ended, 40, "the run's end")

    def left():
        return [h.name for h in lab.hosts
                if h.sh("pgrep -f '^/usr/bin/python3 /srv/train.py' || true").strip()]
    s.wait_until(lambda: not left(), 40, "no training process on any host")
    return (f"tpuctl stop on one host; the run reads {run['cause']} {run['status']}, no process is left "
            "[pgrep]")


def by_itself(lab):
    """Two ranks that `podman run` starts, or without podman systemd-run: they wait for the chips, as a job
    in somebody's own queue does. Who has run for less than a minute is taken for no training: so this is
    early.
    """
    hosts = lab.hosts[:2]
    if lab.podman:
        for host in hosts:
            own_container.prepare_podman(host)
        own_container.start(own_container.PODMAN, UNTOLD, hosts, GO)
        return (f"h0, h1: podman run -d --name {UNTOLD} --device /dev/accel0 {own_container.PODMAN[2]} … "
                "(the image: podman import of the host's own Python)\nit waits until the chips are free")
    own_container.start_unit(UNTOLD, hosts, GO)
    return (f"h0, h1: systemd-run --unit={UNTOLD} python3 /srv/loop.py …, for here is no podman "
            f"({lab.without_podman})\nit waits until the chips are free")


def untold(lab):
    """It takes the chips and is found by that; one rank is stopped, and named."""
    h0, h1 = hosts = lab.hosts[:2]

    def run_of(host):
        return next((r for r in s.ctl_json(host, "runs")["runs"]
                     if r["name"] == UNTOLD and r["state"] == "running"), None)
    try:
        for host in hosts:
            host.write(GO, "")
            own_container.mark(host, 1)
        run = [s.wait_until(lambda h=h: run_of(h), 30, f"{h.name} finds who holds its chip")
               for h in hosts][1]
        h1.sh(f"kill -STOP {run['main_pid']}")
        time.sleep(1)
        done = h0.run(["tpuctl", "diagnose", "s0", "--capture"], check=False, timeout=60)
        sentence, state = done.out.split("\n")[0], h1.sh(f"ps -o stat= -p {run['main_pid']}").strip()
        if not re.match(rf"slice s0, worker 1 \({re.escape(h1.address('eth0'))}\) holds the run up: "
                        r"its process \d+ is stopped", sentence):
            raise LabError(f"exit code {done.code}: {done.err}{done.out}")
    finally:
        if lab.podman:
            own_container.remove(own_container.PODMAN, UNTOLD, hosts)
        else:
            own_container.remove_unit(UNTOLD, hosts)
    return (f"h1, tpuctl runs: {UNTOLD}, user {run['user']}, {run['container'] or 'no container'}, holds "
            f"{run['devices']}\nSIGSTOP to it on h1; h0: tpuctl diagnose s0 --capture\n{sentence}\n"
            f"[h1, ps: process {run['main_pid']} is in state {state}]")


def clean_up(lab):
    lab.stop()
    return "hosts, namespaces and mounts removed"


STEPS = [
    ("Boot two slices", boot),
    ("Every host is tuned", tuned),
    ("Each host knows who it is", identity),
    ("Train over both slices, by one command", train),
    ("The collector's view of the fleet", fleet),
    ("Start a training in a container by hand: no agent is told", by_itself),
    ("Kill every agent process while the training runs", kill_agents),
    ("Kill the collector that leads", kill_leader),
    ("Kill one rank", kill_rank),
    ("Stop one rank", stop_rank),
    ("Ask who holds the run up", name_it),
    ("Ask where it stands", show_stack),
    ("See it on the page", see_it),
    ("Let it go on", resume),
    ("End the run", end),
    ("The container takes the chips, stalls, and is diagnosed", untold),
    ("Clean up", clean_up),
]


def podman_layer():
    """What a host has below the packages to have podman, or None, and why there is none."""
    layer = apt_layer("podman", training_layer(), "install", *own_container.PODMAN_TOOLS)
    try:
        for lease in layer.leases():
            lease.close()
    except LabError as error:
        return None, str(error).splitlines()[-1]
    return layer, ""


def main():
    teller = Teller(len(STEPS))
    layer, why = podman_layer()
    lab = slices.lab(HOSTS, PER_SLICE, collectors=2, unified=True, on=layer, also=own_container.configure)
    lab.podman, lab.without_podman = layer is not None, why
    if began := os.environ.get("DEMO_BEGAN"):
        print(f"step 1 begins after {time.time() - float(began):.1f} s "
              f"(aim: {AIM} s, where a demo ran before)", flush=True)
    try:
        for title, action in STEPS:
            if not teller.step(title, lambda act=action: act(lab)) and action is boot:
                break
    finally:
        lab.stop()
    print(f"{teller.good}/{teller.total} steps")
    return 0 if teller.good == teller.total else 1


if __name__ == "__main__":
    sys.exit(main())
