/* SPDX-License-Identifier: Apache-2.0 */
/* Any file in place of the agent's memory: it is refused with a reason, or what is read of it is written and
 * read alike. */
#include <assert.h>

#include "health_file.h"

#define NOW ((usec_t) 1795237200000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct health_memory *m) {
        char why[STATE_FILE_WHY_MAX];
        struct health_memory again = { 0 };
        struct check_table t;
        char *text;

        if (check_table_init(&t) < 0)
                return;
        text = health_file_format(&m->orders, &t, m->same_boot ? m->state : HOST_UNKNOWN, "b1", NOW);
        if (text) {
                assert(health_file_parse(text, strlen(text), "b1", &again, why) == 0);
                assert(again.same_boot && again.bad == 0);
                assert(again.orders.n == m->orders.n);
                for (size_t i = 0; i < again.orders.n; i++) {
                        assert(again.orders.items[i].kind == m->orders.items[i].kind);
                        assert(streq(again.orders.items[i].reason, m->orders.items[i].reason));
                }
        }
        health_memory_clear(&again);
        free(text);
        check_table_clear(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char why[STATE_FILE_WHY_MAX] = "";
        struct health_memory m = { 0 };
        int r = health_file_parse((const char *) data, size, "b1", &m, why);

        assert(r == 0 || r == -EBADMSG || r == -ENOMEM);
        assert(r == 0 || r == -ENOMEM || (why[0] && strlen(why) < sizeof(why)));
        if (r == 0) {
                assert(m.orders.n <= ORDERS_MAX);
                check_again(&m);
                health_memory_clear(&m);
        }
        return 0;
}
