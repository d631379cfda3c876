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
        size_t from = 0, to = t->n;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (t->hosts[middle].id < id)
                        from = middle + 1;
                else
                        to = middle;
        }
        if (from < t->n && t->hosts[from].id == id)
                return &t->hosts[from];
        if (grow(&t->hosts, &t->size, t->n + 1, sizeof(*t->hosts)) < 0)
                return NULL;
        memmove(t->hosts + from + 1, t->hosts + from, (t->n - from) * sizeof(*t->hosts));
        t->hosts[from] = (struct stale_host) { .id = id };
        t->n++;
        return &t->hosts[from];
}

static struct stale_series *series_of(struct stale_host *h, uint32_t id) {
        size_t from = 0, to = h->n;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (h->series[middle].id < id)
                        from = middle + 1;
                else
                        to = middle;
        }
        if (from < h->n && h->series[from].id == id)
                return &h->series[from];
        if (grow(&h->series, &h->size, h->n + 1, sizeof(*h->series)) < 0)
                return NULL;
        memmove(h->series + from + 1, h->series + from, (h->n - from) * sizeof(*h->series));
        h->series[from] = (struct stale_series) { .id = id };
        h->n++;
        return &h->series[from];
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
