#!/usr/bin/python3
"""A disk with a volatile write cache, served over NBD: what a power cut really takes.

    volatile_disk.py IMAGE SOCKET

Writes stay in memory, 512-byte sector by sector, until a FLUSH (or FUA) takes them to IMAGE; only then is it
answered. So a FLUSH
never lies, and nothing else promises anything. At the cut each sector that was not flushed keeps, by chance
and alone, what the
image has or any of the versions written since: writes are torn and reordered. No request that was not
answered before the cut
is answered after it.

Orders come as lines on standard input, each is answered by one line of JSON:

    cut SEED SHARE      now; SHARE (0 to 1) is how likely a sector reached the platter
    arm N SEED SHARE    before the Nth flush from now is carried out
    armed               waits for that cut (or says {"cut": false} after 1 s)
    fail                what was asked for since the cut, and all that will be, gets EIO (a machine that is reset waits for it)
    on                  the power is back
    stats               figures since the start
"""

import json
import os
import random
import socket
import struct
import sys
import threading

SECTOR = 512
REQUEST_MAGIC, REPLY_MAGIC, OPTION_REPLY_MAGIC = 0x25609513, 0x67446698, 0x3E889045565A9
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FUA = 1
EIO, EINVAL = 5, 22
OPTION_EXPORT_NAME, OPTION_ABORT, OPTION_INFO, OPTION_GO = 1, 2, 6, 7
ACK, INFO, UNSUPPORTED = 1, 3, 0x80000001
FLAGS = 1 | 4 | 8  # has flags, sends FLUSH, sends FUA
REQUEST_MAX = 32 << 20


