/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Network interfaces as the kernel tells them over rtnetlink (RTM_GETLINK). With a root other than "/" the
 * answer is read from the dump /netlink/links of that root (the raw bytes of an RTM_NEWLINK dump), else
 * -ENODATA, so that a fixture never shows the real machine's NICs. The library is links, apart from base, so
 * that only its users load libnl.
 */
#include <net/if.h>

#include "base.h"
#include "host.h"

#define LINKS_MAX 1024 /* a container has one or two */

struct link {
        int index;
        char name[IF_NAMESIZE];
        char altnames[256]; /* by which ip(8) knows it, too, blanks between; what has no room is left out */
        char kind[16]; /* IFLA_INFO_KIND: "veth", "bridge", …; empty for hardware */
        char bus[16];    /* of hardware: "pci", "virtio", "usb", …; empty: the kernel did not say */
        char driver[32]; /* of hardware: "gve", "virtio_net", …; empty: the kernel did not say */
        uint8_t address[8];
        uint8_t address_len;
        uint16_t arp_type;              /* ARPHRD_* */
        uint32_t mtu, min_mtu, max_mtu; /* 0: the kernel did not say */
        uint32_t queue; /* packets that its own queue has room for (txqueuelen); 0: it has none */
        unsigned tx_queues; /* of hardware: that it sends by; 0: not known */
        bool up, carrier;
        uint32_t xdp; /* number of the XDP program that sees what comes in before the kernel does; 0: none */
        bool no_arp; /* IFF_NOARP: it asks nobody for MAC addresses, and answers nobody */
        uint32_t carrier_changes; /* how often it was lost or came, since the device was made */
        int master;           /* ifindex of bridge/bond, 0 if none */
        int lower;            /* ifindex of its lower/peer link, 0: none; in the namespace that … */
        bool peer_elsewhere;  /* IFLA_LINK_NETNSID present: lower/peer link is in another namespace … */
        int lower_nsid;       /* … which this namespace calls so; -1: in this one, or no name for it */
        bool beside_hardware; /* the same table holds an Ethernet device that is hardware */
        /* Of a container's NIC that the host makes (link_is_made()), filled in by who looks at it from the
         * host: the most that its packets' path through the host carries (0: none of this is filled in), and
         * which device says so (empty: it is not known, and carried_mtu is what the NIC has). */
        uint32_t carried_mtu;
        char carried_by[IF_NAMESIZE];
};

struct link_table {
        struct link *links;
        size_t n;
};
#define LINK_TABLE_NULL ((struct link_table) { 0 })

/*
 * Sorted by index. Driver, and bus where the kernel is older than 5.14, come from ethtool's answer in this
 * network namespace, or for a recorded root from its /sys/class/net. -ENODATA: this root has no dump;
 * -E2BIG: more than LINKS_MAX; -EBADMSG: the dump is malformed; -EINTR: the table changed under each of our
 * reads. Clear with link_table_clear().
 */
int links_read(const struct host *h, struct link_table *ret);
void link_table_clear(struct link_table *t);
/* Of a table that is sorted so. NULL: there is none of that index, or name. */
const struct link *link_by_index(const struct link_table *t, int index);
const struct link *link_by_name(const struct link_table *t, const char *name);
#define _cleanup_links_ _cleanup_(link_table_clear)

/*
 * Whether this is a data-centre NIC, recognised by kind and bus, not by name: an Ethernet device that is
 * hardware (no kind) on PCI or virtio or a bus that is not known, or, where there is no hardware at all, one
 * that link_is_made(). Never lo, bridges, ports of a bridge or bond, tunnels, docker, USB, or the host's
 * ends of containers' veths.
 */
bool link_is_data_nic(const struct link *l);
/* A veth, macvlan or ipvlan whose peer or lower device is in another namespace: a container's or test host's
 * own NIC. */
bool link_is_made(const struct link *l);
/* An Ethernet device with a six-byte address: what a person may name as a data-centre NIC, whatever it is
 * made of. */
bool link_is_ethernet(const struct link *l);

/*
 * The MTU up to which the device itself says that its network goes; 0: it says nothing, and max_mtu is only
 * what the driver could carry. gve takes max_mtu from its device (compute-virtual-ethernet-linux,
 * gve_adminq.c); virtio_net takes it from the host where that offers VIRTIO_NET_F_MTU, else it is 65535
 * (Linux, virtnet_probe()).
 */
uint32_t link_stated_mtu(const struct link *l);

/*
 * Parses one dump from memory: RTM_NEWLINK messages and the NLMSG_DONE that ends it. Anything else, or less,
 * is -EBADMSG; an NLMSG_ERROR is its errno; -EINTR when the kernel says that the table changed while it was
 * read. For fixtures and fuzzing, too.
 */
int links_parse(const void *data, size_t len, struct link_table *ret);
