/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is prepared outlives this process, not this boot: the others of a run begin a generation when all have prepared it,
 * and a host that had forgotten so would keep them waiting until the next one. In /var/lib/tpu-hostd/prepared.json, mode 0600:
 *
 *   {"version": 1, "boot_id": "…", "parts": [{"name": "job1", "serial": "…", "generation": 2}]}
 *
 * Whether it was begun since, tpu-launchd knows; what cannot be read is as if nothing had been prepared.
 */
#include <fcntl.h>

#include "agent_part.h"
#include "durable.h"
#include "log.h"
#include "paths.h"

#define KEPT_VERSION 1
#define KEPT_MAX (64 * 1024)
#define KEPT_NAME "prepared.json"

static json_t *format(const struct agent_parts *all) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < all->n; i++) {
                const struct run_part *p = all->parts[i];

                if (p->now.state != PART_PREPARED)
                        continue;
                if (json_array_append_new(list,
                                          json_pack("{s:s, s:s, s:I}", "name", p->name, "serial", p->serial,
                                                    "generation", (json_int_t) p->now.generation)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list ? json_pack("{s:i, s:s, s:o}", "version", KEPT_VERSION, "boot_id",
                                all->registry->agent->boot_id, "parts", list) :
                      NULL;
}

void parts_keep(struct agent_parts *all) {
        json_t *o = all->writer ? format(all) : NULL;
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
        int r;

        json_decref(o);
        if (!all->writer)
                return;
        r = text ? file_writer_put(all->writer, text, NULL) : -ENOMEM;
        if (r < 0) /* it is prepared again after a restart, or waited for */
                (void) log_warning_errno(r, "what is prepared is not kept: %m");
}

bool part_was_prepared(const struct run_part *p) {
        const json_t *v;
        size_t i;

        json_array_foreach(json_object_get(p->owner->kept, "parts"), i, v)
                if (streq(run_text(v, "name"), p->name) &&
                    streq(run_text(v, "serial"), run_text(p->record, "serial")) &&
                    run_number(v, "generation") > 0 &&
                    run_number(v, "generation") == run_number(p->record, "generation"))
                        return true;
        return false;
}

/* Of this boot, or nothing: a run's processes end with the boot. */
static json_t *parse(const struct agent *a, const char *text, size_t len) {
        json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

        if (run_number(o, "version") == KEPT_VERSION && a->boot_id[0] &&
            streq(run_text(o, "boot_id"), a->boot_id))
                return o;
        json_decref(o);
        return NULL;
}

int parts_keep_start(struct agent_parts *all) {
        const struct agent *a = all->registry->agent;
        const char *health = a->settings.state_file[0] ? a->settings.state_file :
                             a->host->real_root        ? PATH_HEALTH_STATE :
                                                         NULL;
        const char *slash = health ? strrchr(health, '/') : NULL;
        char directory[256], path[sizeof(directory) + sizeof(KEPT_NAME)];
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = -1;
        size_t len = 0;

        if (!slash || slash - health >= (ptrdiff_t) sizeof(directory))
                return 0;
        (void) snprintf(directory, sizeof(directory), "%.*s", (int) MAX(slash - health, (ptrdiff_t) 1),
                        health);
        (void) snprintf(path, sizeof(path), "%s/" KEPT_NAME, directory);
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && durable_read(fd, KEPT_NAME, KEPT_MAX, &text, &len) == 0)
                all->kept = parse(a, text, len);
        return file_writer_new(a->event, path, "parts-kept", NULL, NULL, &all->writer);
}
