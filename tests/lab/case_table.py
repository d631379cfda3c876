"""The cases. Those with a row are of the audit of version 0.1; the others are our own, from what DHCP
clients, containers, VPNs, bonds, people in a hurry and disks do."""

from dataclasses import dataclass


@dataclass
class Case:
    """name: with the row of the audit that it is from, else it is our own.
    do: a line of shell in h0, or a callable of the lab that does it.
    kind: what must follow:
      named     `tpuctl check` (path: or `check path`) says it in words that match; its remedy mends it
      repaired  the setting that `probe` prints is again what it was, without a person
      calm      it changes nothing for runs: no finding, and `probe` prints what the case made of it
      said      a line of `tpuctl check` says it in words that match, which is no fault
      refused   a run over both hosts does not start, and says why in words that match
    undo: a line of shell, or a callable, that takes away what the remedy does not (the cause outside this
    host).
    words: a regular expression that one new finding, as a line, must match.
    elsewhere: the mend is not on this host, and so the remedy is not typed here.
    """
    name: str
    do: object
    kind: str = "named"
    words: str = ""
    probe: str = ""
    undo: object = ""
    path: bool = False
    elsewhere: bool = False
    within: float = 20
    quick: bool = False


PEER, PEER1, GATEWAY, SELF = "10.10.0.11", "10.10.1.11", "10.10.0.1", "10.10.0.10"
RULES = "ip rule | sort"  # equal priorities in any order
ROUTES = f"ip -4 route show table all | sort; {RULES}"
MTU = "cat /sys/class/net/eth1/mtu"
STRICT = ("cat /proc/sys/net/ipv4/conf/all/rp_filter /proc/sys/net/ipv4/conf/eth1/rp_filter | sort -n | "
          "tail -n 1 | grep -c '^1$' || true")  # the kernel takes the greater
RMEM = "cat /proc/sys/net/ipv4/tcp_rmem"


def drop(port, host="h1", proto="tcp"):
    return lambda b: b.nft(f"table inet site {{ chain in {{ type filter hook input priority 0; "
                           f"{proto} dport {port} drop; }} }}", getattr(b, host))


def on_h1(script):
    return lambda b: b.h1.sh(script, timeout=60)


def no_case(why):
    raise ValueError(why)


def fighter(what):
    """A unit that sets something again each second."""
    unit = f"[Service]\\nExecStart=/bin/sh -c 'while :; do {what}; sleep 1; done'\\n"
    return (f"printf \"{unit}\" > /run/systemd/system/fighter.service; systemctl daemon-reload; "
            "systemctl start fighter")


NO_FIGHTER = "systemctl stop fighter; rm -f /run/systemd/system/fighter.service; systemctl daemon-reload"
CONTESTED = "contest|fighter"


def dropin(unit, text):
    return (f"mkdir -p /run/systemd/system/{unit}.d; printf '{text}' > "
            f"/run/systemd/system/{unit}.d/case.conf; "
            f"systemctl daemon-reload; systemctl restart {unit} --no-block; sleep 3")


def no_dropin(unit):
    return (f"rm -rf /run/systemd/system/{unit}.d; systemctl daemon-reload; systemctl reset-failed {unit}; "
            f"timeout 20 systemctl restart {unit}")


SETTINGS = [
    Case("mtu-lowered", "ip link set eth1 mtu 1460", "repaired", probe=MTU, quick=True),
    Case("mtu-lowered-eth0", "ip link set eth0 mtu 1460", "repaired", probe="cat /sys/class/net/eth0/mtu"),
    Case("tcp-rmem-back", "sysctl -qw net.ipv4.tcp_rmem='4096 87380 6291456'", "repaired", probe=RMEM,
         quick=True),
    Case("tcp-wmem-back", "sysctl -qw net.ipv4.tcp_wmem='4096 16384 4194304'", "repaired",
         probe="cat /proc/sys/net/ipv4/tcp_wmem"),
    Case("slow-start-after-idle", "sysctl -qw net.ipv4.tcp_slow_start_after_idle=1", "repaired",
         probe="cat /proc/sys/net/ipv4/tcp_slow_start_after_idle"),
    Case("rp-filter-strict", "sysctl -qw net.ipv4.conf.eth1.rp_filter=1 net.ipv4.conf.all.rp_filter=1",
         "repaired", probe=STRICT),
    Case("our-rule-deleted", "ip rule del $(ip rule | sed -n 's/^[0-9]*:\\t\\(from 10.*\\)/\\1/p' | head "
         "-1)",
         "repaired", probe=RULES),
    Case("our-table-flushed", "for t in $(ip rule | sed -n 's/.*from 10.*lookup \\([0-9]*\\).*/\\1/p'); "
         "do ip route flush "
         "table $t; done", "repaired", probe=ROUTES, quick=True),
    Case("row13-rule-flush", "ip rule flush", "repaired", probe=RULES, quick=True),
    Case("rule-flush-inet6", "ip -6 rule flush", "repaired", probe="ip -6 rule"),
    Case("all-at-once", "ip link set eth1 mtu 1460; sysctl -qw net.ipv4.tcp_rmem='4096 87380 6291456'; "
         "ip rule del $(ip rule | sed -n 's/^[0-9]*:\\t\\(from 10.*\\)/\\1/p' | head -1)", "repaired",
         probe=f"{MTU}; {RMEM}; {RULES}"),
    Case("link-flap", "ip -4 route show default > /run/d; ip link set eth1 down; sleep 1; ip link set eth1 "
         "up; "
         "sleep 2", "repaired", probe=f"{RULES}; {MTU}"),
    Case("hook-by-udev-name", "ip link add eth7 type veth peer name eth8; ip link del eth7",
         "repaired", probe=ROUTES),
]

