/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf-holder LOADER: what tpu-hostd does with its BPF programs, and nothing else. Prints a JSON line of the
 * sets that the loader told of; then, for each line "net" on standard input, the figures of that set; for
 * "watch NAME [GROUP]" and "unwatch NAME" what came of attaching the watch programs of a set to look at the
 * control group of that inode, or of letting go of them; for "writer KIND INDEX NAME FOLDER" who set that.
 */
#include <arpa/inet.h>
#include <linux/types.h>
#include <poll.h>

#include "bpf_sets.h"
#include "io_figures.h"
#include "net_figures.h"
#include "sched_figures.h"
#include "writers.h"

#define SLOW_NS (10 * 1000 * 1000) /* as tpu-hostd has it */

static void print_sets(const struct bpf_sets *s) {
        printf("{\"pid\": %d, \"sets\": [", getpid());
        for (size_t i = 0; i < bpf_sets_count(s); i++) {
                const struct bpf_report *r = bpf_sets_report(s, i);

                printf("%s{\"name\": \"%s\", \"verdict\": \"%s\", \"reason\": \"%s\", \"programs\": %u, "
                       "\"loaded\": %u}",
                       i > 0 ? ", " : "", r->name, verdict_name(r->verdict), r->reason, r->programs,
                       r->loaded);
        }
        puts("]}");
}

static void print_numbers(const char *name, const __u64 *v, size_t n) {
        printf("\"%s\": [", name);
        for (size_t i = 0; i < n; i++)
                printf("%s%llu", i > 0 ? ", " : "", v[i]);
        printf("], ");
}

static void print_counts(const struct net_counts *c) {
        print_numbers("retransmits", c->retransmits, ELEMENTSOF(c->retransmits));
        print_numbers("events", c->events, ELEMENTSOF(c->events));
        print_numbers("connect_histogram", c->connect_histogram, ELEMENTSOF(c->connect_histogram));
        printf("\"resets_sent\": %llu, \"resets_received\": %llu, \"connects\": %llu, \"connect_failures\": "
               "%llu, "
               "\"connect_ns\": %llu",
               c->resets_sent, c->resets_received, c->connects, c->connect_failures, c->connect_ns);
}

static void print_net(const struct net_figures *f) {
        const char *between = "";
        char peer[INET6_ADDRSTRLEN], local[INET6_ADDRSTRLEN];

        printf("{\"all\": {");
        print_counts(&f->all);
        printf("}, \"peers_lost\": %llu, \"drops_lost\": %llu, \"connects_lost\": %llu, \"unplaced\": %llu, "
               "\"resets_without_socket\": %llu, \"peers\": [",
               f->peers_lost, f->drops_lost, f->connects_lost, f->drops_unplaced, f->resets_without_socket);
        for (size_t i = 0; i < NET_PEERS; i++) {
                const struct net_peer *p = &f->peers[i];

                if (f->peer_use[i] != NET_USED)
                        continue;
                printf("%s{\"peer\": \"%s\", \"local\": \"%s\", \"cgroup\": %llu, ", between,
                       inet_ntop(AF_INET6, p->key.peer, peer, sizeof(peer)),
                       inet_ntop(AF_INET6, p->key.local, local, sizeof(local)), p->key.cgroup);
                print_counts(&p->counts);
                printf("}");
                between = ", ";
        }
        printf("], \"dropped\": [");
        between = "";
        for (size_t i = 0; i < NET_DROPS; i++) {
                const struct net_drop *d = &f->dropped[i];

                if (f->drop_use[i] != NET_USED)
                        continue;
                printf("%s{\"reason\": \"%s\", \"symbol\": \"%s\", \"packets\": %llu}", between,
                       d->reason < NET_REASONS ? f->reasons[d->reason] : "", d->symbol,
                       net_drop_packets(f, i));
                between = ", ";
        }
        puts("]}");
}

static int take_all(struct bpf_sets *s) {
        for (;;) {
                struct pollfd p = { .fd = bpf_sets_fd(s), .events = POLLIN };
                int r = poll(&p, 1, -1) < 0 ? -errno : bpf_sets_take(s);

                if (r != 0)
                        return r;
        }
}

static int watch(struct bpf_sets *s, const char *words) {
        struct sched_orders *sched;
        struct io_orders *io;
        unsigned long long group = 0;
        char name[16];

        if (sscanf(words, "%15s %llu", name, &group) < 1)
                return -EINVAL;
        if (group > 0 && streq(name, "sched")) {
                sched = bpf_sets_map_memory(s, name, "orders", sizeof(*sched));
                if (!sched)
                        return -errno;
                sched->group = group;
        } else if (group > 0 && streq(name, "io")) {
                io = bpf_sets_map_memory(s, name, "orders", sizeof(*io));
                if (!io)
                        return -errno;
                io->group = group;
                io->slow = SLOW_NS;
        }
        return bpf_sets_watch(s, name);
}

static void print_writer(const struct bpf_sets *s, const char *words) {
        const struct writers_figures *f = bpf_sets_figures(s, "writers", sizeof(*f));
        char name[WRITER_NAME_MAX] = "", folder[WRITER_NAME_MAX] = "";
        struct writer_query q = { .name = name, .folder = folder };
        struct writer w;
        unsigned kind;

        if (f && sscanf(words, "%u %d %39s %39s", &kind, &q.index, name, folder) == 4 &&
            kind < WRITER_KINDS && (q.kind = (enum writer_kind) kind, writers_find(f, &q, &w)))
                printf("{\"pid\": %d, \"parent\": %d, \"group\": \"%s\", \"command\": \"%s\"}\n",
                       w.pid, w.parent, w.group, w.command);
        else
                puts("null");
}

static void answer(struct bpf_sets *s, const char *words) {
        const struct net_figures *f = bpf_sets_figures(s, "net", sizeof(*f));

        if (startswith(words, "watch "))
                printf("%d\n", watch(s, words + strlen("watch ")));
        else if (startswith(words, "unwatch ")) {
                bpf_sets_unwatch(s, words + strlen("unwatch "));
                puts("0");
        } else if (startswith(words, "writer "))
                print_writer(s, words + strlen("writer "));
        else if (streq(words, "net") && f)
                print_net(f);
        else
                puts("null");
        (void) fflush(stdout);
}

int main(int argc, char *argv[]) {
        _cleanup_(bpf_sets_freep) struct bpf_sets *s = NULL;
        char line[128];
        int r = argc == 2 ? bpf_sets_start(argv[1], &s) : -EINVAL;

        if (r >= 0)
                r = take_all(s);
        if (r < 0) {
                fprintf(stderr, "bpf-holder: %s\n", strerror(-r));
                return EXIT_FAILURE;
        }
        print_sets(s);
        (void) fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = '\0';
                answer(s, line);
        }
        return EXIT_SUCCESS;
}
