"""The programs of the release before this one, built out of the repository's history: for tests that let
versions meet.

From 0.2 on, neighbouring versions work together both ways. A release is a tag vX.Y.Z; what is older than 0.2
is not looked at."""

import re
import subprocess
import unittest

from around import BINARY, TOP

FIRST = (0, 2, 0)
PROGRAMS = {"agent": "agent/hostd/tpu-hostd", "collector": "collector/tpu-collectord"}


def release(tags, version):
    """The newest of these tags that this version has to work with; None: there is none."""
    known = {tuple(map(int, m.groups())): m[0]
             for m in (re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)", t) for t in tags) if m}
    return next((known[v] for v in sorted(known, reverse=True) if FIRST <= v <= version), None)


def tag():
    """Skips the test where there is no such release."""
    version = re.match(r"tpu-hostd \((\d+)\.(\d+)\.(\d+)", (TOP / "packaging/deb/changelog").read_text())
    done = subprocess.run(["git", "-C", TOP, "tag", "--list", "v*"], capture_output=True, text=True)
    found = release(done.stdout.split(), tuple(map(int, version.groups())))
    if not found:
        raise unittest.SkipTest("this clone has no tag of a release from v0.2.0 on: nothing that this "
                                "version has to work with")
    return found


def build(commit):
    """Its build tree, made once and kept beside ours."""
    folder = BINARY.parents[2] / f"previous-{commit}"
    tree = folder / "build/dev"
    if not all((tree / p).exists() for p in PROGRAMS.values()):
        folder.mkdir(exist_ok=True)
        archive = subprocess.run(["git", "-C", TOP, "archive", commit], capture_output=True, check=True)
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        cache = (BINARY.parents[2] / "CMakeCache.txt").read_text()
        curl = re.search(r"^CURL_GNUTLS:FILEPATH=(.*)$", cache, re.M)
        subprocess.run(["cmake", "--preset", "dev", *([f"-DCURL_GNUTLS={curl[1]}"] if curl else [])],
                       cwd=folder, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", "--preset", "dev", "--target", "tpu-hostd", "tpu-collectord"],
                       cwd=folder, check=True, capture_output=True)
    return tree
