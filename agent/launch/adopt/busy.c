/* SPDX-License-Identifier: Apache-2.0 */
#include "busy.h"

#include <assert.h>

#include "clock.h"
#include "holders.h"
#include "paths.h"

#define OR_BESIDE ", or --share-devices"

/* The group that this process is of; NULL: a run of ours has it, or it has just ended. */
static const struct holder_group *find_group(const struct holder_group *all, size_t n, uint32_t pid) {
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < all[i].n_pids; k++)
                        if (all[i].pids[k] == pid)
                                return &all[i];
        return NULL;
}

/* Where it stands, of a process in state D; "" of others. */
static void print_stuck(const struct host *h, uint32_t pid, char *buf, size_t size) {
        char path[64], text[1024], wait[64] = "";
        const char *state;

        (void) snprintf(path, sizeof(path), "/proc/%u/stat", pid);
        if (host_read(h, path, text, sizeof(text), NULL) < 0)
                return;
        state = strrchr(text, ')');
        if (!state || !startswith(state, ") D"))
                return;
        (void) snprintf(path, sizeof(path), "/proc/%u/wchan", pid);
        (void) host_read(h, path, wait, sizeof(wait), NULL); /* or it is not shown */
        (void) snprintf(buf, size, "; it is in state D%s%.40s, where no signal ends it",
                        wait[0] ? " in " : "", wait);
}

static void print_place(const struct host *h, const struct holder_group *g, char *buf, size_t size) {
        char since[CLOCK_TEXT_MAX];
        usec_t now = host_now(h);

        (void) clock_text(host_now_real(h) - (now - MIN(now, g->started_boot)), since);
        (void) snprintf(buf, size, "%s%.60s since %s", g->container[0] || g->unit[0] ? " in " : "",
                        g->container[0] ? g->container : g->unit, since);
}

static void print_remedy(const struct device_owner *o, const struct holder_group *g, char *buf,
                         size_t size) {
        int unit = (int) strcspn(o->unit, ".");
        const char *id = g ? strchr(g->container, ' ') : NULL;

        if (startswith(o->unit, RUN_UNIT_PREFIX))
                (void) snprintf(buf, size, "tpuctl stop %.*s" OR_BESIDE,
                                unit - (int) strlen(RUN_UNIT_PREFIX), o->unit + strlen(RUN_UNIT_PREFIX));
        else if (id && (startswith(g->container, "docker") || startswith(g->container, "podman")))
                (void) snprintf(buf, size, "sudo %.*s stop %s # on that host" OR_BESIDE,
                                (int) (id - g->container), g->container, id + 1);
        else
                (void) snprintf(buf, size, "tpuctl run --replace, on that host: kill %u" OR_BESIDE, o->pid);
}

int busy_refuse(const struct host *h, const struct device_owners *o, const char *run, struct problem *p) {
        const struct device_owner *first = &o->owners[0];
        _cleanup_free_ struct holder_group *all = calloc(HOLDER_GROUPS_MAX, sizeof(*all));
        char place[160] = "", stuck[128] = "", user[64], remedy[200];
        const struct holder_group *g;
        size_t left_out;

        assert(o->n > 0);
        g = all ? find_group(all, holders_group(h, o, all, &left_out), first->pid) : NULL;
        print_stuck(h, first->pid, stuck, sizeof(stuck));
        print_remedy(first, g, remedy, sizeof(remedy));
        if (g)
                print_place(h, g, place, sizeof(place));
        else if (first->unit[0])
                (void) snprintf(place, sizeof(place), " in %s", first->unit);
        if (g)
                (void) snprintf(user, sizeof(user), "user %s", g->user);
        else
                (void) snprintf(user, sizeof(user), "uid %u", first->uid);
        return problem_set(p, -EBUSY, remedy, "run %s: %s is in use by process %u of %s (%s)%s%s", run,
                           first->device, first->pid, user, first->command, place, stuck);
}