ROUTING = [
    Case("row2-route-mtu-lock", f"ip route add {PEER} dev eth0 mtu lock 1400", words="1400", path=True,
         undo=f"ip route del {PEER}", quick=True),
    Case("row2-route-mtu-eth1", f"ip route add {PEER1} dev eth1 mtu lock 1400", words="1400", path=True,
         undo=f"ip route del {PEER1}"),
    Case("row2-default-route-mtu", f"ip route replace default via {GATEWAY} dev eth0 mtu 1460 advmss 1400",
         words="1460|1400", path=True),
    Case("row2-subnet-route-mtu", "ip route change 10.10.1.0/24 dev eth1 proto kernel scope link "
         "src 10.10.1.10 mtu 1500", words="1500", path=True),
    Case("row2-advmss-alone", f"ip route add {PEER} dev eth0 advmss 536", words="536", path=True,
         undo=f"ip route del {PEER}"),
    Case("row4-subnet-by-eth0", "ip route del 10.10.1.0/24 dev eth1; ip route add 10.10.1.0/24 dev eth0",
         words="eth0", path=True, undo="ip route del 10.10.1.0/24 dev eth0; ip route add 10.10.1.0/24 dev "
         "eth1 "
         "proto kernel scope link src 10.10.1.10"),
    Case("row4-more-specific", "ip route add 10.10.1.0/25 dev eth0", words="10.10.1.0/25", path=True,
         undo="ip route del 10.10.1.0/25", quick=True),
    Case("row4-host-route-wrong-nic", f"ip route add {PEER1} dev eth0", words="eth0", path=True,
         undo=f"ip route del {PEER1} dev eth0"),
    Case("row4-via-gateway", f"ip route add {PEER} via 10.10.0.1 dev eth0", words="10.10.0.1|gateway",
         path=True,
         undo=f"ip route del {PEER}"),
    Case("row5-blackhole", f"ip route add blackhole {PEER}", words="blackhole", path=True,
         undo=f"ip route del blackhole {PEER}", quick=True),
    Case("row5-unreachable", f"ip route add unreachable {PEER1}", words="unreachable", path=True,
         undo=f"ip route del unreachable {PEER1}"),
    Case("row5-prohibit-subnet", "ip route add prohibit 10.10.1.0/28", words="prohibit", path=True,
         undo="ip route del prohibit 10.10.1.0/28"),
    Case("rule-blackhole", f"ip rule add to {PEER} blackhole priority 10", words="blackhole|rule", path=True,
         undo="ip rule del priority 10"),
    Case("rule-to-other-table", f"ip route add default dev eth1 table 500; ip rule add to {PEER} lookup 500 "
         "priority 10", words="500", path=True, undo="ip rule del priority 10; ip route flush table 500"),
    Case("rule-throw-all", "ip rule add prohibit priority 11", words="prohibit|rule", path=True,
         undo="ip rule del priority 11"),
    Case("local-table-first", "ip route add unreachable 10.10.0.0/25", words="unreachable", path=True,
         undo="ip route del unreachable 10.10.0.0/25"),
    Case("peers-address-on-lo", f"ip addr add {PEER}/32 dev lo", words="local|own address|lo", path=True,
         undo=f"ip addr del {PEER}/32 dev lo"),
    Case("peers-address-on-dummy", f"ip link add dm0 type veth peer name dm1; ip link set dm0 "
         f"up; ip addr add {PEER1}/32 "
         "dev dm0", words="dm0|local", path=True, undo="ip link del dm0"),
    # which gateway or address it was knows whoever assigned it, here the lab: elsewhere
    Case("default-route-gone", "ip route del default", words="default", elsewhere=True,
         undo=f"ip route replace default via {GATEWAY} dev eth0"),
    Case("half-of-all-by-the-other-nic", "ip route add 0.0.0.0/1 via 10.10.1.1 dev eth1",
         words="0.0.0.0/1", undo="ip route del 0.0.0.0/1"),
    Case("gateway-unreachable-address", "ip route replace default via 10.10.0.250 dev eth0",
         words="10.10.0.250", elsewhere=True, undo=f"ip route replace default via {GATEWAY} dev eth0"),
    Case("neighbour-permanent-wrong", f"ip neigh replace {PEER} lladdr 02:00:00:00:00:99 dev eth0 nud "
         "permanent", words="02:00:00:00:00:99|neigh", path=True, undo=f"ip neigh del {PEER} dev eth0",
         quick=True),
    Case("arp-off", "ip link set eth1 arp off; ip neigh flush dev eth1", words="arp", path=True,
         undo="ip link set eth1 arp on"),
    Case("own-address-gone", "ip addr flush dev eth1", words="eth1", path=True, elsewhere=True,
         undo="ip addr add 10.10.1.10/24 dev eth1"),
    Case("second-address-same-subnet", "ip addr add 10.10.1.77/24 dev eth1", "calm", probe=ROUTES,
         undo="ip addr del 10.10.1.77/24 dev eth1"),
    # the NIC's own route comes first, and a longer prefix before a shorter: nothing changes for the run
    Case("same-subnet-on-two-nics", "ip addr add 10.10.1.78/24 dev eth0", "calm", path=True,
         undo="ip addr del 10.10.1.78/24 dev eth0"),
    Case("same-subnet-the-other-first", "ip addr add 10.10.1.78/24 dev eth0; ip route del 10.10.1.0/24 dev "
         "eth1; ip route append 10.10.1.0/24 dev eth1 proto kernel scope link src 10.10.1.10",
         words="eth0", path=True, undo="ip addr del 10.10.1.78/24 dev eth0"),
    Case("wide-mask", "ip addr add 10.10.0.10/16 dev eth0", "calm", path=True,
         undo="ip addr del 10.10.0.10/16 dev eth0"),
]

