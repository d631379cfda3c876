#!/usr/bin/python3
"""Secrets in every input of a booted host and its collector: environment, arguments, files, intents,
metadata, configuration, headers and queries. They are looked for in all that is stored, logged, sent and
shown. Needs root and the packages in build/debs (TPU_HOSTD_DEBS)."""

import json
import os
import secrets
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab")]
from lab.check import check  # noqa: E402
import metadata_process  # noqa: E402
import scenario  # noqa: E402

MARK = "cnry" + secrets.token_hex(4)
# Runs on a host: what is in its files, as they are and unpacked, and in its SQLite databases.
LOOK = r"""
import gzip, json, os, re, sqlite3, sys, zlib
mark, found = sys.argv[1].encode(), {}
def look(where, data):
    for m in re.findall(mark + rb"-[a-z-]+[a-z]", data):
        found.setdefault(m.decode().split("-", 1)[1], set()).add(where)
    for at in (m.start() for m in re.finditer(rb"\x1f\x8b\x08", data)):
        try:
            look(where + " (packed)", zlib.decompressobj(31).decompress(data[at:], 1 << 26))
        except zlib.error:
            pass
for top in sys.argv[2:]:
    for folder, _, files in os.walk(top):
        for f in files:
            path = os.path.join(folder, f)
            try:
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        look(path, file.read(1 << 28))
            except OSError:
                continue
            if path.endswith(".db"):
                db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
                for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for row in db.execute(f'SELECT * FROM "{table}"'):
                        look(f"{path} {table}", b" ".join(v if isinstance(v, bytes) else str(v).encode()
                                                          for v in row))
print(json.dumps({k: sorted(v) for k, v in found.items()}))
"""
# What the agents, the collector and systemd keep, and what everybody may read of it.
HOST = ("/var/lib/tpu-hostd", "/var/lib/tpu-launchd", "/var/lib/tpu-netcfg", "/run/tpu-hostd",
        "/run/tpu-launchd", "/run/tpu-netcfg", "/run/systemd/transient", "/var/log", "/run/log", "/tmp")
COLLECTOR = ("/var/lib/tpu-collector", "/var/log", "/run/log", "/tmp")
# Root's alone: what a run is started again with. On disk is what was no --secret.
KEPT = {"/var/lib/tpu-launchd/runs/hers": ("env", "argv", "argv-next", "argv-env"),
        "/run/tpu-launchd/handover/hers": ("env", "argv", "argv-next", "argv-env"),
        "/run/tpu-launchd/secrets/hers": ("secret-file",)}
QUIET = ("Description=a command",)  # else the lab's own systemd logs the whole command line


