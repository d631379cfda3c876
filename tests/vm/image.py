"""A whole Debian on a disk: the layers, and what a site would write into its image, as an ext4 file
system."""

import os

from lab.tree import OVERLAY_OPTIONS, run_script

from .initramfs import write_tree

BYTES = 1536 << 20

# Runs in a mount namespace of its own: no mount is left.
MAKE = r"""
set -eu
mkdir -p "$WORK/merged"
mount -t overlay overlay -o "lowerdir=$LOWER,$OVERLAY_OPTIONS" "$WORK/merged"
mke2fs -q -t ext4 -d "$WORK/merged" "$IMAGE"
"""

# A root shell for whoever started the machine: by connecting to the port that the kernel command line names
# (vm.control=).
SHELL_UNIT = r"""[Unit]
After=network-online.target
Wants=network-online.target
[Service]
Type=simple
ExecStart=/bin/bash -c 'port=$(sed "s/.*vm\\.control=\\([0-9]*\\).*/\\1/" /proc/cmdline); \
        until exec 3<>/dev/tcp/10.0.2.2/$$port; do sleep 1; done; exec /bin/bash <&3 >&3 2>&3'
[Install]
WantedBy=multi-user.target
"""


def build(folder, layer, files):
    """Writes FOLDER/root.img out of a layer and the site's own files. Returns its path."""
    top, image = folder / "site", folder / "root.img"
    top.mkdir(mode=0o755)
    units = {"/etc/systemd/system/vm-shell.service": SHELL_UNIT,
             "/etc/systemd/system/multi-user.target.wants/vm-shell.service": "-> ../vm-shell.service"}
    write_tree(top, {**units, **files})
    with open(image, "wb") as f:
        os.truncate(f.fileno(), BYTES)
    lower = ":".join(map(str, [top, *layer.stack()]))
    run_script(MAKE, {"WORK": folder, "LOWER": lower, "IMAGE": image, "OVERLAY_OPTIONS": OVERLAY_OPTIONS},
               "making the disk image")
    return image
