/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"
#include "network.h"
#include "paths.h"
#include "texts.h"

#define FILE_HEAD "tpu-netcfg-network-mtu 1"
#define FILE_PATH PATH_NETCFG_RUNTIME "/" INTENT_NETWORKS_FILE

static bool is_of_nic(const struct intent_network *n, const struct link *l) {
        return l->address_len == sizeof(n->mac) && memcmp(l->address, n->mac, sizeof(n->mac)) == 0;
}

const struct intent_network *intent_network_of(const struct intent *i, const uint8_t mac[static 6]) {
        for (size_t k = 0; k < i->n_networks; k++)
                if (memcmp(i->networks[k].mac, mac, sizeof(i->networks[k].mac)) == 0)
                        return &i->networks[k];
        return NULL;
}

uint32_t intent_network_mtu(const struct intent *i, const struct link *l, const char **ret_source) {
        const struct intent_network *n = NULL;

        if (i->network_mtu == 0 && l->address_len == sizeof(n->mac))
                n = intent_network_of(i, l->address);
        if (ret_source && (n || i->network_mtu > 0))
                *ret_source = n ? n->source : i->network_mtu_source;
        return n ? n->mtu : i->network_mtu;
}

/* --- Taking over -------------------------------------------------------------------------------------- */

static bool source_is_valid(const char *source) {
        size_t n = 0;

        for (; source[n]; n++)
                if (source[n] < ' ' || source[n] > '~')
                        return false;
        return n > 0 && n < sizeof(((struct intent_network *) NULL)->source) && source[0] != ' ';
}

static bool mtu_is_valid(uint32_t mtu) {
        return mtu >= INTENT_MTU_MIN && mtu <= INTENT_MTU_MAX;
}

static bool has_nic(const struct intent *i, const struct link_table *t, const struct intent_network *n) {
        for (size_t k = 0; k < t->n; k++)
                if (is_of_nic(n, &t->links[k]) && intent_is_data_nic(i, &t->links[k]))
                        return true;
        return false;
}

static void forget_gone(struct intent *i, const struct link_table *t) {
        size_t kept = 0;

        for (size_t k = 0; k < i->n_networks; k++)
                if (has_nic(i, t, &i->networks[k]))
                        i->networks[kept++] = i->networks[k];
        i->n_networks = kept;
}

int intent_networks_take(struct intent *i, const struct link_table *t, const struct intent_network *offer,
                         char why[static 160]) {
        const struct intent_network *known = intent_network_of(i, offer->mac);
        char mac[MAC_TEXT_MAX];
        int r = 0;

        (void) mac_text(offer->mac, mac);
        if (!mtu_is_valid(offer->mtu)) {
                (void) snprintf(why, 160, "NIC %s: an MTU of %u: a network's is between %d and %d", mac,
                                offer->mtu, INTENT_MTU_MIN, INTENT_MTU_MAX);
                r = -ERANGE;
        } else if (!source_is_valid(offer->source)) {
                (void) snprintf(why, 160, "NIC %s: the source is not 1 to 63 printable characters", mac);
                r = -EINVAL;
        } else if (!has_nic(i, t, offer)) {
                (void) snprintf(why, 160, "NIC %s: no data-centre NIC of this host has that address", mac);
                r = -ENODEV;
        }
        if (r < 0)
                return r;
        if (!known)
                forget_gone(i, t);
        if (!known && i->n_networks == INTENT_NETWORKS_MAX)
                return text_fail(why, 160, -ENOSPC, "NIC %s: more than %d NICs", mac, INTENT_NETWORKS_MAX);
        i->networks[known ? (size_t) (known - i->networks) : i->n_networks++] = *offer;
        return 0;
}

/* --- The file ----------------------------------------------------------------------------------------- */

int intent_networks_format(const struct intent *i, const char *boot_id,
                           char buf[static INTENT_NETWORKS_TEXT_MAX]) {
        size_t used;
        int n = snprintf(buf, INTENT_NETWORKS_TEXT_MAX, FILE_HEAD "\nboot %s\n", boot_id);

        for (size_t k = 0;; k++) {
                char mac[MAC_TEXT_MAX];

                if (n < 0 || n >= INTENT_NETWORKS_TEXT_MAX)
                        return -ENOSPC;
                used = (size_t) n;
                if (k == i->n_networks)
                        return n;
                n = snprintf(buf + used, INTENT_NETWORKS_TEXT_MAX - used, "%s %u %s\n",
                             mac_text(i->networks[k].mac, mac), i->networks[k].mtu,
                             i->networks[k].source);
                n = n < 0 ? n : n + (int) used;
        }
}

static int parse_entry(const char *line, struct intent *i) {
        struct intent_network n = { 0 };
        char mac[MAC_TEXT_MAX];
        int end = 0;

        if (sscanf(line, "%17s %5" SCNu32 " %n", mac, &n.mtu, &end) != 2 || end == 0 ||
            !mac_parse(mac, n.mac) || !mtu_is_valid(n.mtu) || !source_is_valid(line + end) ||
            i->n_networks == INTENT_NETWORKS_MAX)
                return -EBADMSG;
        (void) snprintf(n.source, sizeof(n.source), "%s", line + end);
        i->networks[i->n_networks++] = n;
        return 0;
}

int intent_networks_parse(const char *text, size_t len, const char *boot_id, struct intent *i) {
        static const char head[] = FILE_HEAD "\nboot ";
        struct intent read = { 0 };
        char copy[INTENT_NETWORKS_TEXT_MAX], *at = copy, *line;
        int r = 0;

        if (len >= sizeof(copy) || memchr(text, '\0', len))
                return -EBADMSG;
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (!startswith(copy, head))
                return -EBADMSG;
        at += strlen(head);
        if (!streq(strsep(&at, "\n"), boot_id))
                return 0; /* another boot's: nothing is known */
        while (r == 0 && (line = strsep(&at, "\n")) && (line[0] || at)) /* the last one is empty */
                r = parse_entry(line, &read);
        if (r < 0)
                return r;
        memcpy(i->networks, read.networks, sizeof(i->networks));
        i->n_networks = read.n_networks;
        return 0;
}

int intent_networks_load(const struct host *h, struct intent *i) {
        char text[INTENT_NETWORKS_TEXT_MAX], boot_id[BOOT_ID_MAX];
        size_t len;
        int r;

        r = host_read(h, FILE_PATH, text, sizeof(text), &len);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                r = host_boot_id(h, boot_id);
        if (r == 0)
                r = intent_networks_parse(text, len, boot_id, i);
        if (errno_is_shortage(r))
                return r;
        if (r < 0)
                (void) log_warning_errno(r, FILE_PATH " is passed over: %m");
        return 0;
}
