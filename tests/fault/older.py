"""The programs of an older version of this repository, built out of its history: for tests that let versions meet."""

import subprocess
import unittest

from around import BINARY, TOP

PROGRAMS = {"agent": "agent/hostd/tpu-hostd", "collector": "collector/tpu-collectord"}


def build(commit):
    """Its build tree, made once and kept beside ours. Skips the test where the clone does not reach so far back."""
    folder = BINARY.parents[2] / f"older-{commit}"
    tree = folder / "build/dev"
    if not all((tree / p).exists() for p in PROGRAMS.values()):
        folder.mkdir(exist_ok=True)
        archive = subprocess.run(["git", "-C", TOP, "archive", commit], capture_output=True)
        if archive.returncode != 0:
            raise unittest.SkipTest(f"commit {commit} is not in this clone")
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        subprocess.run(["cmake", "--preset", "dev"], cwd=folder, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", "--preset", "dev", "--target", "tpu-hostd", "tpu-collectord"], cwd=folder, check=True, capture_output=True)
    return tree


def programs(commit):
    """{"agent": path, "collector": path}"""
    return {name: build(commit) / path for name, path in PROGRAMS.items()}
