/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry-driver ENDPOINTS CA CERT KEY LEASE HOST SLICE WORKER ID INCARNATION HOSTS: one host as agents are
 * one, with the registry of etcd; prints what it is told, a JSON object a line. Takes lines: say {…}
 * (members over those that it has), put KEY {…}, put KEY, leave.
 */
#include <fcntl.h>
#include <jansson.h>

#include "registry.h"

struct driver {
        sd_event *event;
        struct registry *registry;
        json_t *member;
        char line[65536];
        size_t len;
};

static void print(json_t *o) {
        (void) json_dumpf(o, stdout, JSON_COMPACT);
        (void) putchar('\n');
        (void) fflush(stdout);
        json_decref(o);
}

static void on_record(const char *key, const json_t *value, void *userdata) {
        (void) userdata;
        print(json_pack("{s:s,s:O?}", "record", key, "value", value));
}

static void on_status(const struct registry_status *s, void *userdata) {
        (void) userdata;
        print(json_pack("{s:s,s:b,s:b,s:s}", "status", registry_state_name(s->state), "may_claim",
                        s->may_claim, "leads", s->leads, "why", s->why));
}

static void on_complete(void *userdata) {
        (void) userdata;
        print(json_pack("{s:b}", "complete", true));
}

static void on_put(int error, const char *why, void *userdata) {
        (void) userdata;
        print(json_pack("{s:i,s:s}", "put", error, "why", why));
}

static void put(struct driver *d, const char *rest) {
        char key[160];
        int n = 0, r;
        json_t *value;

        if (sscanf(rest, "%159s %n", key, &n) < 1)
                return;
        value = json_loads(rest + n, 0, NULL);
        r = registry_put(d->registry, key, value, on_put, NULL);
        if (r < 0)
                on_put(r, "", NULL);
        json_decref(value);
}

static void obey(struct driver *d, const char *line) {
        if (startswith(line, "say ")) {
                json_t *more = json_loads(line + 4, 0, NULL);

                (void) json_object_update(d->member, more);
                json_decref(more);
                (void) registry_say(d->registry, d->member);
        } else if (startswith(line, "put "))
                put(d, line + 4);
        else if (streq(line, "leave"))
                registry_leave(d->registry);
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct driver *d = userdata;
        ssize_t n = read(fd, d->line + d->len, sizeof(d->line) - d->len - 1);
        char *end;

        (void) source, (void) revents;
        if (n == 0)
                (void) sd_event_exit(d->event, 0);
        if (n <= 0)
                return 0;
        d->len += (size_t) n;
        d->line[d->len] = '\0';
        while ((end = strchr(d->line, '\n'))) {
                *end = '\0';
                obey(d, d->line);
                d->len -= (size_t) (end + 1 - d->line);
                memmove(d->line, end + 1, d->len + 1);
        }
        return 0;
}

static const char *or_null(const char *text) {
        return streq(text, "-") ? NULL : text;
}

int main(int argc, char *argv[]) {
        const struct registry_events events = { .record = on_record,
                                                .status = on_status,
                                                .complete = on_complete };
        struct registry_options o = { .kind = REGISTRY_ETCD, .tenant = "test" };
        struct driver d = { 0 };
        char why[256] = "";

        if (argc != 12 || sd_event_default(&d.event) < 0)
                return 64;
        o.endpoints = argv[1];
        o.ca = or_null(argv[2]);
        o.certificate = or_null(argv[3]);
        o.key = or_null(argv[4]);
        o.lease = strtoul(argv[5], NULL, 10) * USEC_PER_SEC;
        o.host = argv[6];
        o.slice = argv[7];
        o.worker = (unsigned) strtoul(argv[8], NULL, 10);
        if (registry_new(d.event, &o, &events, &d, &d.registry, why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 2;
        }
        d.member = json_pack(
                "{s:i,s:s,s:i,s:s,s:s,s:s,s:[s],s:i,s:s,s:s,s:{s:s,s:{}},s:s,s:s,s:s,s:b,s:s,s:[]}", "v", 1,
                "slice", o.slice, "worker", (int) o.worker, "host", o.host, "id", argv[9], "incarnation",
                argv[10], "address", "127.0.0.1", "hosts", atoi(argv[11]), "accelerator", "v6e-16",
                "topology", "4x4", "fingerprint", "digest", "d1", "parts", "state", "ready", "reasons", "",
                "orders", "", "observe", 0, "notice", "", "runs");
        (void) registry_say(d.registry, d.member);
        (void) fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
        (void) sd_event_add_io(d.event, NULL, STDIN_FILENO, EPOLLIN, on_input, &d);
        (void) sd_event_loop(d.event);
        d.registry = registry_free(d.registry);
        json_decref(d.member);
        d.event = sd_event_unref(d.event);
        return 0;
}
