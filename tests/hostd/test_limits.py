#!/usr/bin/python3
"""What a client of the query API may not do: hold all connections, be slow for ever, send endless headers
or bodies."""

import ctypes
import json
import os
import select
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, wait_until  # noqa: E402

CONNECTIONS, OF_USERS, OF_USER = 32, 24, 12
OWN = 3  # descriptors of the program that come and go: a child at work, a connection upwards
REQUEST_TIME = 15
SETRESUID = 117  # of x86-64
libc = ctypes.CDLL(None, use_errno=True)
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
FULL = os.environ.get("FULL") == "1"


def as_user(uid, what):
    """Runs what in a thread of this user: what counts are the credentials of connect(2)."""
    result = []

    def run():
        if uid:
            libc.syscall(SETRESUID, uid, uid, uid)
        result.append(what())

    t = threading.Thread(target=run)
    t.start()
    t.join()
    return result[0]


class Limits(unittest.TestCase):
    def setUp(self):
        self.h = Hostd(ProbeInterval="1h").start()
        self.addCleanup(self.h.close)
        self.h.api.chmod(0o666)

    def connect(self, uid=0):
        def one():
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(30)
            s.connect(str(self.h.api))
            return s

        s = as_user(uid, one)
        self.addCleanup(s.close)
        return s

    def receive(self, s):
        data = b""
        try:
            while part := s.recv(65536):
                data += part
        except ConnectionResetError:
            pass
        return data

    def ask(self, s):
        s.sendall(GET)
        return s.recv(65536).split(b"\r\n")[0]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.h.process.pid}/fd"))

    def test_connections(self):
        """One user has a share, all but root have a share, and each that is too many is told so."""
        before = self.descriptors()
        first = [self.connect(1001) for _ in range(OF_USER)]
        for s in first:
            self.assertEqual(self.ask(s), b"HTTP/1.1 200 OK")
        head, _, body = self.receive(self.connect(1001)).partition(b"\r\n\r\n")
        self.assertIn(b"HTTP/1.1 503 ", head)
        self.assertIn(b"\r\nRetry-After: 1\r\n", head)
        self.assertEqual(set(json.loads(body)), {"error", "remedy"})
        second = [self.connect(1002) for _ in range(OF_USERS - OF_USER)]
        for s in second:
            self.assertEqual(self.ask(s), b"HTTP/1.1 200 OK")
        self.assertIn(b" 503 ", self.receive(self.connect(1003)))
        for _ in range(CONNECTIONS - OF_USERS):
            self.assertEqual(self.ask(self.connect()), b"HTTP/1.1 200 OK")  # root's
        first[0].close()
        wait_until(lambda: self.descriptors() < before + CONNECTIONS, 10, "the place to be free")
        self.assertEqual(self.ask(self.connect(1003)), b"HTTP/1.1 200 OK")

    def test_a_thousand_connections_of_a_user(self):
        """Root is answered all the while, and nothing is left of them."""
        before = self.descriptors()
        mine = []
        for _ in range(5 if FULL else 1):
            began = time.monotonic()
            mine = as_user(1001, lambda: [self.connect() for _ in range(1000)])
            for _ in range(20):
                self.assertEqual(self.h.call("/healthz")[0], 200)
                self.assertLessEqual(self.descriptors(), before + CONNECTIONS)
            let_in = OF_USER + sum(b" 503 " not in self.receive(s) for s in mine[OF_USER:])
            # Who asks nothing gives its place back in time; on a machine that is slow enough another one has
            # it then.
            self.assertLessEqual(let_in, OF_USER * (1 + (time.monotonic() - began) // (REQUEST_TIME - 3)))
            for s in mine:
                s.close()
            wait_until(lambda: self.descriptors() <= before + OWN, 20, "the connections to go")
        self.assertEqual(self.ask(self.connect(1001)), b"HTTP/1.1 200 OK")

    def test_slow_clients(self):
        """One byte a second is no silence: it ends all the same, as does who asks nothing, or leaves a
        body open. Who waits for us may wait."""
        drip, idle, body, chunked, kept, crowded, waits = (self.connect() for _ in range(7))
        since = self.h.get("/v1/events")["next"]
        waits.sendall(f"GET /v1/events?since={since}&wait={REQUEST_TIME + 4} HTTP/1.1\r\nHost: x\r\n"
                      f"Connection: close\r\n\r\n".encode())
        # finds no room and no answer
        crowded.sendall(b"GET /healthz?" + b"a&" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        body.sendall(b"POST /v1/path HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        chunked.sendall(b"POST /v1/path HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxx")
        self.assertEqual(self.ask(kept), b"HTTP/1.1 200 OK")  # and then asks nothing more
        ended = threading.Event()
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 100

        def send_slowly():
            try:
                for i in range(len(request)):
                    drip.sendall(request[i:i + 1])
                    if ended.wait(1):
                        return
            except OSError:
                ended.set()

        sender = threading.Thread(target=send_slowly, daemon=True)
        sender.start()
        began = time.monotonic()
        for s in (drip, idle, body, chunked, kept, crowded):
            s.settimeout(REQUEST_TIME + 45)
            self.assertEqual(self.receive(s), b"")
        self.assertGreaterEqual(time.monotonic() - began, REQUEST_TIME - 3)
        ended.set()
        sender.join()
        head, _, answer = self.receive(waits).partition(b"\r\n\r\n")
        self.assertEqual((head[:15], json.loads(answer)["next"]), (b"HTTP/1.1 200 OK", since))
        self.assertEqual(self.h.call("/healthz")[0], 200)

    def test_answer_that_nobody_takes(self):
        if not FULL:
            self.skipTest("a minute long: in the full run")
        s = self.connect()
        self.assertEqual(self.ask(s), b"HTTP/1.1 200 OK")
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 40)
        ended = select.poll()
        ended.register(s, 0)  # told without reading what came before
        self.assertEqual([event for _, event in ended.poll(120000)], [select.POLLHUP])

    def test_headers(self):
        for head, status in ((b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414, 431)),
                             (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20000 + b"\r\n\r\n",
                              (431,)),
                             (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
                              (431,)),
                             (b"GET /healthz HTTP/1.1\r\n\r\n", (400,))):  # no Host
            s = self.connect()
            try:
                s.sendall(head)
            except OSError:  # it need not read to the end of what is too long
                pass
            answer = self.receive(s)
            self.assertIn(int(answer[9:12] or 0), status, (head[:30], answer[:200]))
        self.assertEqual(self.h.call("/healthz")[0], 200)

    def test_bodies(self):
        """A body that is too long is told so; what announces no length is read to some point only."""
        s = self.connect()
        s.sendall(b"POST /v1/path HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        head, _, body = self.receive(s).partition(b"\r\n\r\n")
        self.assertIn(b" 413 ", head.split(b"\r\n")[0])
        self.assertEqual(set(json.loads(body)), {"error", "remedy"})
        chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        s = self.connect()
        s.sendall(b"POST /v1/path HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 3
                  + b"0\r\n\r\n")
        self.assertIn(b" 413 ", s.recv(65536).split(b"\r\n")[0])
        s = self.connect()
        sent = 0
        try:
            s.sendall(b"POST /v1/path HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            while sent < 100:
                s.sendall(chunk)
                sent += 1
        except OSError:
            pass
        self.assertLess(sent, 100)
        s = self.connect()
        # a short one is passed over
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + GET)
        answers = b""
        while answers.count(b"HTTP/1.1 200 OK") < 2:
            part = s.recv(65536)
            self.assertTrue(part, answers)
            answers += part


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root: it calls as other users")
        sys.exit(77)
    unittest.main()
