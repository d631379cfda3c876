"""The kernels of other Debian suites, unpacked beside the lab's layers: what a machine boots that needs
no driver but its network's."""

from lab import apt
from lab.tree import Layer, digest, run_script

from .kernel import PACKAGE, WANTED, Kernel

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# apt with a state of its own: this machine's package lists stay as they are. Keys in the name: no list of
# this machine's vouches for it.
UNPACK = r"""
set -eu
mkdir -p "$WORK/lists/partial" "$WORK/cache/archives/partial" "$WORK/etc/apt.conf.d" "$WORK/etc/preferences.d"
echo "deb [signed-by=$KEYS] $MIRROR $SUITE main" > "$WORK/etc/sources.list"
printf '%s' "$TRANSPORT" > "$WORK/apt.conf"
: > "$WORK/status"
export APT_CONFIG="$WORK/apt.conf"
set -- -o Dir::State::lists="$WORK/lists" -o Dir::State::status="$WORK/status" -o Dir::Cache="$WORK/cache" -o Dir::Etc::parts="$WORK/etc/apt.conf.d" \
    -o Dir::Etc::sourcelist="$WORK/etc/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts="$WORK/etc/preferences.d" \
    -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root
apt-get -q "$@" update
name=$(apt-cache "$@" depends "$PACKAGE" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
cd "$WORK"
apt-get -q "$@" download "$name"
mkdir -p "$OUT"
dpkg-deb -x linux-image-*.deb "$OUT"
[ -d "$OUT/usr/lib/modules" ] || { mkdir -p "$OUT/usr/lib"; mv "$OUT/lib/modules" "$OUT/usr/lib/"; }
find "$OUT/usr/lib/modules" -name '*.ko.xz' -exec unxz {} + # which busybox's insmod does not read
depmod -b "$OUT/usr" "$(ls "$OUT/usr/lib/modules")"
"""


def suite_layer(suite):
    def build(_layer, work, out):
        mirror, _ = apt.sources()
        run_script(UNPACK, {"WORK": work, "OUT": out, "MIRROR": mirror, "SUITE": suite, "KEYS": KEYS,
                            "PACKAGE": PACKAGE,
                            "TRANSPORT": apt.transport()}, f"the kernel of Debian {suite}")
    return Layer(f"kernel-{suite}", digest(UNPACK, suite), None, build)


class SuiteKernel(Kernel):
    """As Kernel, of "bullseye" (5.10) or "trixie" (6.12)."""

    def __init__(self, suite):
        layer = suite_layer(suite)
        self.leases, self.tree = layer.leases(), layer.path
        self.image = next(self.tree.glob("boot/vmlinuz-*"))
        self.release = self.image.name.removeprefix("vmlinuz-")

    def modules(self):
        """Without those that this kernel has built in."""
        built = (self.tree / "usr/lib/modules" / self.release / "modules.builtin").read_text()
        return super().modules([name for name in WANTED if f"/{name}.ko\n" not in built])
