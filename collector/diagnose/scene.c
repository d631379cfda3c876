/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <ctype.h>

#include "grow.h"

void scene_clear(struct scene *s) {
        for (size_t i = 0; i < s->n_captures; i++)
                host_capture_clear(&s->captures[i]);
        free(s->captures);
        stack_table_clear(&s->table);
        *s = SCENE_NULL;
}

int scene_add(struct scene *s, struct host_capture *c) {
        int r = s->n_captures >= SCENE_CAPTURES_MAX
                        ? -E2BIG
                        : grow(&s->captures, &s->captures_size, s->n_captures + 1, sizeof(*s->captures));

        if (r < 0) {
                host_capture_clear(c);
                return r;
        }
        s->captures[s->n_captures++] = *c;
        host_capture_init(c); /* its arrays are the scene's now */
        return 0;
}

#define HOSTS_MAX 65536u

void seen_hosts_clear(struct seen_hosts *h) {
        free(h->items);
        *h = SEEN_HOSTS_NULL;
}

/* Like strcmp(), with numbers in order: "host9" before "host10". */
static int natural_compare(const char *a, const char *b) {
        while (*a && *b) {
                if (isdigit((unsigned char) *a) && isdigit((unsigned char) *b)) {
                        size_t n, k;

                        a += strspn(a, "0");
                        b += strspn(b, "0");
                        n = strspn(a, "0123456789");
                        k = strspn(b, "0123456789");
                        if (n != k)
                                return n < k ? -1 : 1;
                        if (strncmp(a, b, n) != 0)
                                return strncmp(a, b, n);
                        a += n;
                        b += k;
                } else if (*a != *b)
                        return (unsigned char) *a < (unsigned char) *b ? -1 : 1;
                else {
                        a++;
                        b++;
                }
        }
        return (*a != 0) - (*b != 0);
}

/* --- Hosts ----------------------------------------------------------------------------------------- */

/* Who it is; equal names differ by their bytes at least ("h1", "h01"). A worker's number says who it is,
 * whatever its name. */
static int compare_identity(const struct host_capture *a, const struct host_capture *b) {
        int r = natural_compare(a->slice, b->slice) ?: strcmp(a->slice, b->slice) ?:
                                                        COMPARE(a->worker, b->worker);

        if (r != 0 || a->worker != CAPTURE_WORKER_NONE)
                return r;
        return natural_compare(a->host, b->host) ?: strcmp(a->host, b->host);
}

/* Of two captures of one host and one round, the later one counts; what decides between equals is any order
 * that does not depend on who came first. */
static int compare_captures(const void *x, const void *y) {
        const struct host_capture *a = *(const struct host_capture *const *) x,
                                  *b = *(const struct host_capture *const *) y;
        int r = compare_identity(a, b) ?: COMPARE(a->round, b->round) ?: COMPARE(a->taken, b->taken);

        return r ?: strcmp(a->host, b->host) ?: COMPARE(a->n_processes, b->n_processes) ?:
                                                COMPARE(a->n_threads, b->n_threads);
}

static int add_host(struct seen_hosts *h, const char *slice, uint32_t worker) {
        int r = h->n >= HOSTS_MAX ? -E2BIG : grow(&h->items, &h->size, h->n + 1, sizeof(*h->items));

        if (r < 0)
                return r;
        h->items[h->n] = (struct seen_host){ .worker = worker };
        (void) snprintf(h->items[h->n++].slice, CAPTURE_NAME_MAX, "%s", slice);
        return 0;
}

/* The workers below `until` who have no capture, from the one behind the last host on. */
static int add_silent(struct seen_hosts *h, const char *slice, uint32_t until) {
        const struct seen_host *last = h->n > 0 ? &h->items[h->n - 1] : NULL;
        uint32_t from = last && last->worker != CAPTURE_WORKER_NONE ? last->worker + 1 : 0;
        int r = 0;

        for (uint32_t w = from; w < until && r == 0; w++) {
                r = add_host(h, slice, w);
                h->n_silent += r == 0;
        }
        return r;
}

static void take_capture(struct seen_host *h, const struct host_capture *c) {
        if (!h->who || !c->silent)
                h->who = c;
        if (!c->silent)
                h->capture[c->round] = h->last = c;
}

static int gather_hosts(struct seen_hosts *h, const struct host_capture **sorted, size_t n,
                        const char *slice, uint32_t hosts) {
        bool numbered = n > 0 && hosts > 0 && sorted[n - 1]->worker != CAPTURE_WORKER_NONE &&
                        streq(sorted[0]->slice, sorted[n - 1]->slice);
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                const struct host_capture *c = sorted[i];
                bool known = i > 0 && compare_identity(sorted[i - 1], c) == 0;

                if (!known && numbered)
                        r = add_silent(h, c->slice, MIN(c->worker, hosts));
                if (r == 0 && !known)
                        r = add_host(h, c->slice, c->worker);
                if (r == 0)
                        take_capture(&h->items[h->n - 1], c);
        }
        for (size_t i = 0; i < h->n; i++)
                h->n_silent += h->items[i].who && !h->items[i].last;
        if (r == 0 && numbered)
                r = add_silent(h, sorted[n - 1]->slice, hosts);
        else if (r == 0 && n == 0)
                r = add_silent(h, slice ? slice : "", hosts);
        for (size_t i = 0; r == 0 && !numbered && n > 0 && h->n < hosts && i < hosts; i++) {
                r = add_host(h, sorted[0]->slice, CAPTURE_WORKER_NONE); /* it is not known which ones */
                h->n_silent += r == 0;
        }
        return r;
}

int seen_hosts_gather(struct seen_hosts *h, const struct scene *s, const char *slice, uint32_t hosts) {
        _cleanup_free_ const struct host_capture **sorted = calloc(s->n_captures + 1, sizeof(*sorted));
        size_t n = 0;

        if (!sorted)
                return -ENOMEM;
        h->scene = s;
        for (size_t i = 0; i < s->n_captures; i++)
                if (!slice || !s->captures[i].slice[0] || streq(s->captures[i].slice, slice))
                        sorted[n++] = &s->captures[i];
        if (n > 1)
                qsort(sorted, n, sizeof(*sorted), compare_captures);
        return gather_hosts(h, sorted, n, slice, hosts);
}
