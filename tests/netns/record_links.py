#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records the network interfaces of the calling network namespace as netlink/links of a fixture tree:
the raw bytes of the kernel's answer to an RTM_GETLINK dump, NLMSG_DONE included.

    record_links.py FILE
"""
import socket
import struct
import sys

NETLINK_ROUTE, RTM_GETLINK, NLMSG_DONE, NLM_F_REQUEST, NLM_F_DUMP = 0, 18, 3, 0x1, 0x300
IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS = 29, 8


def dump():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0) + struct.pack("=HHI", 8, IFLA_EXT_MASK,
                                                                                  RTEXT_FILTER_SKIP_STATS)
        sock.send(struct.pack("=IHHII", 16 + len(body), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
                  + body)
        data = b""
        while True:
            datagram = sock.recv(1 << 20)
            data += datagram
            at = 0
            while at + 16 <= len(datagram):
                length, kind = struct.unpack_from("=IH", datagram, at)
                if kind == NLMSG_DONE:
                    return data
                at += (length + 3) & ~3


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as file:
        file.write(dump())
