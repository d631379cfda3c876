/* SPDX-License-Identifier: Apache-2.0 */
#include "limits_tcp.h"

#include "intent.h"
#include "memory.h"
#include "route_words.h"
#include "sysctl.h"
#include "words.h"

/* What a connection cannot be fast without, whatever the profile wants. */
static bool judge_switches(const struct host *h, struct sink *s) {
        static const char *const needed[] = { "tcp_window_scaling", "tcp_sack", "tcp_moderate_rcvbuf" };
        size_t good = 0;

        for (size_t i = 0; i < ELEMENTSOF(needed); i++) {
                char path[80], name[48];
                uint64_t on;
                int r;

                (void) snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", needed[i]);
                (void) snprintf(name, sizeof(name), "net.ipv4.%s", needed[i]);
                r = host_read_u64(h, path, &on);
                good += r == 0 && on != 0;
                if (r < 0)
                        probe_tell(s, WORDS_TCP_UNREADABLE, name, strerror(-r), "%s", "");
                else if (on == 0)
                        probe_tell(s, WORDS_TCP_WITHOUT, name, NULL, "0");
        }
        return good == ELEMENTSOF(needed);
}

/* Below what the kernel sets by itself, and what a run meets: guides for hardening and recipes for old
 * machines have such numbers. Of several numbers in a file the last counts, which is the most. */
static const struct tcp_floor {
        const char *name, *usual; /* usual: NULL: as tcp_memory() says */
        uint64_t least;
        unsigned share; /* of the memory, where that is less; 0: least alone */
        bool pages;     /* it counts pages */
        const char *why;
} floors[] = {
        { "net.ipv4.ip_default_ttl", "64", 32, 0, false,
          "packets end after so few hops, and nobody says so" },
        { "net.ipv4.tcp_retries2", "15", 8, 0, false,
          "connections are given up after seconds of silence, such as a live migration brings (RFC 1122: "
          "100 s at least)" },
        { "net.ipv4.tcp_timestamps", "1", 1, 0, false,
          "segments are counted round within a second at 100 Gbit/s, and only timestamps tell old ones from "
          "new (RFC 7323)" },
        { "net.ipv4.tcp_wmem", "4096 16384 4194304", 4194304, 256, false,
          "what a connection may send before it is acknowledged is less than a fast path holds" },
        { "net.ipv4.tcp_rmem", "4096 131072 6291456", 6291456, 256, false,
          "what a connection may receive before a program reads it is less than a fast path holds" },
        { "net.ipv4.tcp_limit_output_bytes", "1048576", 131072, 0, false,
          "a connection may have no more than this in the NIC's queue: less than two full packets make it "
          "wait for each of them" },
        { "net.ipv4.neigh.default.gc_thresh3", "1024", 1024, 0, false,
          "the kernel knows the MAC addresses of no more hosts than this at once: packets to others are "
          "dropped" },
        { "net.core.netdev_max_backlog", "1000", 300, 0, false,
          "no more packets than this may wait for a CPU as they come in: a burst loses the others" },
        { "net.ipv4.tcp_mem", NULL, UINT64_MAX, 100, true,
          "all connections together may have this many pages of memory: beyond it windows shrink and "
          "connections are reset" },
};

/* As the kernel works it out (Linux, net/ipv4/tcp.c, tcp_init_mem()), of all pages. */
static void tcp_memory(uint64_t pages, char *buf, size_t size) {
        uint64_t limit = MAX(pages / 16, (uint64_t) 128);

        (void) snprintf(buf, size, "%" PRIu64 " %" PRIu64 " %" PRIu64, limit / 4 * 3, limit,
                        limit / 4 * 3 * 2);
}

static int last_number(const char *text, uint64_t *ret) {
        const char *at = strrchr(text, ' ');
        char *end;

        at = at ? at + 1 : text;
        errno = 0;
        *ret = strtoull(at, &end, 10);
        return errno != 0 || *at < '0' || *at > '9' || *end ? -EBADMSG : 0;
}

static bool judge_floor(const struct host *h, const struct tcp_floor *t, uint64_t memory, struct sink *s) {
        uint64_t unit = t->pages ? (uint64_t) sysconf(_SC_PAGESIZE) : 1, least = t->least, value = 0;
        char text[128], usual[80], wanted[24];
        struct finding f;
        int r;

        if (t->share > 0)
                least = MIN(least, memory / t->share / unit);
        r = intent_read_sysctl(h, t->name, text, sizeof(text));
        if (r == -ENOENT) /* the machine's alone, of which this is a container */
                return true;
        if (r == 0 || r == -EROFS) /* there is a value */
                r = last_number(text, &value);
        if (r < 0) {
                probe_tell(s, WORDS_TCP_UNREADABLE, t->name, strerror(-r), "%s", "");
                return false;
        }
        if (value >= least)
                return true;
        tcp_memory(memory / unit, usual, sizeof(usual));
        (void) snprintf(wanted, sizeof(wanted), "%" PRIu64, least);
        check_tell(&f, WORDS_TCP_LOW, t->name, t->usual ? t->usual : usual, wanted, t->why);
        finding_set(f.found, "%s", make_printable(text));
        s->finding(s, &f);
        return false;
}

static bool is_of_profile(const struct probe_context *c, const char *name) {
        for (size_t i = 0; c->intent && i < c->intent->n_sysctls; i++)
                if (streq(c->intent->sysctls[i].name, name))
                        return true;
        return false;
}

#define CONGESTION "net.ipv4.tcp_congestion_control"
#define CONGESTION_OFFERED "net.ipv4.tcp_available_congestion_control"

/* What connections begin with whose program and route say nothing else. */
static bool judge_congestion(const struct host *h, struct sink *s) {
        char name[64], offered[512] = "";
        int r = intent_read_sysctl(h, CONGESTION, name, sizeof(name));

        if ((r < 0 && r != -EROFS) || congestion_keeps_up(name))
                return true; /* a recorded machine may lack it */
        (void) intent_read_sysctl(h, CONGESTION_OFFERED, offered, sizeof(offered));
        probe_tell(s, WORDS_TCP_YIELDS, CONGESTION, strstr(offered, "cubic") ? "cubic" : "reno", "%s",
                   name);
        return false;
}

void limits_judge_tcp(const struct host *h, const struct probe_context *c, struct sink *s) {
        uint64_t memory = memory_total(h);
        bool good = judge_switches(h, s);

        for (size_t i = 0; i < ELEMENTSOF(floors); i++)
                if (!is_of_profile(c, floors[i].name)) /* else the probe sysctl judges it */
                        good &= judge_floor(h, &floors[i], memory, s);
        if (!is_of_profile(c, CONGESTION))
                good &= judge_congestion(h, s);
        if (good)
                probe_tell(s, WORDS_TCP_WHOLE, NULL, NULL, "as the kernel sets it");
}
