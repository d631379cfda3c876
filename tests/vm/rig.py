"""tpu-hostd and tpu-collectord in an emulated machine whose power is cut, and the load outside it that keeps
the log of what was answered.

Three kinds of promise are made to those outside, each over the machine's network, so that an answer that was
logged has left it:

    captures  POST /v1/runs/NAME/capture at tpu-hostd: answered when the event's record is durable in the spool; each has its own text
    orders    PUT /v1/cordon at tpu-hostd: answered when the order is on the disk
    fed       POST /v1/logs at tpu-collectord, as agents do, again and again under the same number: 200 after the commit

What was captured reaches the collector's database by the spool and the uplink; which of the two programs is
up when is by chance.
"""

import http.client
import json
import random
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
from around import BINARY, Launchd, captured, message  # noqa: E402
from lab.command import LabError, sh  # noqa: E402

from . import initramfs  # noqa: E402
from .kernel import Kernel  # noqa: E402
from .machine import PATIENCE, Machine, free_port  # noqa: E402
from .reckoning import Outcome, Promises, capture_text, fed_text  # noqa: E402

HERE = Path(__file__).resolve().parent
COLLECTORD = BINARY.parents[2] / "collector/tpu-collectord"
DISK_BYTES = 1 << 30
API, OTLP = 7000, 4318  # inside the machine
FEEDER_SPOOL = "feedfeedfeedfeed"
SHARES = (0, 0.2, 0.5, 0.8, 1)  # of the disk's cache that a cut spares
START_FLUSHES = 30  # about as many as there are until the first answer
LIFE_ANSWERS, LIFE_SECONDS = 60, 20  # of a life at most
FIRST_ANSWER_SECONDS = 120  # of patience
BOOT_SECONDS = 90
CLIENTS = 2
MOST_CUTS = 5  # as many as asked for

HOSTD_CONF = """[Hostd]
Endpoint=http://127.0.0.1:4318
MetricsInterval=1s
SpoolDirectory=/data/hostd/spool
ApiSocket=/run/tpu-hostd/api.sock
LaunchdSocket=/run/tpu-launchd/launchd.sock
[Health]
StateFile=/data/hostd/health.json
"""
START = """
set -e
mkdir -p /run/tpu-hostd /run/tpu-launchd
mount -t ext4 /dev/vda /data || dmesg | tail -n 5
grep -q ' /data ' /proc/mounts
socat UNIX-LISTEN:/run/tpu-launchd/launchd.sock,fork TCP:10.0.2.2:{launchd} </dev/null >/dev/null 2>&1 &
socat TCP-LISTEN:7000,fork,reuseaddr UNIX-CONNECT:/run/tpu-hostd/api.sock </dev/null >/dev/null 2>&1 &
"""
START_HOSTD = ("{preload} tpu-hostd --config /etc/hostd.conf </dev/null >/run/hostd.log 2>&1 & echo $! "
               ">/run/hostd.pid\n")
START_COLLECTORD = """{preload} tpu-collectord --config /dev/null --database /data/collector/collector.db --listen-otlp 0.0.0.0:4318 \
--insecure-listen </dev/null >/run/collectord.log 2>&1 & echo $! >/run/collectord.pid
"""
STOP = """
for name in hostd collectord; do
    pid=$(cat /run/$name.pid) && kill -TERM $pid && while [ -d /proc/$pid ]; do sleep 0.1; done
done
umount /data
"""


def fed_body(n):
    resource = message({1: message({1: "host.name", 2: message({1: "feeder"})})})
    record = message({2: 9, 5: message({1: fed_text(n)}), 12: "tpu.test.fed"})
    return message({1: message({1: resource, 2: message({2: record})})})