WIRES = [
    Case("row3-tbf", "tc qdisc replace dev eth1 root tbf rate 50mbit burst 64k latency 400ms", words="tbf",
         undo="tc qdisc del dev eth1 root", quick=True),
    Case("row3-tbf-small-burst", "tc qdisc replace dev eth0 root tbf rate 50mbit burst 1600 latency 5ms",
         words="tbf", path=True, undo="tc qdisc del dev eth0 root"),
    Case("netem-delay", "tc qdisc replace dev eth0 root netem delay 40ms", words="netem",
         undo="tc qdisc del dev eth0 root"),
    Case("netem-loss", "tc qdisc replace dev eth1 root netem loss 10%", words="netem",
         undo="tc qdisc del dev eth1 root"),
    Case("htb-class", "tc qdisc replace dev eth1 root handle 1: htb default 1; tc class add dev eth1 parent "
         "1: "
         "classid 1:1 htb rate 20mbit", words="htb", undo="tc qdisc del dev eth1 root"),
    Case("fq-is-no-limit", "tc qdisc replace dev eth1 root fq", "calm", undo="tc qdisc del dev eth1 root"),
    Case("loss-20-one-way", lambda b: b.nft("table inet site { chain in { type filter hook input priority "
         "0; numgen random mod 100 < 20 counter drop; } }", b.h1), words="loss|lost|lose", path=True,
         elsewhere=True),
    Case("peer-silent", on_h1("ip link set eth1 down"), words="h1", path=True, elsewhere=True),
    Case("path-mtu-black-hole", lambda b: b.lab.lower_path_mtu(b.h1, "eth1", 1500), words="1500|8896",
         path=True, elsewhere=True, quick=True, undo=lambda b: b.h1.heal("eth1")),
    Case("icmp-dropped-here", lambda b: b.nft("table inet site { chain out { type filter hook output "
         "priority 0; meta l4proto icmp drop; } }", b.h0), "calm"),
    Case("row12-8471-dropped", drop(8471), "refused", words="8471"),
    Case("row12-8476-dropped", drop(8476, "h0"), "refused", words="8476"),
    Case("udp-dropped-at-peer", drop("1024-65535", proto="udp"), "calm", path=True),  # a run speaks TCP
    Case("duplicate-address", on_h1(f"ip addr add {SELF}/24 dev eth0"), words="address|10.10.0.10",
         path=True,
         elsewhere=True),
    Case("link-down", "ip link set eth1 down", words="eth1.*down|down.*eth1", path=True,
         quick=True),
    Case("loopback-down", "ip link set lo down", words="lo\\b.*down|down", undo="ip link set lo up"),
    Case("mac-changed", "ip link set eth1 down; ip link set eth1 address 02:00:00:00:00:07; ip link set "
         "eth1 "
         "up; ip route add default via 10.10.1.1 dev eth1 metric 1024 || true", "calm"),
    Case("nic-renamed", "ip link set eth1 down; ip link set eth1 name data1; ip link set data1 up",
         words="eth1|data1", undo="ip link set data1 down; ip link set data1 name eth1; ip link set eth1 up",
         elsewhere=True),
    # nobody talks to the world: tpu-netcfg alone has the kernel ask, twice a minute
    Case("gateway-silent", lambda b: b.nft("table netdev site { chain out { type filter hook ingress "
         "device eth0 priority 0; arp saddr ip 10.10.0.1 drop; ip saddr 10.10.0.1 drop; } }", b.h0),
         words="gateway|10.10.0.1\\b", elsewhere=True, within=100),
]

BYSTANDERS = [
    Case("docker-bridge", "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link "
         "set "
         "docker0 up", "calm", probe=ROUTES, undo="ip link del docker0", quick=True),
    Case("vpn-route", "ip link add wg0 type veth peer name wg1; ip addr add 100.64.0.1/32 dev "
         "wg0; ip link set wg0 up; "
         "ip route add 100.64.0.0/10 dev wg0", "calm", probe=ROUTES, undo="ip link del wg0"),
    Case("vpn-policy-rules", "ip rule add fwmark 0x80000/0xff0000 lookup main priority 5210; ip rule add "
         "lookup 52 priority 5270", "calm", probe=ROUTES, undo="ip rule del priority 5210; ip rule del "
         "priority 5270"),
    Case("veth-of-a-container", "ip link add vh type veth peer name vc; ip link set vh up", "calm",
         probe=ROUTES,
         undo="ip link del vh"),
    Case("vlan", "ip link add link eth1 name eth1.5 type vlan id 5; ip link set eth1.5 up", "calm",
         probe=ROUTES, undo="ip link del eth1.5"),
    Case("macvlan", "ip link add mv0 link eth1 type macvlan mode bridge; ip link set mv0 up", "calm",
         probe=ROUTES, undo="ip link del mv0"),
    Case("ipv6-address", "ip -6 addr add fd00::5/64 dev eth0", "calm",
         undo="ip -6 addr del fd00::5/64 dev eth0"),
    Case("hundred-routes", "for i in $(seq 1 100); do ip route add 192.168.$i.0/24 via 10.10.0.1; done",
         "calm", probe=ROUTES, undo="for i in $(seq 1 100); do ip route del 192.168.$i.0/24; done"),
    Case("dhcp-renewal", "ip addr change 10.10.0.10/24 dev eth0 valid_lft 3600 preferred_lft 3600; ip addr "
         "change 10.10.0.10/24 dev eth0", "calm", probe=ROUTES),
    Case("promiscuous", "ip link set eth1 promisc on", "calm", undo="ip link set eth1 promisc off"),
    Case("conntrack-accept-all", lambda b: b.nft("table inet site { chain in { type filter hook input "
         "priority 0; tcp dport 22 accept; } }", b.h0), "calm"),
    Case("bridge-with-a-rule", "ip rule add from 172.18.0.0/16 lookup 77 priority 200; ip route add default "
         "via 10.10.0.1 table 77", "calm", probe=ROUTES, undo="ip rule del priority 200; ip route flush "
         "table 77"),
]

# Of a second list: what DHCP clients, VPNs, containers and people in a hurry do beside.
TUN = "ip tuntap add dev tun0 mode tun; ip addr add 10.8.0.2/24 dev tun0; ip link set tun0 up"
NEWCOMERS = [
    Case("bridge-over-part-of-the-subnet", "ip link add br9 type bridge; ip link set br9 up; ip addr add "
         "10.10.1.1/25 dev br9", words="br9", path=True, undo="ip link del br9"),
    Case("bridge-with-the-same-subnet", "ip link add br9 type bridge; ip link set br9 up; ip addr add "
         "10.10.1.200/24 dev br9", "calm", path=True, undo="ip link del br9"),
    Case("vpn-takes-everything", f"{TUN}; ip route add 0.0.0.0/1 dev tun0; ip route add 128.0.0.0/1 dev "
         "tun0", words="0.0.0.0/1", undo="ip link del tun0"),
    Case("vpn-takes-the-subnet", f"{TUN}; ip route add 10.10.1.0/25 dev tun0", words="10.10.1.0/25",
         path=True, undo="ip link del tun0"),
    Case("vpn-by-a-rule", f"{TUN}; ip route add default dev tun0 table 51820; ip rule add not fwmark 51820 "
         "lookup 51820 priority 99; ip rule add lookup main suppress_prefixlength 0 priority 98",
         words="51820", path=True,
         undo="ip rule del priority 99; ip rule del priority 98; ip link del tun0"),
    Case("dhcp-rewrites-routes", "ip route replace default via 10.10.0.1 dev eth0 proto dhcp src 10.10.0.10 "
         "metric 100; ip route del default metric 0; ip route replace 10.10.0.0/24 dev eth0 proto dhcp "
         "scope link src 10.10.0.10 metric 100", "calm", path=True),
    Case("multicast-off", "ip link set eth1 multicast off", "calm", path=True,
         undo="ip link set eth1 multicast on"),
    Case("gro-off", "ethtool -K eth1 gro off", "calm"),  # no profile asks for it
    Case("port-range-over-ours", "sysctl -qw net.ipv4.ip_local_port_range='8400 9000'", words="8400-9000",
         undo="sysctl -qw net.ipv4.ip_local_port_range='32768 60999' net.ipv4.ip_local_reserved_ports="),
    Case("fragments-dropped", lambda b: b.nft("table ip site { chain in { type filter hook input priority "
         "0; ip frag-off & 0x1fff != 0 drop; } }", b.h1), "calm", path=True),
    Case("too-big-dropped", lambda b: b.nft("table ip site { chain in { type filter hook input priority 0; "
         "icmp type destination-unreachable drop; } }", b.h0), "calm", path=True),
    Case("echo-ignored-at-peer", on_h1("sysctl -qw net.ipv4.icmp_echo_ignore_all=1"), words="h1", path=True,
         elsewhere=True, undo=on_h1("sysctl -qw net.ipv4.icmp_echo_ignore_all=0")),
    Case("peer-is-narrow", on_h1("systemctl stop tpu-netcfg.socket tpu-netcfg; ip link set eth1 mtu 1460"),
         words="1460", path=True, elsewhere=True, undo=on_h1("systemctl start tpu-netcfg")),
    Case("arp-unanswered", "sysctl -qw net.ipv4.conf.all.arp_ignore=8", words="arp_ignore",
         undo="sysctl -qw net.ipv4.conf.all.arp_ignore=0", within=40),
    Case("hosts-file-emptied", "cp /etc/hosts /run/hosts; sed -i '/h1/d' /etc/hosts; systemctl restart "
         "tpu-hostd", words="h1", path=True, elsewhere=True,
         undo="cp /run/hosts /etc/hosts; systemctl restart tpu-hostd"),
    Case("ipv6-unreachable", "ip -6 route add unreachable fd00::/16", "calm", path=True,
         undo="ip -6 route del unreachable fd00::/16"),
]

