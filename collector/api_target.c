/* SPDX-License-Identifier: Apache-2.0 */
#include "api_target.h"

#define RUNS_PATH   "/api/v1/runs"
#define SLICES_PATH "/api/v1/slices/"
#define HOSTS_PATH  "/api/v1/hosts/"
#define MODE_PATH   "/api/v1/mode"

/* One part of a path, up to "/" or its end. */
static const char *take_part(const char *p, char *ret, size_t size) {
        size_t n = strcspn(p, "/");

        if (n == 0 || n >= size)
                return NULL;
        memcpy(ret, p, n);
        ret[n] = '\0';
        return p + n;
}

static enum what slice_target(const char *p, struct target *t) {
        char *end;

        p = take_part(p, t->name, sizeof(t->name));
        if (p && !*p)
                return WHAT_SLICE;
        if (p && streq(p, "/capture"))
                return WHAT_CAPTURE;
        if (p && streq(p, "/captures"))
                return WHAT_CAPTURES;
        if (p && streq(p, "/diagnosis"))
                return WHAT_DIAGNOSIS;
        if (p && streq(p, "/episodes"))
                return WHAT_EPISODES;
        if (!p || !startswith(p, "/slots/") || p[7] < '0' || p[7] > '9')
                return WHAT_NOTHING;
        t->worker = (unsigned) strtoul(p + 7, &end, 10);
        return *end || end - (p + 7) > 5 ? WHAT_NOTHING : WHAT_SLOT;
}

static enum what host_target(const char *p, struct target *t) {
        p = take_part(p, t->name, sizeof(t->name));
        if (!p || *p != '/')
                return WHAT_NOTHING;
        p = take_part(p + 1, t->kind, sizeof(t->kind));
        if (!p || *p)
                return WHAT_NOTHING;
        if (streq(t->kind, "orders"))
                return WHAT_ORDERS;
        return streq(t->kind, "mode") || streq(t->kind, "cordon") || streq(t->kind, "drain") ? WHAT_ORDER
                                                                                             : WHAT_NOTHING;
}

struct target target_find(const char *path) {
        struct target t = { 0 };
        const char *end;

        if (streq(path, RUNS_PATH))
                t.what = WHAT_RUNS;
        else if (streq(path, MODE_PATH))
                t.what = WHAT_MODE;
        else if (startswith(path, RUNS_PATH "/")) {
                end = take_part(path + strlen(RUNS_PATH "/"), t.name, sizeof(t.name));
                t.what = end && !*end ? WHAT_RUN : end && streq(end, "/logs") ? WHAT_LOGS : WHAT_NOTHING;
        } else if (startswith(path, SLICES_PATH))
                t.what = slice_target(path + strlen(SLICES_PATH), &t);
        else if (startswith(path, HOSTS_PATH))
                t.what = host_target(path + strlen(HOSTS_PATH), &t);
        return t;
}