class VolatileDisk:
    """The disk's own process."""

    def __init__(self, image, path):
        self.process = subprocess.Popen([sys.executable, "-B", HERE / "volatile_disk.py", image, path],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        while not path.exists():
            if self.process.poll() is not None:
                raise LabError("the disk did not start")
            time.sleep(0.01)

    def order(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Rig:
    """no_sync: programs ("tpu-hostd", "tpu-collectord") whose syncs do nothing, to see that this is found
    out."""

    def __init__(self, folder, seed, no_sync=(), shares=SHARES):
        self.folder, self.random, self.no_sync, self.shares = folder, random.Random(seed), no_sync, shares
        self.promises, self.cuts, self.boots = Promises(), Counter(), []
        self.sectors = Counter()
        self.up, self.over, self.threads, self.connections = threading.Event(), threading.Event(), [], set()
        self.kernel = Kernel()
        self._make_disk()
        self._make_launchd()
        self.ports = {API: free_port(), OTLP: free_port()}
        programs = {"/usr/sbin/tpu-hostd": BINARY, "/usr/sbin/tpu-collectord": COLLECTORD}
        if no_sync:
            sh("cc", "-shared", "-fPIC", "-o", folder / "no_sync.so", HERE / "no_sync.c")
            programs["/lib/no_sync.so"] = folder / "no_sync.so"
        initrd = initramfs.build(folder, self.kernel.modules(), programs, {"/etc/hostd.conf": HOSTD_CONF})
        self.machine = Machine(folder, self.kernel.image, initrd, [
            "-device", "virtio-net-pci,netdev=user0,romfile=",
            "-blockdev", f"driver=nbd,node-name=disk0,server.type=unix,server.path={folder / 'nbd'}",
            "-device", "virtio-blk-pci,drive=disk0,write-cache=on,discard=off,write-zeroes=off"], "quiet",
                               self.ports)

    def _make_disk(self):
        self.image, tree = self.folder / "disk.img", self.folder / "tree"
        # what systemd makes (StateDirectory=) when the packages are installed
        (tree / "hostd").mkdir(parents=True)
        (tree / "collector").mkdir()
        with open(self.image, "wb") as f:
            f.truncate(DISK_BYTES)
        # With checksums over its own blocks ext4 counts on a disk that writes 4 KiB as a whole: a torn
        # commit block is then "journal
        # transaction is corrupt", and no mount. This disk tears at 512 bytes.
        sh("mke2fs", "-q", "-t", "ext4", "-O", "^metadata_csum", "-d", tree, self.image)
        self.disk = VolatileDisk(self.image, self.folder / "nbd")

    def _make_launchd(self):
        launchd = Launchd(self.folder / "launchd.sock")  # its protocol, served on loopback for the machine
        self.launchd = launchd
        launchd.server.handle_error = lambda *a: None  # a caller that lost its power

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            handle_error = launchd.server.handle_error

        self.launchd_tcp = Server(("127.0.0.1", 0), launchd.server.RequestHandlerClass)
        threading.Thread(target=self.launchd_tcp.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        launchd.capture = lambda name: captured(name, capture_text(self.promises.number("asked")))

    # --- Load: each thread asks over one connection, which the cut closes
    # ------------------------------------------

    def _asking(self, port, ask):
        while not self.over.is_set():
            if not self.up.wait(0.1):
                continue
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=30)
            self.connections.add(connection)
            try:
                while self.up.is_set() and not self.over.is_set():
                    ask(connection)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # not up yet, or no more
            except Exception as e:  # an answer that breaks a promise
                self.promises.broken.append(repr(e))
                return
            finally:
                self.connections.discard(connection)
                connection.close()

    @staticmethod
    def _call(connection, method, path, body=None, headers={}):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _capture(self, connection):
        status, body = self._call(connection, "POST", "/v1/runs/train/capture")
        if status == 200:
            answer = json.loads(body)
            with self.promises.lock:
                self.promises.captures[answer["text"]] = answer["record"]["spool"], answer["record"]["seq"]

    def _feed(self, connection):
        n = self.feeding
        status, body = self._call(connection, "POST", "/v1/logs", fed_body(n), {
            "Content-Type": "application/x-protobuf", "TPU-Spool-Record": f"{FEEDER_SPOOL}/events/{n}"})
        if status != 200:
            raise OSError(f"{status}: {body}")  # again, under the same number
        with self.promises.lock:
            self.promises.fed.add(n)
        self.feeding = self.promises.number("fed_sent")

    def _order(self, connection):
        """What the machine remembers of the order that was answered last, or of a later one; then a new
        one."""
        status, body = self._call(connection, "GET", "/v1/status")
        if status != 200:
            raise OSError(status)
        seen = int(((json.loads(body)["cordon"] or {}).get("reason") or "order 0").split()[1])
        if not self.promises.order <= seen <= self.promises.ordered:
            raise AssertionError(f"order {seen} is in force, {self.promises.order} was answered, "
                                 f"{self.promises.ordered} asked for")
        n = self.promises.number("ordered")
        if self._call(connection, "PUT", f"/v1/cordon?reason=order%20{n}")[0] == 200:
            self.promises.order = n
        time.sleep(0.1)

    def start_load(self):
        self.feeding = self.promises.number("fed_sent")
        work = [(API, self._capture)] * CLIENTS + [(OTLP, self._feed), (API, self._order)]
        self.threads = [threading.Thread(target=self._asking, args=w, daemon=True) for w in work]
        for t in self.threads:
            t.start()

    # --- Lives
    # -------------------------------------------------------------------------------------------------------

    def _switch_on(self):
        """The emulated kernel stands still now and then before it has started anything: then it is
        switched on again."""
        for patience in (BOOT_SECONDS, BOOT_SECONDS, None):
            if self.machine.process is None:
                self.machine.start()
            try:
                return self.machine.wait_shell(patience) if patience else self.machine.wait_shell()
            except LabError as e:
                if not patience:
                    raise
                print(f"switched on again: {e}", flush=True)
                self.machine.kill()

    def boot(self, hostd=True, collector=True):
        begin = time.monotonic()
        shell = self._switch_on()
        self.boots.append(time.monotonic() - begin)
        preload = {p: "LD_PRELOAD=/lib/no_sync.so" if p in self.no_sync else ""
                   for p in ("tpu-hostd", "tpu-collectord")}
        shell.run(START.format(launchd=self.launchd_tcp.server_address[1]) +
                  (START_COLLECTORD.format(preload=preload["tpu-collectord"]) if collector else "") +
                  (START_HOSTD.format(preload=preload["tpu-hostd"]) if hostd else ""))
        self.up.set()

    def _wait_answers(self, n):
        """For n of them, or as many as come in LIFE_SECONDS from the first on."""
        before = self.promises.count()
        for wanted, seconds in (1, FIRST_ANSWER_SECONDS), (n, LIFE_SECONDS):
            end = time.monotonic() + seconds
            while self.promises.count() < before + wanted and time.monotonic() < end:
                time.sleep(0.005)

    def cut(self):
        """Waits for a random instant and cuts the power: by SIGKILL of the machine or its reset button."""
        seed, share = self.random.randrange(1 << 32), self.random.choice(self.shares)
        moment = self.random.choices(("while it starts", "at a flush", "any time"), (20, 40, 40))[0]
        if moment != "while it starts":
            self._wait_answers(self.random.randint(1, LIFE_ANSWERS))
        if moment == "any time":
            time.sleep(self.random.uniform(0, 1))
        else:
            self.disk.order("arm", self.random.randint(1, START_FLUSHES if moment == "while it starts"
                                                       else 3), seed, share)
            end = time.monotonic() + LIFE_SECONDS
            while not self.disk.order("armed")["cut"] and time.monotonic() < end:
                time.sleep(0.002)
        lost = self.disk.order("cut", seed, share)
        self.sectors.update(cached=lost["cached"], lost=lost["lost"])
        how = self.random.choice(("kill", "reset"))
        if how == "kill":
            self.machine.kill()
        else:
            self.machine.reset(lambda: self.disk.order("fail"))
        self.up.clear()
        for connection in list(self.connections):  # the machine no longer knows them
            if held := connection.sock:
                try:
                    held.shutdown(2)
                except OSError:
                    pass
        self.disk.order("on")
        self.cuts[moment, how] += 1
        return f"{moment} by {how}"

    def run(self, cuts, collector_share=0.7, enough=lambda: True):
        """So many lives and cuts, and some more until enough() was seen: a slow machine answers less in a
        life. Then one to deliver what is left."""
        self.start_load()
        for n in range(MOST_CUTS * cuts):
            if n >= cuts and enough():
                break
            begin, collector = time.monotonic(), self.random.random() < collector_share
            self.boot(collector=collector)
            how = self.cut()
            print(f"{n + 1}: cut {how}{'' if collector else ' without collector'}, up after "
                  f"{self.boots[-1]:.1f} of {time.monotonic() - begin:.1f} s; "
                  f"answered {len(self.promises.captures)} captures, {len(self.promises.fed)} fed, "
                  f"{self.promises.order} orders", flush=True)
        return self.finish()

    def finish(self, timeout=PATIENCE):
        self.boot()
        time.sleep(2)  # answers after the last cut, too
        self.over.set()
        for t in self.threads:
            t.join()
        self.uplink = self._delivered(timeout)
        self.machine.shell.run(STOP)
        self.machine.qmp("quit")
        self.machine.wait_off()
        return Outcome(self.promises, self._rows())

    def _delivered(self, timeout):
        end = time.monotonic() + timeout
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[API], timeout=30)
            try:
                uplink = json.loads(self._call(connection, "GET", "/v1/status")[1])["uplink"]
            except (OSError, http.client.HTTPException):
                uplink = None
            finally:
                connection.close()
            if uplink and uplink["classes"]["events"]["kept"] == 0 or time.monotonic() > end:
                return uplink
            time.sleep(0.5)

    def _rows(self):
        """The database as the disk holds it, read without our programs."""
        for name in ("collector.db", "collector.db-wal"):
            (self.folder / name).unlink(missing_ok=True)
            sh("debugfs", "-R", f"dump /collector/{name} {self.folder / name}", self.image, check=False)
        db = sqlite3.connect(self.folder / "collector.db")
        try:
            verdict = db.execute("PRAGMA integrity_check").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            return db.execute("SELECT name, body, attributes FROM events ORDER BY id").fetchall()
        finally:
            db.close()

    def close(self):
        self.over.set()
        self.up.clear()
        self.machine.close()
        self.launchd_tcp.shutdown()
        self.launchd_tcp.server_close()
        self.launchd.stop()
        self.disk.close()