DAEMONS = [
    Case("row6-netcfg-dead", "systemctl kill -s KILL tpu-netcfg; systemctl stop tpu-netcfg "
         "tpu-netcfg.socket",
         words="netcfg", quick=True),
    Case("row6-netcfg-crash-loop", dropin("tpu-netcfg.service",
         "[Service]\\nExecStart=\\nExecStart=/bin/false\\n"),
         words="netcfg", undo=no_dropin("tpu-netcfg.service"), elsewhere=True),
    Case("netcfg-stopped-by-signal", "systemctl kill -s STOP tpu-netcfg", words="netcfg",
         undo="systemctl kill -s CONT tpu-netcfg", within=90),
    Case("launchd-dead", "systemctl stop tpu-launchd.socket tpu-launchd", words="launchd"),
    Case("launchd-stopped-by-signal", "systemctl kill -s STOP tpu-launchd", words="launchd",
         undo="systemctl kill -s CONT tpu-launchd", within=90),
    # its socket alone would start it again with the next question
    Case("hostd-dead", "systemctl stop tpu-hostd.socket tpu-hostd", words="hostd", quick=True),
    Case("hostd-stopped-by-a-person", "systemctl stop tpu-hostd; tpuctl status || true", "repaired",
         probe="systemctl is-active tpu-hostd"),
    Case("hostd-stopped-by-signal", "systemctl kill -s STOP tpu-hostd", words="hostd",
         undo="systemctl kill -s CONT tpu-hostd", within=90),
    # daemon.state is OK, "switched off by a person"; the fleet says that the host is silent
    Case("hostd-masked", "systemctl mask --runtime -q --now tpu-hostd", "calm",
         undo="systemctl unmask --runtime -q tpu-hostd; systemctl start tpu-hostd"),
    Case("row8-hostd-state-read-only", "mount --bind /var/lib/tpu-hostd /var/lib/tpu-hostd; mount -o "
         "remount,ro,bind /var/lib/tpu-hostd; systemctl restart --no-block tpu-hostd; sleep 2",
         words="read-only|/var/lib/tpu-hostd", undo="umount /var/lib/tpu-hostd; systemctl restart tpu-hostd",
         elsewhere=True),
    Case("row8-launchd-state-read-only", "mount --bind /var/lib/tpu-launchd /var/lib/tpu-launchd; mount -o "
         "remount,ro,bind /var/lib/tpu-launchd; systemctl restart --no-block tpu-launchd; sleep 2",
         words="read-only|/var/lib/tpu-launchd",
         undo="umount /var/lib/tpu-launchd; systemctl restart tpu-launchd", elsewhere=True),
    Case("disk-full", "mount -t tmpfs -o size=64k tmpfs /var/lib/tpu-hostd; head -c 70000 /dev/zero > "
         "/var/lib/tpu-hostd/fill; systemctl restart --no-block tpu-hostd; sleep 2", words="full|space|disk",
         undo="systemctl stop tpu-hostd; umount -l /var/lib/tpu-hostd; systemctl start tpu-hostd",
         elsewhere=True),
    Case("row13-run-directory-deleted", "rm -rf /run/tpu-hostd", words="/run/tpu-hostd|hostd"),
    Case("launchd-run-directory-deleted", "rm -rf /run/tpu-launchd", words="launchd"),
    Case("netcfg-run-directory-deleted", "rm -rf /run/tpu-netcfg", words="netcfg"),
    Case("row13-launchd-without-descriptors", dropin("tpu-launchd.service", "[Service]\\nLimitNOFILE=16\\n"),
         words="launchd|descriptor|files", undo=no_dropin("tpu-launchd.service"), elsewhere=True),
    Case("row13-journald-stopped", "systemctl stop systemd-journald.socket systemd-journald-dev-log.socket "
         "systemd-journald-audit.socket systemd-journald", words="journal", quick=True,
         undo="systemctl start systemd-journald.socket systemd-journald-dev-log.socket systemd-journald"),
    Case("dbus-stopped", lambda b: no_case("the lab's own commands go over the bus")),
    Case("collector-gone", lambda b: b.lab.collector.sh("systemctl stop tpu-collectord"),
         words="collector|uplink|registry|4318", elsewhere=True, within=90,
         undo=lambda b: b.lab.collector.sh("systemctl start tpu-collectord")),
    Case("hostd-under-memory-limit", dropin("tpu-hostd.service", "[Service]\\nMemoryMax=3M\\n"),
         words="hostd", undo=no_dropin("tpu-hostd.service"), elsewhere=True, within=60),
]

