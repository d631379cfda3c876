/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is prepared outlives this process, not this boot: the others of a run begin a generation when all have prepared it,
 * and a host that had forgotten so would keep them waiting until the next one. In the state file
 * (state_file.h) /var/lib/tpu-hostd/prepared.json, mode 0600:
 *
 *   {"boot_id": "…", "parts": [{"name": "job1", "serial": "…", "generation": 2}]}
 *
 * Whether it was begun since, tpu-launchd knows; what cannot be read is as if nothing had been prepared.
 */
#include <fcntl.h>

#include "agent_orders.h"
#include "agent_part.h"
#include "log.h"

static const struct state_format kept = {
        .what = "prepared", .version = 1, .max = 64 * 1024, .options = { .mode = 0600 }
};

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
        return list ? json_pack("{s:s, s:o}", "boot_id", all->registry->agent->boot_id, "parts", list) : NULL;
}

void parts_keep(struct agent_parts *all) {
        int r = all->writer ? file_writer_put_json(all->writer, format(all), NULL) : 0;

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

int parts_keep_start(struct agent_parts *all) {
        const struct agent *a = all->registry->agent;
        const char *health = agent_orders_file(a), *slash = health ? strrchr(health, '/') : NULL;
        _cleanup_free_ char *path = NULL;
        json_t *o;

        if (!slash)
                return 0;
        if (asprintf(&path, "%.*s/prepared.json", (int) (slash - health), health) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (state_file_load_json(AT_FDCWD, path, &kept, &o) == 0) {
                /* Of this boot, or nothing: a run's processes end with the boot. */
                if (a->boot_id[0] && streq(run_text(o, "boot_id"), a->boot_id))
                        all->kept = json_incref(o);
                json_decref(o);
        }
        return file_writer_new(a->event, path, &kept, NULL, NULL, &all->writer);
}