class Canaries(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host, cls.sink, cls.planted = cls.lab.hosts[0], cls.lab.collector, []
        for h in cls.lab.every:
            h.write("/usr/local/lib/look.py", LOOK)
        cls.metadata = metadata_process.Metadata(cls.lab)
        cls.addClassCleanup(cls.metadata.stop)

    def canary(self, name):
        self.planted.append(name)
        return f"{MARK}-{name}"

    def post(self, url, body, *headers, socket=None):
        """By this machine's curl in the host's network, or at a socket of the host."""
        script = ("import http.client, json, socket, sys, urllib.parse\n"
                  "url, unix, method, body, *headers = sys.argv[1:]\n"
                  "u = urllib.parse.urlsplit(url)\n"
                  "c = http.client.HTTPConnection(u.netloc, timeout=30)\n"
                  "if unix:\n    c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(unix)\n"
                  "c.request(method, u.path + ('?' + u.query if u.query else ''), body or None,"
                  " dict(h.split(': ', 1) for h in headers))\n"
                  "r = c.getresponse(); print(r.status, r.read().decode('utf-8', 'replace'))\n")
        done = self.host.run(["python3", "-c", script, url, socket or "", "POST" if body else "GET", body,
                              *headers], check=True, properties=QUIET)
        return done.out

    def test_all(self):
        host, c = self.host, self.canary
        collector = self.sink.address("eth0")
        self.metadata.set(attributes={host.address("eth0"): {
            "ssh-keys": c("ssh-keys"), "startup-script": c("startup-script"), "kube-env": c("kube-env"),
            "tpu-env": f"API_TOKEN: '{c('tpu-env')}'\nWORKER_ID: '0'\n"}})
        host.sh("useradd -m -G tpu-run alice; useradd -m bob")
        host.write("/home/alice/key", c("secret-file") + "\n", 0o600)
        host.sh("chown alice /home/alice/key")
        host.write("/etc/tpu-hostd/hostd.conf.d/90-canary.conf",
                   f"[Uplink]\nProxy=http://user:{c('config-proxy')}@192.0.2.1:1\n"
                   f"Password={c('config-unknown-key')}\n# {c('config-comment')}\n"
                   f"[Registry]\nEndpoint=http://u:{c('config-endpoint')}@192.0.2.1:4318\n")
        host.sh("systemctl restart tpu-hostd", check=False)
        host.run(["tpu-hostd", "--check-config"])
        time.sleep(3)
        host.sh("rm /etc/tpu-hostd/hostd.conf.d/90-canary.conf; systemctl restart tpu-hostd")
        # A run: what its user gives it is the run's, and root's; nobody else's.
        host.run(["tpuctl", "run", "--name", "hers", "--preempt", "none", "--malloc", "glibc",
                  "--share-devices", "--env", f"API_KEY={c('env')}", "--secret",
                  "WANDB_API_KEY=/home/alice/key", "--", "/bin/sh", "-c", "exec sleep 10000", "train",
                  f"--api-key={c('argv')}", "--token", c("argv-next"), f"DB_PASSWORD={c('argv-env')}"],
                 user="alice", env={"HF_TOKEN": c("caller-env")}, check=True, properties=QUIET)
        said = host.run(["tpuctl", "run", "--name", "badly", "--env", f"=={c('env-bad')}",
                         "--no-such-option", c("option"), "--", "true"], user="alice", properties=QUIET)
        self.assertNotEqual(said.code, 0)
        # Headers and queries, at each port; an intent with a secret, which is refused.
        for url, socket in ((f"http://{collector}:9471/api/v1/hosts", None),
                            (f"http://{collector}:4318/v1/logs", None),
                            ("http://h/v1/status", "/run/tpu-hostd/api.sock")):
            self.post(f"{url}?token={c('query')}", "", f"Authorization: Bearer {c('header')}",
                      f"Cookie: session={c('cookie')}", socket=socket)
            self.post(f"{url}/{c('path')}", "{", f"Authorization: Basic {c('header-of-a-post')}",
                      f"X-Api-Key: {c('header-key')}", socket=socket)
        intent = {"name": "train", "user": "alice", "argv": ["x", f"--api-key={c('intent-argv')}"],
                  "env": [f"WANDB_API_KEY={c('intent-env')}"], "slices": ["lab"]}
        told = self.post(f"http://{collector}:9471/api/v1/runs", json.dumps(intent),
                         "Content-Type: application/json", "Sec-Tpu-Caller: test")
        self.assertTrue(told.startswith("400"), told)
        self.assertNotIn(MARK, told)
        host.run(["tpuctl", "stack", "hers"], user="alice")
        host.run(["tpuctl", "uplink", "--drain", "20s"])
        time.sleep(3)

        found = {}
        for h, places in ((host, HOST), (self.sink, COLLECTOR)):
            for name, where in json.loads(h.sh(f"python3 /usr/local/lib/look.py {MARK} {' '.join(places)}",
                                               timeout=120, properties=QUIET)).items():
                found.setdefault(name, []).extend(f"{h.name}:{w}" for w in where
                                                  if name not in KEPT.get(w, ()))
            for words in ("journalctl --no-pager -o json --all", "systemctl show '*' --all"):
                text = h.sh(f"{words} 2>/dev/null | grep -o '{MARK}-[a-z-]*[a-z]' | sort -u; true",
                            timeout=120, properties=QUIET)
                for line in text.split():
                    found.setdefault(line.split("-", 1)[1], []).append(f"{h.name}: {words.split()[0]}")
        for user, words in (("bob", ["runs", "--json"]), ("bob", ["status", "--json"]),
                            ("bob", ["env", "hers"]), ("alice", ["env", "hers"]), ("bob", ["events"]),
                            ("bob", ["identity", "--json"]), ("bob", ["check", "--json"]),
                            ("bob", ["fleet", "--json"]), ("bob", ["runs", "--fleet", "--json"]),
                            ("alice", ["bundle", "hers", "--full", "--output", "-"])):
            out = host.run(["tpuctl", *words], user=user)
            for name in self.planted:
                if f"{MARK}-{name}" in out.out + out.err:
                    found.setdefault(name, []).append(f"tpuctl {words[0]} of {user}")
        for path in KEPT:  # the run's user reads what it is started with itself
            self.assertIn(host.sh(f"stat -c '%a %U' {path}").strip(),
                          ["400 alice"] if "handover" in path else ["600 root", "400 root"], path)
        found = {k: v for k, v in found.items() if v}
        for name in dict.fromkeys(self.planted):
            print(f"  {name:22} {', '.join(found.get(name, ['nowhere']))[:160]}")
        self.assertEqual(found, {})


if __name__ == "__main__":
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        print("this machine does not permit a lab: " + "; ".join(missing))
        sys.exit(77)
    unittest.main()
