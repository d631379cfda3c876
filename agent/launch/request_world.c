/* SPDX-License-Identifier: Apache-2.0 */
#include "request_world.h"

#define SLICES_MAX 4096
#define ORIGIN_MAX 127

static int refuse(struct problem *p, const char *text) {
        return problem_set(p, -EINVAL, "tpu-hostd --version; tpu-launchd --version",
                           "the run's hosts do not fit together: %s", text);
}

void request_world_clear(struct request_world *w) {
        free(w->slices);
        free(w->hosts);
        *w = (struct request_world){ 0 };
}

static int check(const Local__World *w, struct problem *p) {
        if (w->n_slice > SLICES_MAX || w->n_hosts != w->n_slice || w->own >= w->n_slice)
                return refuse(p, "this slice is none of its slices");
        if (w->n_host != w->hosts[w->own] || w->n_host > IDENTITY_HOSTS_MAX)
                return refuse(p, "a slice has another number of hosts than are named");
        return w->port > UINT16_MAX ? refuse(p, "there is no such port") : 0;
}

int request_world_view(const Local__RunRequest *q, struct request_world *ret, struct problem *p) {
        _cleanup_request_world_ struct request_world w = { 0 };
        const Local__World *from = q->world;
        int r = check(from, p);

        if (r < 0)
                return r;
        w.slices = calloc(from->n_slice, sizeof(*w.slices));
        w.hosts = calloc(from->n_host + 1, sizeof(*w.hosts));
        if (!w.slices || !w.hosts)
                return problem_set(p, -ENOMEM, "try again; see tpuctl check", "out of memory");
        for (size_t i = 0; i < from->n_host; i++)
                w.hosts[i].name = from->host[i];
        for (size_t i = 0; i < from->n_slice; i++)
                w.slices[i] = (struct environment_slice){ .name = from->slice[i],
                                                          .hosts = i == from->own ? w.hosts : NULL,
                                                          .n_hosts = from->hosts[i] };
        w.gang = (struct environment_gang){ .run = q->spec->name,
                                            .generation = q->generation,
                                            .slices = w.slices,
                                            .n_slices = from->n_slice,
                                            .slice = from->own,
                                            .worker = from->worker,
                                            .coordinator = from->coordinator[0] ? from->coordinator : NULL,
                                            .port = (uint16_t) from->port };
        *ret = w;
        w = (struct request_world){ 0 };
        return 0;
}

int request_world_facts(const Local__World *w, struct identity *i, struct problem *p) {
        if (!environment_text_is_valid(w->interfaces)) /* they go into a variable as they are */
                return refuse(p, "names of its interfaces are no text");
        for (size_t n = 0; n < w->n_fact; n++) {
                const Local__Fact *f = w->fact[n];
                enum identity_field field;
                int r = strlen(f->origin) <= ORIGIN_MAX && environment_text_is_valid(f->origin)
                                ? identity_field_parse(f->field, &field)
                                : -EINVAL;

                if (r == 0)
                        r = identity_add(i, field, f->value, f->origin);
                if (r == -EINVAL)
                        return problem_set(p, r, "tpuctl identity",
                                           "what tpu-hostd knows of this host cannot be: '%.32s'",
                                           environment_text_is_valid(f->field) ? f->field : "(binary)");
                if (r < 0)
                        return problem_set(p, r, "try again; see tpuctl check", "out of memory");
        }
        return w->n_fact > 0 ? identity_derive(i) : 0;
}