# the kernel of the lab lets nobody trace functions: who sets it is named, and stopped, in tests/vm
CONTEST = [
    Case("row7-contested-sysctl", fighter("sysctl -qw net.ipv4.tcp_slow_start_after_idle=1"),
         words=CONTESTED, elsewhere=True, undo=NO_FIGHTER, within=90, quick=True),
    Case("row7-contested-mtu", fighter("ip link set eth1 mtu 1460"), words=CONTESTED, elsewhere=True,
         undo=NO_FIGHTER, within=90),
    # eth0's: that eth1 has no gateway in the lab is said of it all along
    Case("row7-contested-rule", fighter("ip rule del from 10.10.0.10"), words=CONTESTED, elsewhere=True,
         undo=NO_FIGHTER, within=90),
    Case("row1-after-once", fighter("sysctl -qw net.ipv4.tcp_slow_start_after_idle=1") +
         f"; sleep 20; {NO_FIGHTER}; tpu-netcfg --once; sleep 70; "
         "sysctl -qw net.ipv4.tcp_slow_start_after_idle=1", "repaired",
         probe="cat /proc/sys/net/ipv4/tcp_slow_start_after_idle"),
]

SITE = "mkdir -p /etc/tpu-hostd/{0}.conf.d; printf '{1}\\n' > /etc/tpu-hostd/{0}.conf.d/90-x.conf"
IDENTITY = [
    Case("row10-name-of-another-host", "sed -i 's/^10.10.0.11 h1$/10.10.0.100 h1/' /etc/hosts; systemctl "
         "restart tpu-hostd", words="h1", path=True, within=60,
         undo="sed -i 's/^10.10.0.100 h1$/10.10.0.11 h1/' /etc/hosts; systemctl restart tpu-hostd",
         elsewhere=True),
    Case("row10-lists-differ", "sed -i 's/WorkerHostnames=.*/WorkerHostnames=h0,h9/' "
         "/etc/tpu-hostd/identity.conf.d/10-site.conf; systemctl restart tpu-hostd", words="h9|list|worker",
         path=True, within=60, undo="sed -i 's/WorkerHostnames=.*/WorkerHostnames=h0,h1/' "
         "/etc/tpu-hostd/identity.conf.d/10-site.conf; systemctl restart tpu-hostd", elsewhere=True),
    Case("row9-one-machine-id-twice", lambda b: b.become(b.h1.read("/etc/machine-id")),
         undo=lambda b: b.become(b.machine_id),
        words="machine.id|same_machine|this host .machine", within=60, elsewhere=True),
    Case("worker-id-twice", "sed -i 's/WorkerId=.*/WorkerId=1/' "
         "/etc/tpu-hostd/identity.conf.d/10-site.conf; "
         "systemctl restart tpu-hostd", words="worker", within=60, elsewhere=True,
         undo="sed -i 's/WorkerId=.*/WorkerId=0/' /etc/tpu-hostd/identity.conf.d/10-site.conf; "
         "systemctl restart tpu-hostd"),
    Case("slice-name-differs", "sed -i 's/SliceName=.*/SliceName=other/' "
         "/etc/tpu-hostd/identity.conf.d/10-site.conf; systemctl restart tpu-hostd",
         words="worker 1 .*missing",
         within=120, elsewhere=True, undo="sed -i 's/SliceName=.*/SliceName=s0/' "
         "/etc/tpu-hostd/identity.conf.d/10-site.conf; systemctl restart tpu-hostd"),
    Case("unknown-key", SITE.format("hostd", "[Hostd]\\nNosuch=1") + "; systemctl restart tpu-hostd",
         words="Nosuch", undo="rm -f /etc/tpu-hostd/hostd.conf.d/90-x.conf; systemctl restart tpu-hostd"),
    Case("wrong-value", SITE.format("hostd", "[Hostd]\\nMetricsInterval=often") +
         "; systemctl restart tpu-hostd", words="MetricsInterval",
         undo="rm -f /etc/tpu-hostd/hostd.conf.d/90-x.conf; systemctl restart tpu-hostd"),
    Case("wrong-value-before-a-restart", SITE.format("netcfg", "[Netcfg]\\nMode=sometimes"),
         words="Mode=sometimes", undo="rm -f /etc/tpu-hostd/netcfg.conf.d/90-x.conf"),
    Case("settings-in-a-file-that-nobody-reads", "printf '[Hostd]\\nMetricsInterval=9s\\n' > "
         "/etc/tpu-hostd/hostd.conf.bak", words="hostd.conf.bak is not read", elsewhere=True,
         undo="rm -f /etc/tpu-hostd/hostd.conf.bak"),
    Case("observe-mode", SITE.format("netcfg", "[Netcfg]\\nMode=observe") +
         "; systemctl restart tpu-netcfg; sleep 1; ip link set eth1 mtu 1460", words="1460",
         undo="rm -f /etc/tpu-hostd/netcfg.conf.d/90-x.conf; systemctl restart tpu-netcfg"),
    Case("observe-ordered", "tpuctl mode observe 'a look first'", "said",
         words="OK daemon.mode tpu-netcfg observes .*not repaired", undo="tpuctl mode repair"),
]

MACHINE = [
    # a run of somebody else's is adopted, and no fault; the next one waits for the chips
    Case("chips-held", "systemd-run -q --unit holder python3 -c 'import os,time; "
         "f=os.open(\"/dev/accel0\",os.O_RDONLY); time.sleep(600)'; sleep 1", "calm",
         undo="systemctl stop holder"),
    Case("stale-lockfile", "touch /tmp/libtpu_lockfile; chown nobody /tmp/libtpu_lockfile", words="lockfile",
         undo="rm -f /tmp/libtpu_lockfile"),
    Case("clock-ahead-of-peers", lambda b: no_case("one kernel has one clock: tests/hostd has the case")),
    Case("tmp-debugging-of-another", "mkdir -p /tmp/debugging; chmod 0700 /tmp/debugging; chown nobody "
         "/tmp/debugging", "calm", undo="rm -rf /tmp/debugging"),
    Case("proxy-in-the-environment", "touch /etc/environment; printf 'http_proxy=http://proxy:3128\\n' >> "
         "/etc/environment", words="proxy", undo="sed -i /proxy:3128/d /etc/environment", elsewhere=True),
    Case("many-processes", "systemd-run -q --unit many sh -c 'for i in $(seq 1 500); do sleep 60 & done; "
         "wait'", "calm", undo="systemctl stop many"),
]

