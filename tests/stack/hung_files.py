# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system with one file, which answers until it is told to hang (linux/fuse.h, by /dev/fuse)."""
import ctypes
import os
import stat
import struct
import tempfile
import threading
import unittest

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 18, 25, 26, 27, 36, 42)
NODE = 2  # of the file
libc = ctypes.CDLL(None, use_errno=True)


class HungFiles:
    """path is the file, of the bytes given. After hang() nothing is answered any more."""

    def __init__(self, content=b"x", name="file"):
        self.content, self.hung = content, threading.Event()
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, name)
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR)
        except OSError as e:
            raise unittest.SkipTest("/dev/fuse: %s" % e)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self.fd
        if libc.mount(b"hung", self.folder.encode(), b"fuse", 0, options.encode()) < 0:
            os.close(self.fd)
            raise unittest.SkipTest("mount: %s" % os.strerror(ctypes.get_errno()))
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        libc.umount2(self.folder.encode(), 2)  # MNT_DETACH
        with open("/proc/self/mountinfo") as f:
            self.assert_gone(f.read())
        os.close(self.fd)  # what still waits gets an error
        os.rmdir(self.folder)

    def assert_gone(self, mounts):
        assert self.folder not in mounts

    def hang(self):
        self.hung.set()

    def attributes(self, node):
        mode, size = (stat.S_IFDIR | 0o755, 0) if node != NODE else (stat.S_IFREG | 0o755, len(self.content))
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0,
                           4096, 0)

    def answer(self, opcode, node, body):
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 32, 0, 0)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != os.path.basename(self.path).encode():
                return None
            return struct.pack("<QQQQII", NODE, 0, 3600, 3600, 0, 0) + self.attributes(NODE)
        if opcode == GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 1, 0, 0)
        if opcode == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            return self.content[offset:offset + size]
        return b"" if opcode in (FLUSH, RELEASE) else None

    def serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 18)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if self.hung.is_set() or opcode in (FORGET, INTERRUPT, BATCH_FORGET):
                continue
            body = self.answer(opcode, node, request[40:])
            error = -2 if body is None and opcode == LOOKUP else -38 if body is None else 0
            body = body or b""
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
