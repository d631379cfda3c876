/* SPDX-License-Identifier: Apache-2.0 */
#include "aside.h"

#include "log.h"

/* All that it holds is to be sent; nothing is added. */
#define ASIDE_BYTES (UINT64_C(1) << 40)

/* The next one behind number n, or none. */
static void find_next(struct aside *a) {
        const char *spool = a->bus->settings.spool_directory;

        a->path[0] = '\0';
        while (a->path[0] == '\0' && a->n < MACHINE_ASIDE_MOST) {
                char path[MACHINE_PATH_MAX];

                if (machine_state_aside_name(spool, ++a->n, path) >= 0 && access(path, F_OK) == 0)
                        memcpy(a->path, path, sizeof(path));
        }
}

void aside_start(struct aside *a, struct bus *b, uplink_open_t open) {
        *a = (struct aside){ .bus = b, .open = open };
        find_next(a);
}

/* Nothing of this host's own waits for long. */
static bool is_current(const struct bus *b, const struct uplink_stats *own) {
        usec_t now = host_now_real(b->host);

        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                const struct uplink_class_stats *t = &own->classes[c];

                if (t->spool.records > 0 && now > t->oldest_real + UPLINK_BEHIND)
                        return false;
        }
        return own->last_ok_boot > 0 && !b->undecided;
}

static void send_it(struct aside *a) {
        const struct uplink_options o = { .spool_dir = a->path, .max_bytes = ASIDE_BYTES, .aside = true };

        struct uplink_stats u = { .durable = true };

        if (a->open(a->bus, &o, &a->uplink) >= 0)
                uplink_get_stats(a->uplink, &u);
        if (a->uplink && u.durable) {
                log_info("%s: what it holds is sent now", a->path);
                return;
        }
        log_warning("%s cannot be used, and stays: %s", a->path, u.spool_error);
        a->uplink = uplink_free(a->uplink);
        find_next(a);
}

bool aside_look(struct aside *a, const struct uplink_stats *own) {
        int r;

        if (!a->uplink) {
                if (is_current(a->bus, own))
                        send_it(a);
                return !aside_is_there(a);
        }
        uplink_refresh(a->uplink);
        if (!uplink_is_done(a->uplink))
                return false;
        a->uplink = uplink_free(a->uplink);
        r = machine_state_remove(a->path);
        if (r < 0)
                (void) log_warning_errno(r, "%s is delivered and cannot be removed: %m", a->path);
        else
                log_notice("%s is delivered, and removed", a->path);
        find_next(a);
        return !aside_is_there(a);
}

json_t *aside_to_json(const struct aside *a) {
        struct uplink_stats u;
        uint64_t kept = 0, bytes = 0;

        if (!aside_is_there(a))
                return json_null();
        if (!a->uplink)
                return json_pack("{s:s, s:n, s:n}", "spool", a->path, "kept", "bytes");
        uplink_get_stats(a->uplink, &u);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                kept += u.classes[c].spool.records;
                bytes += u.classes[c].spool.bytes;
        }
        return json_pack("{s:s, s:I, s:I}", "spool", a->path, "kept", (json_int_t) kept, "bytes",
                         (json_int_t) bytes);
}

void aside_stop(struct aside *a) {
        a->uplink = uplink_free(a->uplink);
}