# Of a third list, written before anything was looked at: what stands between a run's process and the wire,
# and what the process meets on its host.
LISTEN = "python3 -c 'import socket,time; s=socket.create_server((str(),{})); time.sleep(600)'"
UNSEEN = [
    Case("listener-on-the-coordinators-port", f"systemd-run -q --unit squatter {LISTEN.format(8476)}; "
         "sleep 1", words="8476.*squatter", undo="systemctl stop squatter"),
    Case("listener-of-a-person", f"systemd-run -q --scope --unit shell {LISTEN.format(8471)} >/dev/null "
         "2>&1 </dev/null & sleep 2", words="8471.*pid", undo="systemctl stop shell.scope"),
    Case("listener-on-a-port-of-metrics", f"systemd-run -q --unit squatter {LISTEN.format(8433)}; sleep 1",
         words="8433.*squatter", undo="systemctl stop squatter"),
    Case("range-over-ours-with-reserved", "sysctl -qw net.ipv4.ip_local_reserved_ports=8080; sysctl -qw "
         "net.ipv4.ip_local_port_range='1024 65535'", words="1024-65535.*8080",
         undo="sysctl -qw net.ipv4.ip_local_reserved_ports= net.ipv4.ip_local_port_range='32768 60999'"),
    Case("tcp-dropped-at-the-peer", drop(8471), words="8471.*(filter|firewall)", path=True, elsewhere=True),
    Case("tcp-dropped-on-its-way-out", lambda b: b.nft("table inet site { chain out { type filter hook "
         "output priority 0; tcp dport 8471 drop; } }", b.h0), words="8471.*this host", path=True,
         elsewhere=True),
    Case("tcp-dropped-on-its-way-in", drop(8471, "h0"), words="8471.*this host", path=True,
         elsewhere=True),
    Case("all-but-tcp-passes", lambda b: b.nft("table inet site { chain in { type filter hook input "
         "priority 0; ip saddr 10.10.1.10 meta l4proto tcp drop; } }", b.h1), words="h1.*TCP|TCP.*h1",
         path=True, elsewhere=True),
    Case("ipsec-policy-blocks", f"ip xfrm policy add src 0.0.0.0/0 dst {PEER}/32 dir out action block",
         words="xfrm|policy", path=True, elsewhere=True, undo="ip xfrm policy flush"),
    Case("ipsec-policy-without-a-key", f"ip xfrm policy add src 0.0.0.0/0 dst {PEER1}/32 dir out tmpl src "
         f"10.10.1.10 dst {PEER1} proto esp mode transport", words="xfrm|policy", path=True,
         elsewhere=True, undo="ip xfrm policy flush"),
    Case("bridge-takes-the-nic", "ip link add br9 type bridge; ip link set br9 up; ip link set eth1 master "
         "br9", words="br9", path=True, undo="ip link set eth1 nomaster; ip link del br9"),
    Case("vrf-takes-the-nic", "ip link add red type vrf table 10; ip link set red up; ip link set eth1 "
         "master red", words="red", path=True, undo="ip link set eth1 nomaster; ip link del red"),
    Case("bond-takes-the-nic", "ip link add bond0 type bond; ip link set eth1 down; ip link set eth1 master "
         "bond0; ip link set bond0 up", words="bond0", path=True,
         undo="ip link set eth1 nomaster; ip link del bond0; ip link set eth1 up"),
    Case("macvlan-with-the-address", "ip link add mv0 link eth1 type macvlan mode bridge; ip link set mv0 "
         "up; ip addr add 10.10.1.12/24 dev mv0", "calm", path=True, undo="ip link del mv0"),
    Case("ingress-filter-drops", "tc qdisc add dev eth1 clsact; tc filter add dev eth1 ingress matchall "
         "action drop", words="eth1.*(ingress|filter)", path=True, undo="tc qdisc del dev eth1 clsact"),
    Case("egress-filter-drops-some", "tc qdisc add dev eth1 clsact; tc filter add dev eth1 egress protocol "
         "ip u32 match ip dport 8471 0xffff action drop", words="eth1.*(egress|filter)", path=True,
         undo="tc qdisc del dev eth1 clsact"),
    Case("queue-of-one-packet", "tc qdisc replace dev eth1 root pfifo limit 1", words="pfifo",
         undo="tc qdisc del dev eth1 root"),
    Case("route-with-a-small-window", f"ip route add {PEER} dev eth0 window 2000", words="window",
         path=True, undo=f"ip route del {PEER}"),
    Case("route-with-a-locked-cwnd", f"ip route add {PEER1} dev eth1 cwnd lock 2", words="cwnd",
         path=True, undo=f"ip route del {PEER1}"),
    Case("subnet-over-both-nics", "ip route replace 10.10.1.0/24 nexthop dev eth1 nexthop dev eth0",
         words="eth0", path=True, undo="ip route replace 10.10.1.0/24 dev eth1 proto kernel scope link src "
         "10.10.1.10"),
    Case("mark-leads-away", lambda b: (b.nft("table ip site { chain out { type route hook output priority "
         "-150; tcp dport 8471 meta mark set 7; } }", b.h0), b.h0.sh("ip route add blackhole default table "
         "77; ip rule add fwmark 7 lookup 77 priority 50")), words="8471.*this host", path=True,
         elsewhere=True, undo="ip rule del priority 50; ip route flush table 77"),
    Case("peers-second-address-leads-nowhere", "ip -6 addr add 2001:db8:99::5/64 dev eth0 nodad; "
         "sed -i '1i 2001:db8:99::1 h1' /etc/hosts", words="2001:db8:99::1", path=True, elsewhere=True,
         undo="sed -i /2001:db8:99/d /etc/hosts; ip -6 addr del 2001:db8:99::5/64 dev eth0"),
    Case("host-name-changed", "hostname elsewhere", words="elsewhere", path=True,
         undo="hostname h0; sed -i '/ elsewhere$/d' /etc/hosts"),
    Case("own-name-is-loopback", "cp /etc/hosts /run/hosts; sed -i '/ h0$/d' /etc/hosts; echo 127.0.1.1 h0 "
         ">> /etc/hosts", words="127.0.1.1", path=True, undo="cp /run/hosts /etc/hosts"),
    Case("names-by-a-resolver-that-is-away", "cp -L /etc/nsswitch.conf /run/nss; sed -i 's/^hosts:.*/hosts: "
         "dns/' /etc/nsswitch.conf; cp /etc/resolv.conf /run/resolv; echo nameserver 192.0.2.1 > "
         "/etc/resolv.conf", words="h1.*(resolver|name)", path=True, elsewhere=True,
         undo="cp /run/nss /etc/nsswitch.conf; cp /run/resolv /etc/resolv.conf"),
    Case("shared-memory-is-small", "mount -o remount,size=64k /dev/shm", words="/dev/shm",
         undo="mount -o remount,size=50% /dev/shm", within=40),
    Case("shared-memory-is-full", lambda b: no_case("it takes a tenth of this machine")),
    Case("tmp-is-read-only", "mount -o remount,ro /tmp", words="/tmp", undo="mount -o remount,rw /tmp",
         within=40),
    Case("services-on-one-core", "taskset -cp 0 1", words="CPU|core", undo="taskset -cp 0-63 1"),
    Case("runs-on-few-tasks", "systemctl set-property --runtime tpu-run.slice TasksMax=20",
         words="TasksMax", undo="systemctl revert tpu-run.slice"),
    Case("window-scaling-off", "sysctl -qw net.ipv4.tcp_window_scaling=0", words="tcp_window_scaling",
         undo="sysctl -qw net.ipv4.tcp_window_scaling=1"),
    Case("selective-acks-off", "sysctl -qw net.ipv4.tcp_sack=0", words="tcp_sack",
         undo="sysctl -qw net.ipv4.tcp_sack=1"),
    Case("sysctl-file-wins-after-boot", "echo 'net.ipv4.tcp_rmem=4096 87380 6291456' > "
         "/etc/sysctl.d/99-x.conf; systemctl restart systemd-sysctl", "repaired", probe=RMEM,
         undo="rm /etc/sysctl.d/99-x.conf"),
    Case("processes-are-hidden", "mount -o remount,hidepid=2 /proc", "calm",
         undo="mount -o remount,hidepid=0 /proc"),
    Case("chip-closed-to-users", "chmod 0600 /dev/accel0", words="accel0", undo="chmod 0666 /dev/accel0",
         within=40),
    Case("chips-node-gone", "mv /dev/accel0 /dev/was0", words="accel0", elsewhere=True,
         undo="mv /dev/was0 /dev/accel0", within=40),
    Case("connection-table-is-full", lambda b: no_case("nf_conntrack_max is the machine's alone")),
    Case("neighbour-table-is-full", lambda b: no_case("gc_thresh3 is the machine's alone")),
]

