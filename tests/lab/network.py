"""The wires between hosts: a switch in a network namespace of the lab's own.

Two bridges, br0 for eth0 and br1 for eth1, carry 8896 bytes, like a tuned VPC. Hosts see NICs with the
untuned default of 1460 until something raises it. Faults are nftables rules on the switch's ports: a host
cannot see them, only suffer them, and they stay over a reboot of the host.
"""

import json

from .command import LabError, sh

NETWORK_MTU = 8896
UNTUNED_MTU = 1460
NICS = ("eth0", "eth1")
# nobody answers there until a test starts metadata.py in the switch's namespace
METADATA_ADDRESS = "169.254.169.254"

# The counter tells a test that its fault really hit packets.
RULES = """
table bridge lab {
    set cut { type ifname; }
    chain path_in { }
    chain path_out { }
    chain from_host {
        type filter hook prerouting priority 0; policy accept;
        iifname @cut counter drop
        jump path_in
    }
    chain to_host {
        type filter hook postrouting priority 0; policy accept;
        oifname @cut counter drop
        jump path_out
    }
    chain between { type filter hook forward priority 0; policy accept; }
}
"""


def address(nic, number):
    """Returns the IPv4 address of a host's NIC; number is the last octet."""
    return f"10.10.{NICS.index(nic)}.{number}"


def mac(nic, number):
    """Returns the MAC address of a host's NIC, made from its IPv4 address as Compute Engine does."""
    return "42:01:" + ":".join(f"{int(part):02x}" for part in address(nic, number).split("."))


def port(short, nic):
    """Returns the name of the switch port that the NIC of the host with this short name is plugged into."""
    return f"{short}p{NICS.index(nic)}"


def _batch(namespace, lines):
    sh("ip", "-n", namespace, "-batch", "-", input="\n".join(lines) + "\n")


def delete_namespace(name):
    """Removes a network namespace if it exists."""
    if name in sh("ip", "netns", "list").split():
        sh("ip", "netns", "del", name)


class Switch:
    def __init__(self, namespace):
        self.namespace = namespace
        self._path_mtu = {}

    def start(self):
        sh("ip", "netns", "add", self.namespace)
        lines = ["link set lo up"]
        for i, nic in enumerate(NICS):
            lines += [f"link add br{i} type bridge", f"link set br{i} mtu {NETWORK_MTU} up",
                      f"addr add {address(nic, 1)}/24 dev br{i}"]
        _batch(self.namespace, lines + [f"addr add {METADATA_ADDRESS}/32 dev br0"])
        self._nft(RULES)

    def _nft(self, text):
        sh("nsenter", f"--net=/run/netns/{self.namespace}", "nft", "-f", "-", input=text)

    def plug(self, namespace, short, number):
        """Makes a host's network namespace with its NICs, fresh as after a power cycle."""
        self.unplug(namespace, short)
        sh("ip", "netns", "add", namespace)
        ours, theirs = [], ["link set lo up"]
        for i, nic in enumerate(NICS):
            name = port(short, nic)
            ours += [f"link add {name} mtu {NETWORK_MTU} type veth peer name {nic} mtu {UNTUNED_MTU} "
                     f"address {mac(nic, number)} netns {namespace}",
                     f"link set {name} master br{i} up"]
            theirs += [f"link set {nic} up", f"addr add {address(nic, number)}/24 dev {nic}"]
        _batch(self.namespace, ours)
        _batch(namespace, theirs + [f"route add default via {address('eth0', 1)} dev eth0"])
        if self._path_mtu:
            self._no_segmentation(namespace)

    def unplug(self, namespace, short):
        # Deleting a namespace takes its links away some time later: the ports' names are needed at once.
        for nic in NICS:
            sh("ip", "-n", self.namespace, "link", "del", port(short, nic), check=False)
        delete_namespace(namespace)

    def cut(self, name):
        """Drops all packets of a port, both ways; the host keeps its carrier."""
        self._nft(f"add element bridge lab cut {{ {name} }}")

    def heal(self, name):
        """Takes every fault off a port."""
        self._nft(f"add element bridge lab cut {{ {name} }}; delete element bridge lab cut {{ {name} }}")
        self._path_mtu.pop(name, None)
        self._write_path_mtu()

    def spoil(self, one, other, percent):
        """Drops so many percent of the TCP packets between two ports of a bridge, both ways, in place of
        what was spoilt before; 0: none."""
        rules = ["flush chain bridge lab between"]
        some = f"numgen random mod 100 < {percent} " if percent < 100 else ""
        for a, b in ((one, other), (other, one)) if percent else ():
            rules.append(f'add rule bridge lab between iifname "{a}" oifname "{b}" ip protocol tcp '
                         f'{some}counter drop')
        self._nft("\n".join(rules))

    def drop(self, pairs):
        """Drops what goes from one port to another, for each pair (from, to), in place of what was dropped
        or spoilt before."""
        rules = [f'add rule bridge lab between iifname "{a}" oifname "{b}" counter drop' for a, b in pairs]
        self._nft("\n".join(["flush chain bridge lab between", *rules]))

    def lower_path_mtu(self, name, mtu, namespaces, way="both"):
        """Drops packets of more than mtu bytes (IP header included) at a port, silently: way is both, or
        to or from the host."""
        for namespace in namespaces:
            self._no_segmentation(namespace)
        self._path_mtu[name] = (mtu, way)
        self._write_path_mtu()

    def _write_path_mtu(self):
        rules = ["flush chain bridge lab path_in", "flush chain bridge lab path_out"]
        for name, (mtu, way) in self._path_mtu.items():
            if way in ("both", "from"):
                rules.append(f'add rule bridge lab path_in iifname "{name}" meta length > {mtu} counter drop')
            if way in ("both", "to"):
                rules.append(f'add rule bridge lab path_out oifname "{name}" meta length > {mtu} counter '
                             f'drop')
        self._nft("\n".join(rules))

    @staticmethod
    def _no_segmentation(namespace):
        # A veth hands 64 KiB bursts over unsplit: a rule by length would drop segments that fit the path.
        for nic in NICS:
            sh("nsenter", f"--net=/run/netns/{namespace}", "ethtool", "-K", nic, "tso", "off",
               "tx-udp-segmentation", "off")

    def dropped(self):
        """Returns how many packets were dropped: {"cut": by all cuts, PORT: by its path MTU}."""
        listing = json.loads(sh("nsenter", f"--net=/run/netns/{self.namespace}",
                                "nft", "-j", "list", "table", "bridge", "lab"))
        total = {"cut": 0}
        for item in listing["nftables"]:
            expr = item.get("rule", {}).get("expr", [])
            packets = sum(e["counter"]["packets"] for e in expr if "counter" in e)
            if packets:
                name = expr[0]["match"]["right"]
                name = "cut" if name == "@cut" else name
                total[name] = total.get(name, 0) + packets
        return total


def check_nic(nic):
    if nic not in NICS:
        raise LabError(f"no NIC {nic!r}: hosts have {' and '.join(NICS)}")
