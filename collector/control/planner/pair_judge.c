/* SPDX-License-Identifier: Apache-2.0 */
#include "pair_judge.h"

#include <assert.h>

#define SLOW_TENTHS 7 /* of the median */
#define DEVIATIONS  4

/* --- What is slow -------------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/*
 * Where half of all is slow, as with one slow host of four, the median is of the others: of an even number
 * of rates it is the upper one of the middle two, and of their deviations the lower one.
 */
static void find_limit(uint64_t *numbers, size_t n, struct pair_judged *ret) {
        uint64_t median, spread;

        qsort(numbers, n, sizeof(numbers[0]), compare_numbers);
        median = numbers[n / 2];
        for (size_t i = 0; i < n; i++)
                numbers[i] = numbers[i] > median ? numbers[i] - median : median - numbers[i];
        qsort(numbers, n, sizeof(numbers[0]), compare_numbers);
        spread = MIN(numbers[(n - 1) / 2], median / DEVIATIONS) * DEVIATIONS;
        ret->median = median;
        ret->limit = MIN(median / 10 * SLOW_TENTHS, median - spread);
}

/* --- Who is blamed ------------------------------------------------------------------------------------- */

static struct pair_end *end_of(struct pair_host *hosts, unsigned i) {
        return i % 2 ? &hosts[i / 2].receives : &hosts[i / 2].sends;
}

static bool is_of_end(const struct pair_rate *r, unsigned end) {
        return (end % 2 ? r->to : r->from) == end / 2;
}

static void count_ends(const struct pair_rate *rates, size_t n, struct pair_host *hosts) {
        for (size_t i = 0; i < n; i++) {
                struct pair_end *ends[] = { &hosts[rates[i].from].sends, &hosts[rates[i].to].receives };

                for (size_t k = 0; k < ELEMENTSOF(ends); k++) {
                        ends[k]->measured++;
                        ends[k]->slow += rates[i].slow;
                        ends[k]->sum += rates[i].rate;
                }
        }
}

static void count_unexplained(struct pair_rate *rates, size_t n, struct pair_host *hosts, unsigned n_hosts) {
        for (unsigned e = 0; e < 2 * n_hosts; e++)
                end_of(hosts, e)->unexplained = 0;
        for (size_t i = 0; i < n; i++) {
                struct pair_end *sends = &hosts[rates[i].from].sends,
                                *receives = &hosts[rates[i].to].receives;

                rates[i].explained = rates[i].slow && (sends->blamed || receives->blamed);
                if (!rates[i].slow || rates[i].explained)
                        continue;
                sends->unexplained++;
                receives->unexplained++;
        }
}

/* That explains the most of what is left; of those alike the slower one. NULL: none explains anything. */
static struct pair_end *next_end(struct pair_host *hosts, unsigned n_hosts) {
        struct pair_end *best = NULL;

        for (unsigned e = 0; e < 2 * n_hosts; e++) {
                struct pair_end *x = end_of(hosts, e);

                if (x->measured < 2 || x->slow < x->measured || x->unexplained == 0)
                        continue;
                if (!best || x->unexplained > best->unexplained ||
                    (x->unexplained == best->unexplained &&
                     x->sum / x->measured < best->sum / best->measured))
                        best = x;
        }
        return best;
}

/* Whether each slow measurement of an end has another end that is blamed. */
static bool is_needless(const struct pair_rate *rates, size_t n, struct pair_host *hosts, unsigned end) {
        for (size_t i = 0; i < n; i++)
                if (rates[i].slow && is_of_end(&rates[i], end) &&
                    !(end % 2 ? &hosts[rates[i].from].sends : &hosts[rates[i].to].receives)->blamed)
                        return false;
        return true;
}

int pair_judge(struct pair_rate *rates, size_t n, struct pair_host *hosts, unsigned n_hosts,
               struct pair_judged *ret) {
        _cleanup_free_ uint64_t *numbers = calloc(MAX(n, (size_t) 1), sizeof(numbers[0]));
        struct pair_judged j = { 0 };
        struct pair_end *end;

        if (!numbers)
                return -ENOMEM;
        memset(hosts, 0, n_hosts * sizeof(hosts[0]));
        for (size_t i = 0; i < n; i++) {
                assert(rates[i].from < n_hosts && rates[i].to < n_hosts);
                numbers[i] = rates[i].rate;
        }
        if (n > 0)
                find_limit(numbers, n, &j);
        if (n_hosts < PAIR_HOSTS_MIN)
                j.limit = 0;
        for (size_t i = 0; i < n; i++) {
                rates[i].slow = rates[i].rate < j.limit;
                j.slow += rates[i].slow;
        }
        count_ends(rates, n, hosts);
        count_unexplained(rates, n, hosts, n_hosts);
        while ((end = next_end(hosts, n_hosts))) {
                end->blamed = true;
                count_unexplained(rates, n, hosts, n_hosts);
        }
        for (unsigned e = 0; e < 2 * n_hosts; e++)
                if (end_of(hosts, e)->blamed && is_needless(rates, n, hosts, e))
                        end_of(hosts, e)->blamed = false;
        count_unexplained(rates, n, hosts, n_hosts);
        *ret = j;
        return 0;
}
