/* SPDX-License-Identifier: Apache-2.0 */
#include "chip_table.h"

#include <math.h>
#include <stdlib.h>

#include "json_text.h"

static const struct {
        enum libtpu_metric id;
        enum chip_value value;
} taken[] = {
        { LIBTPU_HBM_USAGE, CHIP_HBM_USED },
        { LIBTPU_HBM_LIMIT, CHIP_HBM_TOTAL },
        { LIBTPU_DUTY_CYCLE, CHIP_DUTY_CYCLE },
        { LIBTPU_IDLE, CHIP_IDLE },
};
_Static_assert(ELEMENTSOF(taken) == _CHIP_VALUE_MAX, "each value comes from one metric");

/* NULL: there is no room for another. */
static struct chip_row *row_of(struct chip_table *t, unsigned port, const char *chip) {
        struct chip_row *row;

        for (size_t i = 0; i < t->n; i++)
                if (t->rows[i].port == port && streq(t->rows[i].chip, chip))
                        return &t->rows[i];
        if (t->n >= CHIP_ROWS_MAX || strlen(chip) >= CHIP_NAME_MAX)
                return NULL;
        row = &t->rows[t->n++];
        row->port = port;
        (void) snprintf(row->chip, sizeof(row->chip), "%s", chip);
        for (size_t i = 0; i < _CHIP_VALUE_MAX; i++)
                row->values[i] = NAN;
        return row;
}

void chip_table_take(struct chip_table *t, unsigned port, enum libtpu_metric id,
                     const struct libtpu_point *p) {
        for (size_t i = 0; i < ELEMENTSOF(taken); i++) {
                struct chip_row *row;

                if (taken[i].id != id)
                        continue;
                row = row_of(t, port, p->values[0]);
                if (row)
                        row->values[taken[i].value] = p->sample.is_int ? (double) p->sample.i : p->sample.d;
        }
}

void chip_table_forget(struct chip_table *t, unsigned port) {
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++)
                if (t->rows[i].port != port)
                        t->rows[n++] = t->rows[i];
        t->n = n;
}

static int compare_rows(const void *a, const void *b) {
        const struct chip_row *x = a, *y = b;

        /* Chips are numbers, as a rule. */
        return COMPARE(x->port, y->port) ?: COMPARE(strlen(x->chip), strlen(y->chip)) ?:
                                            strcmp(x->chip, y->chip);
}

static json_t *value_json(double v) {
        return isfinite(v) ? json_real(v) : json_null();
}

json_t *chip_table_to_json(const struct chip_table *t, const uint16_t *ports) {
        struct chip_table sorted = *t;
        json_t *list = json_array();

        qsort(sorted.rows, sorted.n, sizeof(*sorted.rows), compare_rows);
        for (size_t i = 0; i < sorted.n; i++) {
                const struct chip_row *r = &sorted.rows[i];

                list = json_list_add(
                        list, json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:o}", "process", (int) r->port,
                                        "port", (int) ports[r->port], "chip", r->chip, "hbm_used_bytes",
                                        value_json(r->values[CHIP_HBM_USED]), "hbm_total_bytes",
                                        value_json(r->values[CHIP_HBM_TOTAL]), "duty_cycle",
                                        value_json(r->values[CHIP_DUTY_CYCLE]), "idle_seconds",
                                        value_json(r->values[CHIP_IDLE])));
        }
        return list;
}
