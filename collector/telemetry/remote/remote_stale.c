/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_stale.h"

#include "grow.h"
#include "remote_request.h"

struct stale_series {
        int64_t ms;
        uint32_t id, heard; /* seconds */
};

struct stale_host {
        int64_t id;
        usec_t heard, interval;
        struct stale_series *series; /* by id */
        size_t n, size;
};

void stale_clear(struct stale *t) {
        for (size_t i = 0; i < t->n; i++)
                free(t->hosts[i].series);
        free(t->hosts);
        *t = (struct stale) { 0 };
}

static struct stale_host *host_of(struct stale *t, int64_t id) {
        size_t at = SORTED_PLACE(t->n, i, t->hosts[i].id < id);

        if (at < t->n && t->hosts[at].id == id)
                return &t->hosts[at];
        if (grow_at(&t->hosts, &t->size, &t->n, at, sizeof(*t->hosts)) < 0)
                return NULL;
        t->hosts[at] = (struct stale_host) { .id = id };
        return &t->hosts[at];
}

static struct stale_series *series_of(struct stale_host *h, uint32_t id) {
        size_t at = SORTED_PLACE(h->n, i, h->series[i].id < id);

        if (at < h->n && h->series[at].id == id)
                return &h->series[at];
        if (grow_at(&h->series, &h->size, &h->n, at, sizeof(*h->series)) < 0)
                return NULL;
        h->series[at] = (struct stale_series) { .id = id };
        return &h->series[at];
}

int stale_learn(struct stale *t, const struct handover *h, usec_t now) {
        struct stale_host *host = NULL;

        for (size_t i = 0; i < h->n; i++) {
                const struct handed_point *p = &h->points[i];
                struct stale_series *s;

                if (!host || host->id != p->host) {
                        host = host_of(t, p->host);
                        if (!host)
                                return -ENOMEM;
                        host->interval = host->heard > 0 && now > host->heard ? now - host->heard : 0;
                        host->heard = now;
                }
                s = series_of(host, (uint32_t) p->series);
                if (!s)
                        return -ENOMEM;
                s->ms = MAX(s->ms, p->ms);
                s->heard = (uint32_t) (now / USEC_PER_SEC);
        }
        return 0;
}

static int take_of_host(struct stale_host *host, usec_t now, size_t max, struct handover *h) {
        usec_t patience = MAX(STALE_AFTER, 3 * host->interval);
        size_t kept = 0;
        int r = 0;

        for (size_t i = 0; i < host->n; i++) {
                const struct stale_series s = host->series[i];

                if (r < 0 || h->n >= max || s.heard * USEC_PER_SEC + patience > now)
                        host->series[kept++] = s;
                else
                        r = handover_add(h, &(struct handed_point){ .host = host->id,
                                                                    .series = s.id,
                                                                    .ms = s.ms + 1,
                                                                    .d = remote_stale_marker() });
        }
        host->n = kept;
        return r;
}

int stale_take(struct stale *t, usec_t now, size_t max, struct handover *h) {
        size_t kept = 0;
        int r = 0;

        for (size_t i = 0; i < t->n; i++) {
                if (r == 0)
                        r = take_of_host(&t->hosts[i], now, max, h);
                if (t->hosts[i].n == 0)
                        free(t->hosts[i].series);
                else
                        t->hosts[kept++] = t->hosts[i];
        }
        t->n = kept;
        return r;
}
