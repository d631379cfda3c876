"""What a training asks outside of its run: a storage server (TCP) and a name server (UDP), which answer in
the switch's network namespace, as the gateway.

Lines on standard input change it: "storage ADDRESS" and "dns ADDRESS" never answer that client again, "heal"
answers all.
"""

import selectors
import socket
import struct
import subprocess
import sys
from pathlib import Path

ADDRESS = "10.10.0.1"
PORT, DNS_PORT = 7070, 53
NAME = "index.storage.lab"
BLOCK = bytes(4096)


class Outside:
    def __init__(self):
        self.selector, self.silent = selectors.DefaultSelector(), set()
        self.names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.names.bind((ADDRESS, DNS_PORT))
        listener = socket.create_server((ADDRESS, PORT), backlog=64)
        for source, handler in ((self.names, self.resolve), (listener, self.accept),
                                (sys.stdin, self.listen)):
            self.selector.register(source, selectors.EVENT_READ, handler)

    def accept(self, listener):
        link, _ = listener.accept()
        self.selector.register(link, selectors.EVENT_READ, self.serve)

    def serve(self, link):
        """A question is four bytes; each is answered by a block."""
        try:
            client, data = link.getpeername()[0], link.recv(4)
            if data and ("storage", client) not in self.silent:
                link.sendall(BLOCK)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(link)
            link.close()

    def resolve(self, source):
        question, client = source.recvfrom(4096)
        if ("dns", client[0]) not in self.silent and len(question) > 16:
            source.sendto(answer(question), client)

    def listen(self, source):
        words = source.readline().split()
        if not words:
            sys.exit(0)
        if words[0] == "heal":
            self.silent.clear()
        else:
            self.silent.add(tuple(words))
        print("done", flush=True)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


def answer(question):
    """RFC 1035: an address of NAME, nothing of other kinds, and no other name."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode("ascii", "replace"))
        at += 1 + question[at]
    kind = struct.unpack_from(">H", question, at + 1)[0]
    known, wanted = ".".join(labels).lower() == NAME, kind == 1
    record = b""
    if known and wanted:
        record = struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(ADDRESS)
    header = question[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else 3), 1, int(bool(record)), 0, 0)
    return header + question[12:at + 5] + record


class Servers:
    """Both servers in a process of their own; use it in a with statement."""

    def __init__(self, lab):
        there = ["nsenter", f"--net=/run/netns/{lab.switch.namespace}"]
        self.process = subprocess.Popen([*there, sys.executable, Path(__file__).resolve()], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True)  # Ctrl-C is not for it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise OSError("the servers outside of the run have ended")


if __name__ == "__main__":
    Outside().run()
