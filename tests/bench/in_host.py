#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What netcfg.py runs inside the namespaces of its host, so that no time of entering them is counted.

in_host.py runs               standard input: {"rounds": N, "cases": [{"name", "before", "argv", "env"}]}; each round runs before
                              (shell, not timed) and argv (timed from spawn to its end) of every case in turn
in_host.py links MTU NIC…     sets the MTU of each NIC and waits until someone made it WANTED_MTU again
in_host.py routes DST/LEN…    takes the metrics off each IPv4 route and waits until someone put them back
in_host.py sysctls NAME=VALUE…  writes each and waits until someone wrote what was there

Answers in JSON: per run {"ms", "code"}; per drift {"ms": from before our write, "event_ms": from the event
of our write to
the event of the repair, both as an rtnetlink (inotify for sysctls) socket of our own received them}, null:
not within 5 s.
"""
import ctypes
import fcntl
import ipaddress
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

WANTED_MTU = 8896
LIMIT = 5.0  # seconds one drift may last
RTMGRP_LINK, RTMGRP_IPV4_ROUTE = 1, 0x40
RTM_NEWLINK, RTM_NEWROUTE, RTM_GETROUTE = 16, 24, 26
NLMSG_DONE, NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_DUMP = 3, 1, 4, 0x100, 0x300
IFLA_MTU, RTA_DST, RTA_METRICS, RTA_CACHEINFO = 4, 1, 8, 12
IN_MODIFY = 2


def run_cases(spec):
    result = {case["name"]: [] for case in spec["cases"]}
    null = os.open("/dev/null", os.O_RDWR)
    for _ in range(spec["rounds"]):
        for case in spec["cases"]:
            subprocess.run(["sh", "-c", case["before"]], check=True)
            actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
            start = time.monotonic()
            pid = os.posix_spawnp(case["argv"][0], case["argv"], {**os.environ, **case.get("env", {})},
                                  file_actions=actions)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            result[case["name"]].append({"ms": (time.monotonic() - start) * 1000, "code": code})
    return result


# --- rtnetlink
# -----------------------------------------------------------------------------------------------------------

def attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def messages(data):
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        yield kind, data[16:length]
        data = data[(length + 3) & ~3:]


def netlink(groups):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    s.bind((0, groups))
    return s


def measure(listener, change, is_change, is_repair):
    """One drift: change() makes it; the two others judge (type, payload) of each event."""
    while select.select([listener], [], [], 0)[0]:
        listener.recv(1 << 16)
    start, changed = time.monotonic(), None
    change()
    while time.monotonic() < start + LIMIT:
        if not select.select([listener], [], [], LIMIT)[0]:
            break
        data, now = listener.recv(1 << 16), time.monotonic()
        for message in messages(data):
            if changed is None and is_change(*message):
                changed = now
            elif changed is not None and is_repair(*message):
                return {"ms": (now - start) * 1000, "event_ms": (now - changed) * 1000}
    return None


def pause():
    """As drift comes: not in step with whoever repairs it."""
    time.sleep(random.uniform(0.02, 0.08))


def links(mtu, nics):
    listener, control, result = netlink(RTMGRP_LINK), socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
    for nic in nics:
        index = socket.if_nametoindex(nic)

        def has(wanted, kind, body):
            return (kind == RTM_NEWLINK and struct.unpack_from("=i", body, 4)[0] == index and
                    struct.unpack("=I", attributes(body[16:])[IFLA_MTU])[0] == wanted)

        request = struct.pack("16sI", nic.encode(), mtu)
        result.append(measure(listener, lambda: fcntl.ioctl(control, 0x8922, request),
                              lambda *m: has(mtu, *m),
                              lambda *m: has(WANTED_MTU, *m)))
        pause()
    return result


def read_routes():
    """{(destination, length): the bytes of its message}, of the main table."""
    s, found = netlink(0), {}
    s.send(struct.pack("=IHHII", 28, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
           + struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 0, 0, 0, 0, 0))
    while True:
        for kind, body in messages(s.recv(1 << 18)):
            if kind == NLMSG_DONE:
                return found
            if body[4] == 254 and RTA_DST in attributes(body[12:]):
                found[attributes(body[12:])[RTA_DST], body[1]] = body


def replace_bare(control, body):
    """Gives the route back without its metrics."""
    out = body[:8] + struct.pack("=I", 0)
    for kind, value in attributes(body[12:]).items():
        if kind not in (RTA_METRICS, RTA_CACHEINFO):
            out += struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
    control.send(struct.pack("=IHHII", 16 + len(out), RTM_NEWROUTE,
                             NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE, 1, 0) + out)
    answer = control.recv(4096)
    if struct.unpack_from("=i", answer, 16)[0] != 0:
        raise OSError(-struct.unpack_from("=i", answer, 16)[0], "route replace")


def routes(destinations):
    listener, control, known, result = netlink(RTMGRP_IPV4_ROUTE), netlink(0), read_routes(), []
    for text in destinations:
        net = ipaddress.ip_network(text)
        key = (net.network_address.packed, net.prefixlen)

        def has(metrics, kind, body):
            a = attributes(body[12:])
            return kind == RTM_NEWROUTE and (a.get(RTA_DST),
                                             body[1]) == key and (RTA_METRICS in a) == metrics

        result.append(measure(listener, lambda: replace_bare(control, known[key]), lambda *m: has(False, *m),
                              lambda *m: has(True, *m)))
        pause()
    return result


# --- sysctls
# -----------------------------------------------------------------------------------------------------------

def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().split()


def sysctls(drifts):
    libc, result = ctypes.CDLL(None), []
    for drift in drifts:
        name, value = drift.split("=", 1)
        path = "/proc/sys/" + name.replace(".", "/")
        wanted, done, fd = read(path), None, libc.inotify_init1(os.O_CLOEXEC)
        libc.inotify_add_watch(fd, path.encode(), IN_MODIFY)
        start = time.monotonic()
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
        os.read(fd, 4096)
        changed = time.monotonic()
        while done is None and time.monotonic() < start + LIMIT:
            if read(path) == wanted:
                now = time.monotonic()
                done = {"ms": (now - start) * 1000, "event_ms": max(0, now - changed) * 1000}
            elif select.select([fd], [], [], LIMIT)[0]:
                os.read(fd, 4096)
        result.append(done)
        os.close(fd)
        pause()
    return result


def main():
    what, words = sys.argv[1], sys.argv[2:]
    if what == "runs":
        result = run_cases(json.load(sys.stdin))
    elif what == "links":
        result = links(int(words[0]), words[1:])
    elif what == "routes":
        result = routes(words)
    else:
        result = sysctls(words)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
