"""The collector's page of a lab, seen from this machine: pictures by a headless browser in the collector's
network namespace, and an address on loopback for a person's own browser."""

import contextlib
import os
import select
import socket
import subprocess
import sys
import termios
import tty
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "page"))
from browser import PROGRAM, Browser  # noqa: E402  (the path comes first)

PAGE = "http://127.0.0.1:9471"

# Takes connections on the socket that it was given, of the namespace that made it, and has each answered by
# the page of the namespace that it runs in.
RELAY = """
import socket, sys, threading
def carry(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
listener = socket.socket(fileno=int(sys.argv[1]))
while True:
    ours = listener.accept()[0]
    theirs = socket.create_connection(("127.0.0.1", 9471))
    for ends in ((ours, theirs), (theirs, ours)):
        threading.Thread(target=carry, args=ends, daemon=True).start()
"""


def inside(host):
    return ["nsenter", "-t", str(host.leader), "-n"]


def pictures(collector, folder, views):
    """views: {name: (hash, words that it shows)}. Each as it is on a desktop, light and dark. Returns the
    files; none where no browser is installed."""
    if not PROGRAM:
        return []
    files = []
    browser = Browser(inside(collector))
    try:
        for scheme in ("light", "dark"):
            browser.size("desktop", scheme)
            for name, (view, words) in views.items():
                browser.go("about:blank")
                browser.go(f"{PAGE}/{view}")
                browser.until(f"document.body.innerText.includes({words!r})", words)
                files.append(Path(folder, f"{name}-{scheme}.png"))
                browser.picture(str(files[-1]))
    finally:
        browser.close()
    return files


@contextlib.contextmanager
def on_loopback(collector):
    """The page's URL on this machine, for as long as it is wanted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = subprocess.Popen([*inside(collector), sys.executable, "-c", RELAY, str(listener.fileno())],
                                 pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            relay.kill()
            relay.wait()


def wait_for_key():
    """Any key of the terminal that standard input is."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        select.select([sys.stdin], [], [])
        os.read(sys.stdin.fileno(), 64)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
