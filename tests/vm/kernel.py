"""Debian's own kernel, kept beside the lab's other layers: the one that a TPU VM's image might carry."""

from pathlib import Path

from lab.command import LabError
from lab.prepare import whole
from lab.tree import BROUGHT, apt_layer, base_layer

PACKAGE = "linux-image-cloud-amd64"
WANTED = ("virtio_pci", "virtio_blk", "virtio_net")  # a machine's disk and its network


def kernel_layer():
    return apt_layer("kernel", base_layer(), "install", PACKAGE)


def packages_layer(debs):
    """On the kernel: .debs installed by apt into a tree that has not booted yet, as an image is made."""
    debs = whole(debs)
    names = (f"{BROUGHT}/{Path(deb).name}" for deb in debs)
    return apt_layer("vm", kernel_layer(), "install", *names, bring=debs)


def _only(found, what):
    found = list(found)
    if len(found) != 1:
        raise LabError(f"{what}: found {len(found)}, wanted one")
    return found[0]


class Kernel:
    """The files of the layer, which is built if need be; hold the object as long as they are used."""

    def __init__(self):
        layer = kernel_layer()
        self.leases, self.tree = layer.leases(), layer.path
        self.image = _only(self.tree.glob("boot/vmlinuz-*"), "kernels in the layer")
        self.initrd = _only(self.tree.glob("boot/initrd.img-*"), "initial file systems in the layer")
        self.release = self.image.name.removeprefix("vmlinuz-")

    def modules(self, wanted=WANTED):
        """The paths of those and what they need, each after those that it needs."""
        tree = self.tree / "usr/lib/modules" / self.release
        lines = dict(line.split(":") for line in (tree / "modules.dep").read_text().splitlines())
        needs = {Path(name).stem: (name, rest.split()) for name, rest in lines.items()}
        order = []

        def add(name):
            path, others = needs[name]
            for other in others:
                add(Path(other).stem)
            if tree / path not in order:
                order.append(tree / path)

        for name in wanted:
            if name not in needs:
                raise LabError(f"kernel {self.release} has no module {name}")
            add(name)
        return order
