/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-enroll ENDPOINTS CA CERT KEY HOSTS SLICE_SIZE LEASE SPLAY_MS HOLD FIRST: so many hosts in one
 * process, each with a registry of its own as an agent has it: its connection, its lease, its timers. Prints
 * when all were members and when all saw their slice ready, holds for HOLD seconds, prints what went wrong
 * meanwhile.
 * "-": no file.
 */
#include <stdio.h>
#include <sys/resource.h>

#include "clock.h"
#include "registry.h"

#define LIMIT (240 * USEC_PER_SEC) /* whoever is not ready by then is printed */

struct fleet;
struct host {
        struct fleet *fleet;
        struct registry *registry;
        char name[24], slice[24];
        bool member, ready;
};

struct fleet {
        sd_event *event;
        struct host *hosts;
        size_t n, first, members, ready, troubles;
        usec_t start, hold;
        bool told_members, told_ready;
        sd_event_source *end;
};

static double since(const struct fleet *f) {
        return (double) (clock_boot(&clock_system) - f->start) / USEC_PER_SEC;
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata) {
        struct fleet *f = userdata;

        (void) source, (void) usec;
        return sd_event_exit(f->event, 0);
}

static void progress(struct fleet *f) {
        if (f->members == f->n && !f->told_members) {
                f->told_members = true;
                printf("members %zu %.3f\n", f->n, since(f));
        }
        if (f->ready == f->n && !f->told_ready) {
                f->told_ready = true;
                printf("ready %zu %.3f\n", f->n, since(f));
                (void) fflush(stdout);
                (void) sd_event_add_time_relative(f->event, &f->end, CLOCK_MONOTONIC, f->hold, 0, on_end, f);
        }
}

static void on_record(const char *key, const json_t *value, void *userdata) {
        struct host *h = userdata;
        const char *state = json_string_value(json_object_get(value, "state"));
        bool ready = state && streq(state, "ready");

        if (!startswith(key, "slice/") || ready == h->ready)
                return;
        h->ready = ready;
        h->fleet->ready += ready ? 1 : (size_t) -1;
        progress(h->fleet);
}

static void on_status(const struct registry_status *s, void *userdata) {
        struct host *h = userdata;
        bool member = s->state == REGISTRY_MEMBER;

        if (!member && s->state != REGISTRY_JOINING && h->fleet->troubles++ < 5)
                printf("trouble %s %.3f %s: %s\n", h->name, since(h->fleet), registry_state_name(s->state),
                       s->why);
        if (s->state == REGISTRY_JOINING && !streq(s->why, "joining") && h->fleet->troubles++ < 5)
                printf("trouble %s %.3f %s\n", h->name, since(h->fleet), s->why);
        if (member == h->member)
                return;
        h->member = member;
        h->fleet->members += member ? 1 : (size_t) -1;
        progress(h->fleet);
}

static void on_complete(void *userdata) {
        (void) userdata;
}

static int begin(struct fleet *f, size_t i, struct registry_options *o, unsigned size) {
        const struct registry_events events = { .record = on_record,
                                                .status = on_status,
                                                .complete = on_complete };
        struct host *h = &f->hosts[i];
        char why[256], incarnation[20];
        json_t *member;
        int r;

        h->fleet = f;
        (void) snprintf(h->name, sizeof(h->name), "h%zu", f->first + i);
        (void) snprintf(h->slice, sizeof(h->slice), "s%zu", (f->first + i) / size);
        (void) snprintf(incarnation, sizeof(incarnation), "%016zx", f->first + i);
        o->host = h->name;
        o->slice = h->slice;
        o->worker = (unsigned) (i % size);
        r = registry_new(f->event, o, &events, h, &h->registry, why);
        if (r < 0) {
                fprintf(stderr, "%s: %s\n", h->name, why);
                return r;
        }
        member = json_pack(
                "{s:i,s:s,s:i,s:s,s:s,s:s,s:[s],s:i,s:s,s:s,s:{s:s,s:{}},s:s,s:s,s:s,s:b,s:s,s:[]}", "v", 1,
                "slice", h->slice, "worker", (int) o->worker, "host", h->name, "id", h->name, "incarnation",
                incarnation, "address", "10.0.0.1", "hosts", (int) MIN(size, f->n - i / size * size),
                "accelerator", "", "topology", "", "fingerprint", "digest", "d", "parts", "state", "ready",
                "reasons", "", "orders", "", "observe", 0, "notice", "", "runs");
        r = registry_say(h->registry, member);
        json_decref(member);
        return r;
}

static const char *or_null(const char *text) {
        return streq(text, "-") ? NULL : text;
}

int main(int argc, char *argv[]) {
        struct registry_options o = { .kind = REGISTRY_ETCD, .tenant = "bench" };
        struct rlimit limit;
        struct fleet f = { 0 };
        struct rusage usage;
        unsigned size;

        if (argc != 11 || sd_event_default(&f.event) < 0)
                return 64;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &limit); /* too few descriptors show as troubles */
        }
        o.endpoints = argv[1];
        o.ca = or_null(argv[2]);
        o.certificate = or_null(argv[3]);
        o.key = or_null(argv[4]);
        f.n = strtoul(argv[5], NULL, 10);
        size = (unsigned) strtoul(argv[6], NULL, 10);
        o.lease = strtoul(argv[7], NULL, 10) * USEC_PER_SEC;
        o.splay = strtoul(argv[8], NULL, 10) * USEC_PER_MSEC;
        f.hold = strtoul(argv[9], NULL, 10) * USEC_PER_SEC;
        f.first = strtoul(argv[10], NULL, 10); /* of a slice */
        f.hosts = calloc(f.n, sizeof(*f.hosts));
        if (!f.hosts)
                return 1;
        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; i < f.n; i++)
                if (begin(&f, i, &o, size) < 0)
                        return 1;
        f.start = clock_boot(&clock_system);
        (void) sd_event_add_time_relative(f.event, NULL, CLOCK_MONOTONIC, LIMIT + f.hold, 0, on_end, &f);
        (void) sd_event_loop(f.event);
        for (size_t i = 0, shown = 0; i < f.n && shown < 5; i++)
                if (!f.hosts[i].ready && ++shown)
                        printf("not ready: %s\n", f.hosts[i].name);
        printf("end members %zu ready %zu troubles %zu\n", f.members, f.ready, f.troubles);
        (void) getrusage(RUSAGE_SELF, &usage);
        printf("cpu %.3f rss_mb %ld\n",
               (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / USEC_PER_SEC,
               usage.ru_maxrss / 1024);
        return 0;
}
