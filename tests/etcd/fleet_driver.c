/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet-driver ENDPOINTS CA CERT KEY HOSTS SLICE_SIZE LEASE SPLAY_MS FIRST TOTAL: so many hosts in one
 * process (of TOTAL, from number FIRST on), each with a registry of its own as an agent has it: its
 * connection, its lease, its timers. Begins with a line of standard input; prints when all were members, when
 * the first and the last saw their slice ready, what went wrong, and the processor time from the beginning until
 * then. Times are the boot clock's, in seconds. Ends with standard input. "-": no file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "clock.h"
#include "registry.h"

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
        size_t n, first, total, members, ready, troubles;
        double first_ready, idle; /* idle: processor time before it began */
        bool told_members, told_ready;
};

static double now(void) {
        return (double) clock_boot(&clock_system) / USEC_PER_SEC;
}

static double processor_time(void) {
        struct rusage u;

        (void) getrusage(RUSAGE_SELF, &u);
        return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
               (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / USEC_PER_SEC;
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct fleet *f = userdata;
        char buf[64];

        (void) source, (void) revents;
        return read(fd, buf, sizeof(buf)) == 0 ? sd_event_exit(f->event, 0) : 0;
}

static void progress(struct fleet *f) {
        if (f->members == f->n && !f->told_members) {
                f->told_members = true;
                printf("members %.6f\n", now());
        }
        if (f->ready == 1 && f->first_ready == 0)
                f->first_ready = now();
        if (f->ready == f->n && !f->told_ready) {
                f->told_ready = true;
                printf("ready %.6f %.6f %.3f\n", f->first_ready, now(), processor_time() - f->idle);
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
                printf("trouble %s %.3f %s: %s\n", h->name, now(), registry_state_name(s->state),
                       s->why);
        if (s->state == REGISTRY_JOINING && !streq(s->why, "joining") && h->fleet->troubles++ < 5)
                printf("trouble %s %.3f %s\n", h->name, now(), s->why);
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
        o->worker = (unsigned) ((f->first + i) % size);
        r = registry_new(f->event, o, &events, h, &h->registry, why);
        if (r < 0) {
                fprintf(stderr, "%s: %s\n", h->name, why);
                return r;
        }
        member = json_pack(
                "{s:i,s:s,s:i,s:s,s:s,s:s,s:[s],s:i,s:s,s:s,s:{s:s,s:{}},s:s,s:s,s:s,s:b,s:s,s:[]}", "v", 1,
                "slice", h->slice, "worker", (int) o->worker, "host", h->name, "id", h->name, "incarnation",
                incarnation, "address", "10.0.0.1", "hosts", (int) MIN(size, f->total - (f->first + i) / size * size),
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
        char line[8];
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
        f.first = strtoul(argv[9], NULL, 10);
        f.total = strtoul(argv[10], NULL, 10);
        f.hosts = calloc(f.n, sizeof(*f.hosts));
        if (!f.hosts)
                return 1;
        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; i < f.n; i++)
                if (begin(&f, i, &o, size) < 0)
                        return 1;
        (void) sd_event_add_io(f.event, NULL, STDIN_FILENO, EPOLLIN, on_input, &f);
        printf("stands\n");
        if (fcntl(STDIN_FILENO, F_SETFL, 0) < 0 || read(STDIN_FILENO, line, sizeof(line)) <= 0)
                return 1;
        f.idle = processor_time();
        (void) sd_event_loop(f.event);
        for (size_t i = 0, shown = 0; i < f.n && shown < 5; i++)
                if (!f.hosts[i].ready && ++shown)
                        printf("not ready: %s\n", f.hosts[i].name);
        (void) getrusage(RUSAGE_SELF, &usage);
        printf("end %zu %zu %zu %.3f %ld\n", f.members, f.ready, f.troubles, processor_time(), usage.ru_maxrss / 1024);
        return 0;
}
