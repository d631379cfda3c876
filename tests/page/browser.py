"""A headless Chromium, spoken to by DevTools over --remote-debugging-pipe: JSON ended by NUL, on its
descriptors 3 and 4. No package is needed."""

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

PROGRAM = shutil.which("chromium")
PATIENCE = 60  # seconds that anything may take on a busy machine
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


def missing():
    """Why there is no test here; empty: there is a browser, or the gate wants one."""
    return "" if PROGRAM or os.environ.get("GATE") else "no chromium here: sudo tools/deps test installs it"


class Browser:
    """One program with one page. errors: what its console and its scripts complained about; requests: each
    URL that was asked for. within: a command that runs it elsewhere, for example in another network."""

    def __init__(self, within=()):
        self.folder = tempfile.TemporaryDirectory(prefix="page-browser-")
        read_theirs, self.write = os.pipe()
        self.read, write_theirs = os.pipe()

        def child():
            os.dup2(read_theirs, 3)
            os.dup2(write_theirs, 4)

        # Both ends are above 4 in the child, or dup2 would close one of them.
        read_theirs, write_theirs = (self._above(fd) for fd in (read_theirs, write_theirs))
        self.process = subprocess.Popen(
            [
                *within,
                PROGRAM,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
                "--enable-precise-memory-info",
                f"--user-data-dir={self.folder.name}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=child,
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self.number, self.waiting, self.lock = 0, {}, threading.Lock()
        self.errors, self.requests, self.session = [], [], None
        threading.Thread(target=self._listen, daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self.call(f"{domain}.enable")

    @staticmethod
    def _above(fd):
        import fcntl

        new = fcntl.fcntl(fd, fcntl.F_DUPFD, 10)
        os.close(fd)
        os.set_inheritable(new, True)
        return new

    def close(self):
        try:
            self.call("Browser.close", patience=5)
        except (OSError, AssertionError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        self.folder.cleanup()

    def _listen(self):
        rest = b""
        while True:
            try:
                more = os.read(self.read, 1 << 20)
            except OSError:
                more = b""
            if not more:
                return
            *whole, rest = (rest + more).split(b"\0")
            for text in whole:
                self._take(json.loads(text))

    def _take(self, m):
        if "id" in m:
            self.waiting.pop(m["id"]).put(m)
        elif m["method"] == "Runtime.exceptionThrown":
            d = m["params"]["exceptionDetails"]
            self.errors.append(d.get("exception", {}).get("description") or d["text"])
        elif m["method"] == "Runtime.consoleAPICalled" and m["params"]["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.errors.append(
                " ".join(str(a.get("description", a.get("value"))) for a in m["params"]["args"])
            )
        elif m["method"] == "Log.entryAdded" and m["params"]["entry"]["level"] in ("error", "warning"):
            entry = m["params"]["entry"]
            if (
                entry["source"] != "network"
            ):  # what the API refuses the page shows; that is no error of the page
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")
        elif m["method"] == "Network.requestWillBeSent":
            self.requests.append(m["params"]["request"]["url"])

    def call(self, method, patience=PATIENCE, **params):
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            self.waiting[self.number] = answer
            m = {"id": self.number, "method": method, "params": params}
            if self.session and not method.startswith(("Target.", "Browser.")):
                m["sessionId"] = self.session
            data = json.dumps(m).encode() + b"\0"
            while data:
                data = data[os.write(self.write, data) :]
        try:
            m = answer.get(timeout=patience)
        except queue.Empty:
            raise AssertionError(f"{method}: no answer from the browser within {patience} s") from None
        assert "error" not in m, (method, m["error"])
        return m["result"]

    def size(self, name, scheme="light", motion="no-preference"):
        width, height = SIZES[name]
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if name == "phone" else 1,
            mobile=name == "phone",
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": motion},
            ],
        )

    def go(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        """The value of an expression; a promise is waited for."""
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"].get("exception", r["exceptionDetails"])
        return r["result"].get("value")

    def until(self, script, what=None, patience=PATIENCE):
        end = time.monotonic() + patience
        while True:
            try:
                value = self.run(script)
            except AssertionError:  # between two documents
                value = None
            if value not in (None, False, 0, ""):  # an element is {}
                return value
            assert time.monotonic() < end, f"not within {patience} s: {what or script}\n{self.text()}"
            time.sleep(0.05)

    def text(self):
        return self.run("document.body ? document.body.innerText : ''")

    def key(self, name):
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36}[name]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}),
            )

    def roles(self):
        """[(role, name)] of what assistive technology is told."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (n["role"]["value"], n.get("name", {}).get("value", ""))
            for n in nodes
            if not n.get("ignored") and "role" in n
        ]

    def picture(self, path, whole=False):
        """whole: all of the document, by a window that is as high."""
        if whole:
            width, ratio = self.run("innerWidth"), self.run("devicePixelRatio")
            height = min(self.run("document.documentElement.scrollHeight"), 6000)
            self.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=ratio,
                mobile=ratio > 1,
            )
            time.sleep(0.4)
        webp = {"format": "webp", "quality": 60} if path.endswith(".webp") else {"format": "png"}
        shot = self.call("Page.captureScreenshot", **webp)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))
