"""Other people's programs and definitions, kept outside the project in the lab's cache: Debian packages of
any suite, unpacked
and run as they are, and npm packages. Fetched once; small ones whenever they are needed, large ones by
tools/test --full only."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lab import LabError, apt  # noqa: E402
from lab.tree import Layer, digest  # noqa: E402

leases = []
FULL = os.environ.get("FULL") == "1"


class Missing(Exception):
    """What is not here, and how it comes here."""


def skip(why, name):
    """Ends a module that cannot be tested here: for unittest, or, as a program, with the exit code that
    ctest takes for skipped."""
    if name == "__main__":
        print(f"skipped: {why}", file=sys.stderr)
        sys.exit(77)
    raise unittest.SkipTest(str(why))


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=600, **more)
    if done.returncode:
        raise LabError(f"{' '.join(map(str, words[:3]))} …: exit code {done.returncode}:\n"
                       f"{done.stdout[-1500:]}")
    return done.stdout


def unpack(suite, packages, work, out):
    """Packages of a suite, and not what they depend on, into out; by an apt whose sources, lists and
    cache are its own."""
    mirror, _ = apt.sources()
    etc, state, cache = work / "etc", work / "state", work / "cache"
    for folder in (etc / "parts", etc / "preferences", state / "lists/partial", cache / "archives/partial"):
        folder.mkdir(parents=True)
    (etc / "sources.list").write_text(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                                      f"{mirror} {suite} main\n")
    (state / "status").touch()
    own = [f"-oDir::Etc::SourceList={etc}/sources.list", f"-oDir::Etc::SourceParts={etc}/parts",
           f"-oDir::Etc::PreferencesParts={etc}/preferences",
           f"-oDir::State={state}", f"-oDir::State::status={state}/status", f"-oDir::Cache={cache}",
           "-oAcquire::Languages=none", "-oAPT::Sandbox::User=root",
           "-oAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
           "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]
    run("apt-get", "-q", *own, "update")
    run("apt-get", "-q", *own, "download", *packages, cwd=work)
    for deb in sorted(work.glob("*.deb")):
        run("dpkg-deb", "-x", deb, out)


def get(layer, small):
    """The folder of a layer, built if it may be."""
    if not layer.path.is_dir() and not small and not FULL:
        raise Missing(f"{layer.name} is not on this machine: tools/test --full fetches it")
    try:
        leases.extend(layer.leases())  # held to our end: nobody prunes what is in use
    except (LabError, OSError) as e:
        raise Missing(f"{layer.name} cannot be fetched: {str(e).strip()[-600:]}") from e
    return layer.path


def debian(suite, *packages, small=False):
    return get(Layer(f"peer-{suite}-{packages[0]}", digest(suite, *packages), None,
                     lambda _layer, work, out: unpack(suite, packages, work, out)), small)


def npm(*packages, small=False):
    def build(_layer, work, out):
        run("npm", "install", "--prefix", out, "--ignore-scripts", "--no-audit", "--no-fund",
            "--no-package-lock", "--cache", work / "npm", *packages)

    try:
        subprocess.run(["node", "--version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise Missing("node and npm are not installed") from None
    return get(Layer("peer-npm-" + packages[0].rpartition("@")[0].rpartition("/")[2], digest(*packages),
                     None, build), small) / "node_modules"


def definitions():
    """The folder of Python modules that protoc makes of OpenTelemetry's own .proto files (Debian's
    opentelemetry-proto 1.5.0)."""
    def build(_layer, work, out):
        source = debian("bookworm-backports", "opentelemetry-proto", small=True)
        top = next(source.rglob("opentelemetry/proto")).parents[1]
        files = sorted(str(p.relative_to(top)) for p in top.rglob("*.proto") if "/v1/" in str(p))
        run("protoc", f"-I{top}", f"--python_out={out}", *files)

    return get(Layer("peer-otlp-python", digest("opentelemetry-proto"), None, build), True)

