/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel leaves to the processes of a run: open files, and ports of their own. */
#include "device_owners.h"
#include "paths.h"
#include "words.h"

#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"
#define PORTS_KEPT "/proc/sys/net/ipv4/ip_local_reserved_ports"
#define PORTS_TEXT_MAX 4096

/* "8080,9148-9150" */
static bool is_in_ports(const char *list, unsigned port) {
        while (*list) {
                char *end;
                unsigned long first = strtoul(list, &end, 10), last = first;

                if (end == list)
                        return false;
                if (*end == '-')
                        last = strtoul(end + 1, &end, 10);
                if (port >= first && port <= last)
                        return true;
                list = *end == ',' ? end + 1 : end;
        }
        return false;
}

/* The kernel gives the ports of its range to whoever connects: one that a run binds may be gone. */
static void judge_ports(const struct host *h, struct sink *s) {
        char range[64], kept[PORTS_TEXT_MAX] = "", wanted[PORTS_TEXT_MAX + 64];
        unsigned first, last, open = 0;
        int r = host_read(h, PORT_RANGE, range, sizeof(range), NULL);

        if (r == 0 && sscanf(range, "%u %u", &first, &last) != 2)
                r = -EBADMSG;
        if (r == 0)
                r = host_read(h, PORTS_KEPT, kept, sizeof(kept), NULL);
        if (r < 0) {
                probe_tell(s, WORDS_PORTS_UNREADABLE, NULL, strerror(-r), "%s", "");
                return;
        }
        kept[strcspn(kept, "\n")] = '\0';
        for (unsigned port = first; port <= last && port <= UINT16_MAX; port++)
                open += port_is_of_runs(port) && !is_in_ports(kept, port);
        (void) snprintf(wanted, sizeof(wanted), "%s%s" RUN_PORTS, kept, kept[0] ? "," : "");
        if (open > 0)
                probe_tell(s, WORDS_PORTS_OPEN, NULL, wanted, "%u-%u", first, last);
        else
                probe_tell(s, WORDS_PORTS_KEPT, NULL, NULL, "%u-%u", first, last);
}

static void judge_files(const struct host *h, struct sink *s) {
        uint64_t most;
        int r = host_read_u64(h, "/proc/sys/fs/nr_open", &most);

        if (r < 0)
                probe_tell(s, WORDS_NOFILE_UNREADABLE, NULL, strerror(-r), "%s", "");
        else if (most < RUN_NOFILE)
                probe_tell(s, WORDS_NOFILE_LOW, NULL, NULL, "%" PRIu64, most);
        else
                probe_tell(s, WORDS_NOFILE, NULL, NULL, "%d in a run", RUN_NOFILE);
}

int probe_limits(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        judge_files(h, s);
        judge_ports(h, s);
        return 0;
}