# Of a fourth list, written before anything was looked at: what an image's hardening, cloud-init, a DHCP
# client, a firewall that is switched on and a person with ssh leave behind.
MANAGER = ("mkdir -p /run/systemd/system.conf.d; printf '[Manager]\\n{}\\n' > "
           "/run/systemd/system.conf.d/10-hardening.conf; systemctl daemon-reexec; sleep 1")
NO_MANAGER = ("rm -f /run/systemd/system.conf.d/10-hardening.conf /etc/systemd/system.conf.d/zz-Default*; "
              "systemctl daemon-reexec; sleep 1")
BLIND = [
    Case("tmp-closed-to-others", "chmod 0755 /tmp", words="/tmp.*0755", undo="chmod 1777 /tmp", within=40),
    Case("tmp-without-programs", "mount -o remount,noexec /tmp", words="/tmp.*noexec",
         undo="mount -o remount,exec /tmp", within=40),
    Case("tmp-is-full", "mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp; head -c 2m /dev/zero > /tmp/fill "
         "|| true", words="disk.space /tmp", elsewhere=True, undo="umount -l /tmp", within=40),
    Case("shared-memory-without-programs", "mount -o remount,noexec /dev/shm", "calm",
         undo="mount -o remount,exec /dev/shm"),
    Case("null-device-closed", "chmod 0600 /dev/null", words="/dev/null.*0600", undo="chmod 0666 /dev/null",
         within=40),
    Case("tasks-of-each-service", MANAGER.format("DefaultTasksMax=64"), words="DefaultTasksMax=64",
         undo=NO_MANAGER),
    Case("processes-of-each-service", MANAGER.format("DefaultLimitNPROC=100"),
         words="DefaultLimitNPROC=100", undo=NO_MANAGER),
    Case("runs-on-little-memory", "systemctl set-property --runtime tpu-run.slice MemoryMax=1G",
         words="MemoryMax", undo="systemctl revert tpu-run.slice"),
    Case("runs-on-a-tenth-of-a-core", "systemctl set-property --runtime tpu-run.slice CPUQuota=10%",
         words="CPUQuota", undo="systemctl revert tpu-run.slice"),
    Case("own-name-is-another-hosts", "cp /etc/hosts /run/hosts; sed -i '/ h0$/d' /etc/hosts; echo "
         "10.10.0.77 h0 >> /etc/hosts", words="10.10.0.77", path=True, undo="cp /run/hosts /etc/hosts"),
    Case("host-is-called-localhost", "hostname localhost", words="called localhost", path=True,
         undo="hostname h0"),
    Case("localhost-gone", "ip addr del 127.0.0.1/8 dev lo", words="nic.link lo", path=True,
         undo="ip addr replace 127.0.0.1/8 dev lo"),
    Case("runs-told-to-use-cpus", "touch /etc/environment; echo JAX_PLATFORMS=cpu >> /etc/environment",
         words="JAX_PLATFORMS", undo="sed -i /^JAX_PLATFORMS/d /etc/environment"),
    Case("firewall-lets-ssh-in-alone", lambda b: b.nft("table inet filter { chain input { type filter hook "
         "input priority 0; policy drop; iif lo accept; meta l4proto icmp accept; tcp dport 22 accept; tcp "
         "sport 4318 accept; tcp sport 9471 accept; tcp sport 8471 accept; } }", b.h0), "refused",
         words="84[78]\\d"),
    Case("host-forwards", "sysctl -qw net.ipv4.ip_forward=1", "calm",
         undo="sysctl -qw net.ipv4.ip_forward=0"),
    Case("memory-only-as-it-is-there", lambda b: no_case("vm.overcommit_memory is the machine's alone")),
    Case("daemon-restarted-once", "systemctl kill -s KILL tpu-launchd; sleep 4", "calm", path=True),
]

