#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real CPython of other Debian releases, each in a tree of its own to chroot into: python3.9 of Debian 11,
3.13 of 13, 3.14 and 3.15 of sid.

  sudo tests/stack/pythons.py            fetches what is missing and prints where each is
  pythons.trees()                        version -> directory of those that are there; fetches nothing

The packages come from this machine's own mirror (apt checks their signatures), are unpacked without running
a script of theirs, and are
kept where tests/lab keeps its layers. A release that the mirror no longer has is left out, and said so.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lab import LabError, apt  # noqa: E402
from lab.tree import Layer, cache_dir, digest, run_script  # noqa: E402

SUITES = {"bullseye": ["3.9"], "trixie": ["3.13"], "sid": ["3.14", "3.15"]}
EXTRA = {"trixie": "austin"}  # a peer, for tests/bench/stack.py

# A private apt that believes nothing to be installed: what it would install is all that the packages need.
# Of libpython-dev only the headers
# are wanted, so its own needs are not.
UNPACK = r"""
set -eu
mkdir -p "$WORK/apt/lists/partial" "$WORK/apt/archives/partial" "$WORK/apt/etc" "$WORK/debs"
: >"$WORK/apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $MIRROR $SUITE main" >"$WORK/apt/etc/list"
printf '%s' "$TRANSPORT" >"$WORK/apt/etc/conf"
export APT_CONFIG="$WORK/apt/etc/conf"
apt() {
    apt-get -q -y -o Dir::State="$WORK/apt" -o Dir::State::Lists="$WORK/apt/lists" -o Dir::State::status="$WORK/apt/status" \
        -o Dir::Cache="$WORK/apt" -o Dir::Etc::SourceList="$WORK/apt/etc/list" -o Dir::Etc::SourceParts=- -o Dir::Etc::Parts=- \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root \
        -o APT::Install-Recommends=false -o Debug::NoLocking=1 "$@"
}
apt update
for version in $VERSIONS; do
    apt -d install "python$version-minimal" "libpython$version-stdlib" || { echo "no python$version in $SUITE" >&2; continue; }
    (cd "$WORK/debs" && apt download "libpython$version-dev") || echo "no headers of $version" >&2
done
[ -z "$EXTRA" ] || apt -d install $EXTRA || echo "no $EXTRA in $SUITE" >&2
for dir in bin sbin lib lib64; do mkdir -p "$OUT/usr/$dir"; ln -s "usr/$dir" "$OUT/$dir"; done
for deb in "$WORK"/apt/archives/*.deb "$WORK"/debs/*.deb; do
    case $deb in */libpython*-dev_*) only=./usr/include ;; *) only=. ;; esac
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$OUT" --exclude='./usr/share/doc' --exclude='./usr/share/man' $only
done
mkdir -p "$OUT/proc" "$OUT/dev" "$OUT/tmp" "$OUT/etc" "$OUT/srv"
chmod 1777 "$OUT/tmp"
: >"$OUT/dev/null"
rm -rf "$WORK/apt" "$WORK/debs"
"""


def layer(suite):
    def build(_layer, work, out):
        mirror, _ = apt.sources()
        run_script(UNPACK, {"SUITE": suite, "MIRROR": mirror, "VERSIONS": " ".join(SUITES[suite]),
                            "EXTRA": EXTRA.get(suite, ""),
                            "OUT": out, "WORK": work,
                            "TRANSPORT": apt.transport()}, "unpacking Python of Debian " + suite)
    return Layer("python-" + suite, digest(UNPACK, suite, EXTRA.get(suite, ""), *SUITES[suite]), None, build)


def trees():
    """version -> tree, of those already there."""
    found = {}
    try:
        cache_dir()
    except LabError:
        return found
    for suite, versions in SUITES.items():
        path = str(layer(suite).path)
        for version in versions:
            if os.path.exists(path + "/usr/bin/python" + version):
                found[version] = path
    return found


def main():
    code = 0
    for suite, versions in SUITES.items():
        try:
            for lease in layer(suite).leases():
                lease.close()
        except (LabError, subprocess.SubprocessError) as e:
            print("python of Debian %s: %s" % (suite, e), file=sys.stderr)
            code = 1
    found = trees()
    for versions in SUITES.values():
        for version in versions:
            print(version, found.get(version, "not there"))
    return code


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