class Disk:
    """The platter (a file) and the cache before it. Not locked: its owner is."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.fd).st_size
        self.cache = {}  # sector: its versions since the last flush, oldest first
        self.flushes = self.writes = 0

    def read(self, offset, length):
        data = os.pread(self.fd, length, offset)
        first, last = offset // SECTOR, (offset + length) // SECTOR
        touched = [s for s in range(first, last) if s in self.cache] if self.cache else ()
        if not touched:
            return data
        data = bytearray(data)
        for s in touched:
            data[s * SECTOR - offset:(s + 1) * SECTOR - offset] = self.cache[s][-1]
        return bytes(data)

    def write(self, offset, data):
        self.writes += 1
        for i in range(0, len(data), SECTOR):
            self.cache.setdefault((offset + i) // SECTOR, []).append(data[i:i + SECTOR])

    def write_through(self, offset, data):
        self.writes += 1
        os.pwrite(self.fd, data, offset)
        for s in range(offset // SECTOR, (offset + len(data)) // SECTOR):
            self.cache.pop(s, None)

    def flush(self):
        self.flushes += 1
        self._to_platter((s, versions[-1]) for s, versions in self.cache.items())
        self.cache.clear()

    def lose(self, rng, share):
        """The cut: each cached sector is lost or not. Returns (sectors in the cache, those whose last
        version was lost)."""
        kept, lost = [], 0
        for s, versions in self.cache.items():
            if rng.random() >= share:
                lost += 1
                continue
            which = rng.randrange(len(versions))
            kept.append((s, versions[which]))
            lost += which != len(versions) - 1
        total = len(self.cache)
        self._to_platter(kept)
        self.cache.clear()
        return total, lost

    def _to_platter(self, sectors):
        run, start = [], None  # neighbours in one call
        for s, data in sorted(sectors):
            if run and s != start + len(run):
                os.pwrite(self.fd, b"".join(run), start * SECTOR)
                run = []
            if not run:
                start = s
            run.append(data)
        if run:
            os.pwrite(self.fd, b"".join(run), start * SECTOR)


class Server:
    POWERED, CUT, FAILING = range(3)

    def __init__(self, disk):
        self.disk, self.state, self.change = disk, self.POWERED, threading.Condition()
        self.armed = None  # [flushes until the cut, seed, share]
        self.last = {}

    def cut(self, seed, share):
        """With the lock held."""
        cached, lost = self.disk.lose(random.Random(seed), share)
        self.state, self.armed = self.CUT, None
        self.last = {"cut": True, "cached": cached, "lost": lost, "writes": self.disk.writes,
                     "flushes": self.disk.flushes}
        self.change.notify_all()

    def order(self, words):
        with self.change:
            if words[0] == "cut":
                if self.state == self.POWERED:
                    self.cut(int(words[1]), float(words[2]))
                return self.last
            if words[0] == "arm":
                self.armed = [int(words[1]), int(words[2]), float(words[3])]
            elif words[0] == "armed":
                self.change.wait_for(lambda: self.state != self.POWERED, 1)
                return self.last if self.state != self.POWERED else {"cut": False}
            elif words[0] == "fail":
                self.state = self.FAILING
                self.change.notify_all()
            elif words[0] == "on":
                self.state, self.armed = self.POWERED, None
                self.change.notify_all()
            return {"writes": self.disk.writes, "flushes": self.disk.flushes}

    def perform(self, flags, kind, offset, data, length):
        """(errno, data read) of one request; waits while the power is cut."""
        with self.change:
            if kind == FLUSH and self.armed and self.state == self.POWERED:
                self.armed[0] -= 1
                if self.armed[0] <= 0:
                    self.cut(*self.armed[1:])
            if self.state != self.POWERED:
                self.change.wait_for(lambda: self.state == self.FAILING)
                return EIO, b""
            if offset % SECTOR or length % SECTOR or offset + length > self.disk.size:
                return EINVAL, b""
            if kind == READ:
                return 0, self.disk.read(offset, length)
            if kind == WRITE:
                (self.disk.write_through if flags & FUA else self.disk.write)(offset, data)
            elif kind == FLUSH:
                self.disk.flush()
            else:
                return EINVAL, b""
            return 0, b""

    def serve(self, connection):
        """One machine, until it is gone."""
        def take(n):
            data = connection.recv(n, socket.MSG_WAITALL)
            if len(data) != n:
                raise ConnectionError
            return data

        self._negotiate(connection, take)
        while True:
            magic, flags, kind, cookie, offset, length = struct.unpack(">IHHQQI", take(28))
            if magic != REQUEST_MAGIC or length > REQUEST_MAX:
                raise ConnectionError
            if kind == DISCONNECT:
                return
            data = take(length) if kind == WRITE else b""
            error, answer = self.perform(flags, kind, offset, data, length)
            connection.sendall(struct.pack(">IIQ", REPLY_MAGIC, error, cookie) + answer)

    def _negotiate(self, connection, take):
        connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 1 | 2))  # fixed newstyle, no zeroes
        take(4)
        export = struct.pack(">QH", self.disk.size, FLAGS)
        while True:
            _, option, length = struct.unpack(">8sII", take(16))
            take(length)

            def reply(kind, data=b""):
                connection.sendall(struct.pack(">QIII", OPTION_REPLY_MAGIC, option, kind, len(data)) + data)

            if option == OPTION_EXPORT_NAME:
                connection.sendall(export)
                return
            if option in (OPTION_INFO, OPTION_GO):
                reply(INFO, struct.pack(">H", 0) + export)
                reply(INFO, struct.pack(">HIII", 3, SECTOR, 4096, REQUEST_MAX))
                reply(ACK)
                if option == OPTION_GO:
                    return
            elif option == OPTION_ABORT:
                reply(ACK)
                raise ConnectionError
            else:
                reply(UNSUPPORTED)


def orders(server):
    try:
        for line in sys.stdin:
            print(json.dumps(server.order(line.split())), flush=True)
    finally:
        os._exit(0)  # whoever started us is gone


def main():
    server = Server(Disk(sys.argv[1]))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen(1)
    threading.Thread(target=orders, args=(server,), daemon=True).start()

    def one(connection):
        try:
            server.serve(connection)
        except (ConnectionError, OSError):
            pass  # the machine was killed
        connection.close()

    while True:  # a thread each: the one of a machine that was killed may still wait for its answer
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
