#!/usr/bin/python3
"""tpuctl fleet cordon, drain, observe, release and their ends: what is asked first, what is then sent."""
import os
import pty
import select
import subprocess
import time
import unittest

from ctl_case import TPUCTL, Ctl


class Orders(Ctl):
    def setUp(self):
        super().setUp()
        self.server, self.url = self.collector()
        for method, path in (("PUT", "hosts/h0/cordon"), ("PUT", "hosts/h0/drain"), ("PUT", "hosts/h0/mode"),
                             ("PUT", "mode"), ("DELETE", "mode"), ("DELETE", "hosts/h0/mode"),
                             ("DELETE", "hosts/h0/cordon"), ("DELETE", "hosts/h0/drain"),
                             ("DELETE", "slices/s0/slots/3")):
            self.server.answers[(method, f"/api/v1/{path}")] = (204, b"")

    def order(self, words, code, **expected):
        return self.expect(["fleet", *words, "--collector", self.url], code, **expected)

    def test_at_once(self):
        self.order(["cordon", "h0", "bad", "cable"], 0, stderr="",
                   stdout="cordon of h0: bad cable\nend it: tpuctl fleet uncordon h0\n")
        self.order(["uncordon", "h0"], 0, stdout="uncordon of h0\n", stderr="")
        self.order(["observe", "--host", "h0", "noise"], 0, stderr="",
                   stdout="observe of h0: noise\nend it: tpuctl fleet repair --host h0\n")
        self.order(["repair", "--host", "h0"], 0, stdout="repair of h0\n", stderr="")
        self.order(["repair"], 0, stdout="repair of the whole fleet\n", stderr="")
        self.assertEqual(self.server.seen,
                         [("PUT", "/api/v1/hosts/h0/cordon?reason=bad%20cable"),
                          ("DELETE", "/api/v1/hosts/h0/cordon"), ("DELETE", "/api/v1/hosts/h0/drain"),
                          ("PUT", "/api/v1/hosts/h0/mode?reason=noise"), ("DELETE", "/api/v1/hosts/h0/mode"),
                          ("DELETE", "/api/v1/mode")])

    def test_yes_is_given(self):
        self.order(["drain", "h0", "fans", "--yes"], 0, stderr="",
                   stdout="drain of h0: fans\nend it: tpuctl fleet uncordon h0\n")
        self.order(["observe", "--yes", "enough"], 0, stderr="",
                   stdout="observe of the whole fleet: enough\nend it: tpuctl fleet repair\n")
        self.order(["release", "s0", "3", "burnt", "--yes"], 0, stderr="",
                   stdout="release of worker 3 of slice s0: burnt\n")
        self.assertEqual(self.server.seen,
                         [("PUT", "/api/v1/hosts/h0/drain?reason=fans"),
                          ("PUT", "/api/v1/mode?reason=enough"),
                          ("DELETE", "/api/v1/slices/s0/slots/3?reason=burnt")])

    def test_without_a_terminal(self):
        for words in (["drain", "h0", "fans"], ["observe", "enough"], ["release", "s0", "3", "burnt"]):
            self.order(words, 1, stdout="",
                       stderr=f"tpuctl fleet {words[0]}: nothing is ordered: there is no terminal to ask "
                              "for a yes on\nto do:  the same with --yes\n")
        for words in (["drain", "h0", "--yes"], ["observe", "--yes"], ["release", "s0", "3", "--yes"],
                      ["cordon", "h0"], ["observe", "--host", "h0"]):
            self.assertIn("a reason is missing", self.order(words, 64, stdout="").stderr)
        self.assertEqual(self.server.seen, [])

    def test_misuse(self):
        for words, said in ((["cordn", "h0", "x"],
                             "tpuctl fleet: there is no 'fleet cordn'; did you mean 'cordon'? known: "
                             "slices, stalls, suspects, pairs, cordon, drain, uncordon, observe, repair, "
                             "release"),
                            (["cordon"], "tpuctl fleet cordon: a word is missing; usage: 'HOST REASON'"),
                            (["cordon", "a/b", "x"], "tpuctl fleet cordon: this is no name: 'a/b'"),
                            (["observe", "--host", "..%2f", "x"],
                             "tpuctl fleet observe: this is no name: '..%2f'"),
                            (["release", "s0", "x", "y"],
                             "tpuctl fleet release: WORKER is a number, not 'x'"),
                            (["repair", "now"], "tpuctl fleet repair: one word too many: 'now'"),
                            (["uncordon", "h0", "h1"], "tpuctl fleet uncordon: one word too many: 'h1'"),
                            (["release", "s0", "1", "x", "--until", "2h"],
                             "tpuctl fleet release: unknown option '--until'"),
                            (["cordon", "h0", "x" * 200],
                             "tpuctl fleet cordon: the reason is at most 199 bytes")):
            with self.subTest(words):
                self.assertEqual(self.order(words, 64, stdout="").stderr.splitlines()[0], said)
        self.assertEqual(self.server.seen, [])

    def test_help_of_each(self):
        text = self.expect(["fleet", "--help"], 0).stdout
        for word in ("slices", "stalls", "suspects", "cordon", "drain", "uncordon", "observe", "repair",
                     "release"):
            self.assertIn(f"\n  {word} ", text)
            own = self.expect(["fleet", word, "--help"], 0, stderr="").stdout
            self.assertTrue(own.startswith(f"Usage: tpuctl fleet {word} "), own)
            for args in (["help", "fleet", word], ["fleet", word, "-h"], ["fleet", word, "help"],
                         ["fleet", "--collector", self.url, word, "-h"]):
                self.expect(args, 0, stdout=own)

    def typed(self, words, *lines):
        """What a person sees at a terminal who types these lines when asked; and the exit code."""
        main, other = pty.openpty()
        ctl = subprocess.Popen([TPUCTL, "--root", self.root, "fleet", *words, "--collector", self.url],
                               stdin=other, stdout=other, stderr=other, env={"PATH": "/usr/bin:/bin"},
                               start_new_session=True)
        os.close(other)
        text, left, end = b"", list(lines), time.monotonic() + 30
        while time.monotonic() < end:
            if not select.select([main], [], [], 0.2)[0]:
                if left and text.endswith((b": ", b"] ")):
                    os.write(main, left.pop(0).encode() + b"\n")
                continue
            try:
                part = os.read(main, 65536)
            except OSError:  # EIO: nobody writes any more
                break
            text += part
        os.close(main)
        return ctl.wait(30), text.decode().replace("\r\n", "\n")

    def test_at_a_terminal(self):
        question = ("observe of the whole fleet: no host changes anything, and no run over slices starts. "
                    "Go on? [y/N] ")
        done = "observe of the whole fleet: enough\nend it: tpuctl fleet repair\n"
        for answer, code, rest in (("y", 0, done), ("yes", 0, done),
                                   ("", 1, "tpuctl fleet observe: nothing is ordered\n"),
                                   ("no", 1, "tpuctl fleet observe: nothing is ordered\n"),
                                   ("yesterday", 1, "tpuctl fleet observe: nothing is ordered\n")):
            with self.subTest(answer):
                self.assertEqual(self.typed(["observe", "enough"], answer),
                                 (code, f"{question}{answer}\n{rest}"))
        self.assertEqual(self.server.seen, [("PUT", "/api/v1/mode?reason=enough")] * 2)
        # as a remedy says it: the reason is asked for, too
        self.assertEqual(self.typed(["release", "s0", "3"], "burnt", "y"), (0, (
            "Why? Others will read it: burnt\n"
            "release of worker 3 of slice s0: the next machine that says it is this worker gets its id. "
            "Go on? [y/N] y\nrelease of worker 3 of slice s0: burnt\n")))
        self.assertEqual(self.server.seen[-1], ("DELETE", "/api/v1/slices/s0/slots/3?reason=burnt"))
        code, text = self.typed(["drain", "h0"], "")
        self.assertEqual((code, "a reason is missing" in text), (64, True), text)
        self.assertEqual(len(self.server.seen), 3)


if __name__ == "__main__":
    unittest.main()
