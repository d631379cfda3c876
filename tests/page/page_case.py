"""What the tests of the page in a browser share: what a person sees, by roles and names; contrast and labels."""

import os
import pathlib
import unittest

import world
from browser import Browser, missing

SHOTS = pathlib.Path(os.environ.get("SHOTS", world.TOP / "build/page-pictures"))

# Each text that is seen: its colour against what lies behind it. Returns those that are too faint.
CONTRAST = """(() => {
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parse = (s) => s.match(/[\\d.]+/g).map(Number);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.99) return c.slice(0, 3); } return parse(getComputedStyle(document.body).backgroundColor).slice(0, 3); };
  const faint = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!walk.currentNode.data.trim() || box.width < 2 || style.visibility === "hidden" || e.closest("caption, .skip, noscript, svg, script, style")) continue;
    const a = light(parse(style.color).slice(0, 3)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    seen++;
    if (ratio < (large ? 3 : 4.5)) faint.push(`${walk.currentNode.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return { seen, faint };
})()"""

# Cells of the grid against their signs, and against the ground.
CELLS = """(() => {
  const light = (s) => { const c = s.match(/\\w\\w/g).length === 3 ? s.slice(1).match(/../g).map((x) => parseInt(x, 16)) : [...s.slice(1)].map((x) => parseInt(x + x, 16));
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const style = getComputedStyle(document.documentElement), of = (n) => light(style.getPropertyValue(n).trim());
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return ["suspect", "stalled", "silent", "unfit", "cordoned", "degraded", "pause", "checkpoint"].map((n) => [n, ratio(of(`--${n}`), of(`--on-${n}`))]).filter(([, r]) => r < 3);
})()"""

# Nothing is wider than the window but what scrolls by itself.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@unittest.skipIf(missing() or world.page_missing(), missing() or world.page_missing())
class PageCase(unittest.TestCase):
    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def show(self, url, view, words):
        """The view, when it says so."""
        self.browser.go("about:blank")
        self.browser.go(url + view)
        self.says(words)

    def says(self, *words):
        for w in words:
            self.browser.until(f"document.body.innerText.includes({w!r})", w)

    def named(self, role, words):
        roles = self.browser.roles()
        self.assertTrue(
            any(r == role and words in n for r, n in roles),
            f"no {role} named {words!r} among {[n for r, n in roles if r == role]}",
        )

    def fit_for_all(self, what):
        """No error, labels for all that is used or seen, enough contrast, nothing cut off at the side."""
        b = self.browser
        self.assertEqual(b.errors, [], what)
        for role, name in b.roles():
            if role in ("button", "link", "textbox", "searchbox", "image", "img", "table", "navigation"):
                self.assertTrue(name.strip(), f"{what}: a {role} without a name")
        found = b.run(CONTRAST)
        self.assertGreater(found["seen"], 5, what)
        self.assertEqual(found["faint"], [], what)
        self.assertEqual(b.run(CELLS), [], what)
        self.assertLessEqual(b.run(OVERFLOW), 0, what)
        self.assertEqual(b.run("[...document.querySelectorAll('h1')].length"), 1, what)
        self.assertEqual(b.run("document.documentElement.lang"), "en")
