/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_set.h"

static bool one_slice(const struct evidence *e) {
        for (size_t i = 1; i < e->n_hosts; i++)
                if (!streq(e->hosts[i].slice, e->hosts[0].slice))
                        return false;
        return true;
}

static bool follows(const struct seen_host *a, const struct seen_host *b) {
        return a->worker != CAPTURE_WORKER_NONE && b->worker == a->worker + 1 && streq(a->slice, b->slice);
}

/* The range that begins at i; returns where it ends. */
static size_t range(const struct evidence *e, const bool *in, size_t i) {
        while (i + 1 < e->n_hosts && in[i + 1] && follows(&e->hosts[i], &e->hosts[i + 1]))
                i++;
        return i;
}

static void print_range(FILE *f, const struct seen_host *first, const struct seen_host *last) {
        if (first->worker == CAPTURE_WORKER_NONE)
                fputs(!first->who ? "?" : first->who->host[0] ? first->who->host : "unnamed", f);
        else if (first == last)
                fprintf(f, "%" PRIu32, first->worker);
        else
                fprintf(f, "%" PRIu32 "-%" PRIu32, first->worker, last->worker);
}

void rank_set_print(FILE *f, const struct evidence *e, const bool *in, unsigned parts) {
        const struct seen_host *before = NULL;
        bool one = one_slice(e);
        unsigned n = 0;

        if (one)
                fputc('[', f);
        for (size_t i = 0, end; i < e->n_hosts; i = end + 1) {
                const struct seen_host *h = &e->hosts[i];

                end = i;
                if (!in[i])
                        continue;
                end = range(e, in, i);
                if (!one && (!before || !streq(before->slice, h->slice)))
                        fprintf(f, "%s%s[", before ? "] " : "", h->slice[0] ? h->slice : "?");
                else if (before)
                        fputc(',', f);
                before = h;
                if (n++ == parts) {
                        fputs("…", f);
                        break;
                }
                print_range(f, h, &e->hosts[end]);
        }
        if (one || before)
                fputc(']', f);
}