# Of a fifth list, written against the first four: what routes, queues, NICs and names have beside that.
BY_ROUTES = SITE.format("netcfg", "[Netcfg]\\nRtoMin=routes") + "; systemctl restart tpu-netcfg; sleep 2; "
NO_BY_ROUTES = "rm -f /etc/tpu-hostd/netcfg.conf.d/90-x.conf; systemctl restart tpu-netcfg"
ODD = [
    Case("narrow-route-that-has-more", BY_ROUTES + f"ip route replace default via {GATEWAY} dev eth0 mtu "
         "1460 initcwnd 40 congctl reno", words="1460.*initcwnd 40", path=True,
         undo=f"{NO_BY_ROUTES}; ip route replace default via {GATEWAY} dev eth0"),
    Case("route-with-few-hops", f"ip route add {PEER} dev eth0 hoplimit 1", words="hoplimit 1",
         undo=f"ip route del {PEER}"),
    Case("route-with-a-small-start", "ip route change 10.10.1.0/24 dev eth1 proto kernel scope link src "
         "10.10.1.10 initcwnd 1", words="initcwnd 1"),
    Case("route-with-its-own-congestion-control", f"ip route add {PEER} dev eth0 congctl reno", "said",
         words="OK route.mtu .*congctl reno", undo=f"ip route del {PEER}"),
    Case("retries-are-few", "sysctl -qw net.ipv4.tcp_retries2=3", words="tcp_retries2",
         undo="sysctl -qw net.ipv4.tcp_retries2=15"),
    Case("timestamps-off", "sysctl -qw net.ipv4.tcp_timestamps=0", words="tcp_timestamps",
         undo="sysctl -qw net.ipv4.tcp_timestamps=1"),
    Case("send-buffers-are-small", "sysctl -qw net.ipv4.tcp_wmem='4096 16384 65536'", words="tcp_wmem",
         undo="sysctl -qw net.ipv4.tcp_wmem='4096 16384 4194304'"),
    Case("packets-end-after-few-hops", "sysctl -qw net.ipv4.ip_default_ttl=4", words="ip_default_ttl",
         undo="sysctl -qw net.ipv4.ip_default_ttl=64"),
    Case("own-name-is-a-bridge", "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; "
         "ip link set docker0 up; cp /etc/hosts /run/hosts; sed -i '/ h0$/d' /etc/hosts; echo 172.17.0.1 h0 "
         ">> /etc/hosts", words="172.17.0.1.*bridge for containers",
         undo="ip link del docker0; cp /run/hosts /etc/hosts"),
    Case("fair-queue-of-one-packet", "tc qdisc replace dev eth1 root fq_codel limit 1",
         words="fq_codel limit 1", undo="tc qdisc del dev eth1 root"),
    Case("queue-by-txqueuelen", "ip link set dev eth1 txqueuelen 2; tc qdisc replace dev eth1 root "
         "pfifo_fast", words="txqueuelen 2",
         undo="tc qdisc del dev eth1 root; ip link set dev eth1 txqueuelen 1000"),
    Case("subnet-by-a-nexthop-object", f"ip nexthop add id 12 via {GATEWAY} dev eth0; ip route add "
         "10.10.1.0/25 nhid 12", words="10.10.1.0/25", path=True,
         undo="ip route del 10.10.1.0/25 nhid 12; ip nexthop del id 12"),
]

# Of a sixth list, against the first five: what is set beside what the checks had looked at.
RUNS = "/sys/fs/cgroup/tpu.slice/tpu-run.slice"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
BESIDE = [
    # where the machine's kernel has neither, it is no case
    Case("congestion-control-yields", "sysctl -qw net.ipv4.tcp_congestion_control=lp || sysctl -qw "
         "net.ipv4.tcp_congestion_control=vegas", words="tcp_congestion_control",
         undo="sysctl -qw net.ipv4.tcp_congestion_control=cubic"),
    Case("queue-without-a-discipline", "ethtool -L eth1 tx 2; tc qdisc replace dev eth1 root handle 1: mq; "
         "tc qdisc replace dev eth1 parent 1:1 pfifo; tc qdisc del dev eth1 parent 1:1",
         words="queues without a discipline: 1", undo="tc qdisc del dev eth1 root; ethtool -L eth1 tx 1"),
    Case("one-queue-of-one-packet", "ethtool -L eth1 tx 2; tc qdisc replace dev eth1 root handle 1: mq; "
         "tc qdisc replace dev eth1 parent 1:2 pfifo limit 1", words="pfifo limit 1",
         undo="tc qdisc del dev eth1 root; ethtool -L eth1 tx 1"),
    Case("one-queue-is-slow", "ethtool -L eth1 tx 2; tc qdisc replace dev eth1 root handle 1: mq; tc qdisc "
         "replace dev eth1 parent 1:2 tbf rate 50mbit burst 64k latency 400ms", words="tbf rate 50",
         undo="tc qdisc del dev eth1 root; ethtool -L eth1 tx 1"),
    Case("queue-of-no-packet", "tc qdisc replace dev eth1 root pfifo limit 0", words="pfifo limit 0",
         undo="tc qdisc del dev eth1 root"),
    Case("each-queue-has-its-own", "ethtool -L eth1 tx 2; tc qdisc replace dev eth1 root handle 1: mq; tc "
         "qdisc replace dev eth1 parent 1:2 fq", "calm",
         undo="tc qdisc del dev eth1 root; ethtool -L eth1 tx 1"),
    # the machine's clock is left alone: h0 sees another file in its place
    Case("clock-is-read-slowly", f"echo acpi_pm > /run/clock; mount --bind /run/clock {CLOCK}",
         words="acpi_pm", undo=f"umount {CLOCK}"),
    Case("large-pages-by-size", lambda b: no_case("it is the machine's alone: tests/unit has the case")),
    Case("runs-are-slowed-by-memory", "systemctl set-property --runtime tpu-run.slice MemoryHigh=1G",
         words="MemoryHigh", undo="systemctl revert tpu-run.slice"),
    Case("cpu-seconds-of-each-service", MANAGER.format("DefaultLimitCPU=3600"),
         words="DefaultLimitCPU=3600", undo=NO_MANAGER),
    Case("file-size-of-each-service", MANAGER.format("DefaultLimitFSIZE=1G"),
         words="DefaultLimitFSIZE=1073741824", undo=NO_MANAGER),
    # by hand, so that systemd says nothing of it
    Case("group-above-runs-is-slow", "systemctl start tpu-run.slice; cd /sys/fs/cgroup; echo '+cpu' > "
         "cgroup.subtree_control; echo '+cpu' > tpu.slice/cgroup.subtree_control; "
         f"echo '10000 100000' > {RUNS}/cpu.max", words="cpu.max.*0.10 CPUs",
         undo="systemctl stop tpu-run.slice tpu.slice"),
    Case("nic-by-its-other-name", "ip link property add dev eth1 altname data1; " +
         SITE.format("netcfg", "[Netcfg]\\nNics=eth0 data1") + "; systemctl restart tpu-netcfg; sleep 2; "
         "systemctl restart tpu-hostd; sleep 2", "calm", probe=MTU, undo="rm -f "
         "/etc/tpu-hostd/netcfg.conf.d/90-x.conf; ip link property del dev eth1 altname data1; systemctl "
         "restart tpu-netcfg tpu-hostd"),
    Case("a-connection-queues-one-packet", "sysctl -qw net.ipv4.tcp_limit_output_bytes=4096",
         words="tcp_limit_output_bytes", undo="sysctl -qw net.ipv4.tcp_limit_output_bytes=1048576"),
]

CASES = (SETTINGS + ROUTING + WIRES + BYSTANDERS + NEWCOMERS + DAEMONS + CONTEST + IDENTITY + MACHINE +
         UNSEEN + BLIND + ODD + BESIDE)
