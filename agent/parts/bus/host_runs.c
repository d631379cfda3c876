/* SPDX-License-Identifier: Apache-2.0 */
#include "host_runs.h"

const struct host_run *host_runs_find(const struct host_runs *l, const char *name) {
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->runs[i].name, name))
                        return &l->runs[i];
        return NULL;
}

const char *host_runs_group(const struct host_runs *l, const char *name) {
        const struct host_run *r = host_runs_find(l, name);

        return r && r->adopted ? r->control_group : NULL;
}

bool host_run_lives(const struct host_run *r) {
        return !streq(r->state, "exited");
}

size_t host_runs_living(const struct host_runs *l) {
        size_t n = 0;

        for (size_t i = 0; l->known && i < l->n; i++)
                n += host_run_lives(&l->runs[i]);
        return n;
}

const char *host_runs_only(const struct host_runs *l) {
        const char *name = "";

        for (size_t i = 0; l->known && i < l->n; i++) {
                if (!host_run_lives(&l->runs[i]))
                        continue;
                if (name[0])
                        return "";
                name = l->runs[i].name;
        }
        return name;
}
