#!/usr/bin/python3
"""How tpu-collectord serves the page: its files alone, what a browser is told to forbid, how large it is.
BUILD_DIR names the build."""

import gzip
import http.client
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "collector")]
import world  # noqa: E402
from collector_case import Case  # noqa: E402

SIZE_MAX = 80_000  # bytes of all files, packed


@unittest.skipIf(world.page_missing(), world.page_missing())
class Serving(Case):
    def setUp(self):
        super().setUp()
        self.page = world.page_folder(pathlib.Path(self.dir.name) / "page")

    def ask(self, path, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.c.api, timeout=60)
        c.request(method, path, None, headers)
        r = c.getresponse()
        r.body = r.read()
        c.close()
        return r

    def test_files(self):
        self.start("--page", str(self.page))
        total = 0
        for file in sorted(self.page.iterdir()):
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            plain, packed = self.ask(path), self.ask(path, **{"Accept-Encoding": "br, gzip"})
            self.assertEqual((plain.status, plain.body), (200, file.read_bytes()), path)
            if packed.getheader("Content-Encoding"):
                self.assertEqual(gzip.decompress(packed.body), plain.body)
            self.assertEqual(self.ask(path, "HEAD").getheader("Content-Length"), str(len(plain.body)))
            total += len(packed.body)
            same = self.ask(path, **{"If-None-Match": plain.getheader("ETag")})
            self.assertEqual((same.status, same.body), (304, b""))
            self.assertEqual(self.ask(path, **{"If-None-Match": '"other"'}).status, 200)
            for r in (plain, packed, same):
                self.assertIn("default-src 'none'", r.getheader("Content-Security-Policy"))
                self.assertNotIn("unsafe", r.getheader("Content-Security-Policy"))
                self.assertEqual(r.getheader("X-Content-Type-Options"), "nosniff")
        print(
            f"the page is {total} bytes packed, {sum(f.stat().st_size for f in self.page.iterdir())} plain"
        )
        self.assertLessEqual(total, SIZE_MAX)

    def test_no_other_file(self):
        (self.page / ".hidden.js").write_text("1")
        (self.page / "notes.txt").write_text("1")
        self.start("--page", str(self.page))
        (self.page / "later.js").write_text("1")
        for path in (
            "/page/..%2f..%2fetc%2fpasswd",
            "/page/../c.db",
            "/page/.hidden.js",
            "/page/notes.txt",
            "/page/later.js",
            "/page/",
            "/page/index.html/x",
            "/page/%00app.js",
        ):
            self.assertIn(self.ask(path).status, (400, 404), path)
        self.assertEqual(self.ask("/", "POST").status, 405)

    def test_without_it(self):
        self.start("--page", str(self.page / "none"))
        r = self.c.get("/")
        self.assertEqual((r.status, r.json["error"]), (404, "this collector has no page"))
        self.assertEqual(self.c.get("/api/v1/hosts").status, 200)

    def test_too_large(self):
        (self.page / "big.js").write_text("x" * (513 << 10))
        self.start("--page", str(self.page))
        self.assertEqual(self.c.get("/").status, 404)

    def test_nothing_of_elsewhere(self):
        """No file names another site, and what is asked for is there."""
        own = {f.name for f in self.page.iterdir()}
        for file in world.WEB.iterdir():
            text = file.read_text()
            self.assertEqual(
                set(re.findall(r"https?://[^\"' )]+", text)) - {"http://www.w3.org/2000/svg"},
                set(),
                file.name,
            )
            self.assertNotRegex(
                text,
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
                file.name,
            )
            for name in re.findall(r"from \"\./([^\"]+)\"", text) + re.findall(r"/page/([A-Za-z.]+)", text):
                self.assertIn(name, own, file.name)
        index = (world.WEB / "index.html").read_text()
        self.assertNotRegex(index, r"<style|<script(?! (?:defer|type=\"module\") src)|\son\w+=|style=")


if __name__ == "__main__":
    unittest.main()
