/* SPDX-License-Identifier: Apache-2.0 */
#include "own_state.h"

#include <fcntl.h>
#include <sys/file.h>

#include "log.h"

static struct machine_ids ids_now(const struct bus *b, const char *instance) {
        struct machine_ids i = { 0 };

        (void) snprintf(i.machine, sizeof(i.machine), "%s", b->machine_id);
        (void) snprintf(i.boot, sizeof(i.boot), "%s", b->boot_id);
        (void) snprintf(i.host, sizeof(i.host), "%s", b->name);
        (void) snprintf(i.instance, sizeof(i.instance), "%.23s", instance ? instance : "");
        return i;
}

static int write_state(const struct own_state *p, const struct machine_state *s) {
        int r = machine_state_write(p->file, s);

        if (r < 0) /* the spool says what is wrong with the disk */
                (void) log_warning_errno(r, "%s, which names the machine of the state, is not kept: %m",
                                         p->file);
        return r;
}

/*
 * It is this machine's. What is known of it and not now stays: the file is written when a part is new. Where
 * it names an instance that did not say so, this boot is not written: the next process asks again.
 */
static void take_over(struct own_state *p, struct machine_ids now) {
        struct machine_state s = { .of = now };

        p->unsure = !now.instance[0] && p->kept.of.instance[0] && !streq(p->kept.of.boot, now.boot);
        if (p->unsure)
                memcpy(s.of.boot, p->kept.of.boot, sizeof(s.of.boot));
        if (!now.instance[0])
                memcpy(s.of.instance, p->kept.of.instance, sizeof(s.of.instance));
        if (!now.machine[0])
                memcpy(s.of.machine, p->kept.of.machine, sizeof(s.of.machine));
        if (memcmp(&s, &p->kept, sizeof(s)) != 0)
                (void) write_state(p, &s);
        p->kept = s;
        memcpy(p->bus->instance_id, s.of.instance, sizeof(p->bus->instance_id));
}

/* Another tpu-hostd is at work in it, which then refuses this one: nothing is taken away from it. */
static bool is_in_use(const char *spool) {
        char path[MACHINE_PATH_MAX + 8];
        _cleanup_close_ int fd = -1;

        (void) snprintf(path, sizeof(path), "%s/events", spool);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* A spool that stays where it is stays closed: what this host says must not get the other's numbers. */
static void set_aside(struct own_state *p, char paths[][MACHINE_PATH_MAX], size_t n) {
        char to[MACHINE_PATH_MAX];

        for (size_t i = 0; i < n; i++) {
                int r;

                if (i == n - 1 && p->bus->spool_closed)
                        break; /* the file that names whose it is: the next start tries again */
                r = machine_state_set_aside(paths[i], to);
                if (r == -EEXIST && i > 0) /* so often that no name is left: only spools are worth more */
                        r = machine_state_remove(paths[i]);
                if (r < 0) /* its records lose nothing by it; orders and copies count as this machine's */
                        (void) log_error_errno(r, "%s is another machine's and cannot be set aside: %m",
                                               paths[i]);
                if (i == 0 && r < 0)
                        p->bus->spool_closed = -r;
                if (i == 0)
                        memcpy(p->aside, to, sizeof(to));
        }
        p->other = p->kept.of;
        p->kept = (struct machine_state){ 0 };
}

void own_state_start(struct bus *b, bool certain, struct own_state *p) {
        const char *instance = identity_get(&b->identity, IDENTITY_INSTANCE_ID);
        char paths[SETTINGS_STATE_MAX][MACHINE_PATH_MAX];
        size_t n = settings_state(&b->settings, b->host->real_root, paths);
        struct machine_ids now;
        enum machine_whose whose = MACHINE_OURS;

        *p = (struct own_state){ .bus = b };
        if (n == 0)
                return; /* a spool without a place is no spool */
        memcpy(p->file, paths[n - 1], sizeof(p->file));
        if (machine_state_read(p->file, &p->kept) == 0) {
                bool found = p->kept.found_boot[0] && streq(p->kept.found_boot, b->boot_id);

                now = ids_now(b, !instance && found ? p->kept.found_instance : instance);
                whose = machine_state_judge(&p->kept.of, &now, certain || found);
        } else
                now = ids_now(b, instance);
        b->undecided = whose == MACHINE_OPEN;
        memcpy(b->instance_id, p->kept.of.instance, sizeof(b->instance_id));
        if (whose == MACHINE_OTHERS && is_in_use(paths[0]))
                return;
        if (whose == MACHINE_OTHERS)
                set_aside(p, paths, n);
        if (b->spool_closed) {
                p->file[0] = '\0';
                memcpy(b->instance_id, now.instance, sizeof(b->instance_id));
        } else if (whose != MACHINE_OPEN)
                take_over(p, now);
        else
                log_info("the state is that of %s; the instance id decides whether that is this host",
                         p->kept.of.host);
}

/* The next process sets it aside. False: that could not be kept. */
static bool end_for_the_next(struct own_state *p, const struct machine_ids *now) {
        struct machine_state s = p->kept;

        memcpy(s.found_boot, now->boot, sizeof(s.found_boot));
        memcpy(s.found_instance, now->instance, sizeof(s.found_instance));
        if (!now->boot[0] || write_state(p, &s) < 0)
                return false;
        log_notice("the state is that of %s, not of this host: tpu-hostd is restarted to set it aside",
                   s.of.host);
        return sd_event_exit(p->bus->event, 0) >= 0;
}

bool own_state_learn(struct own_state *p, const char *instance) {
        struct machine_ids now = ids_now(p->bus, instance);
        bool undecided = p->bus->undecided, asks = undecided || p->unsure;

        if (!p->file[0] || (!undecided && !instance) || (!asks && p->kept.of.instance[0]))
                return true; /* in one boot an instance id decides once */
        if (asks && machine_state_judge(&p->kept.of, &now, true) == MACHINE_OTHERS &&
            end_for_the_next(p, &now))
                return false;
        p->bus->undecided = false;
        take_over(p, now);
        if (undecided)
                bus_tell(p->bus, BUS_DECIDED);
        return true;
}

void own_state_report(struct own_state *p) {
        const struct machine_ids *o = &p->other;

        if (!o->machine[0] && !o->instance[0])
                return;
        (void) bus_emit(p->bus,
                        EVENT_OF(STATE_SET_ASIDE, .owner = o->host, .owner_machine = o->machine,
                                 .owner_instance = o->instance, .host = p->bus->name,
                                 .machine = p->kept.of.machine, .instance = p->kept.of.instance,
                                 .kept_as = p->aside),
                        NULL);
        p->other = (struct machine_ids){ 0 };
}
