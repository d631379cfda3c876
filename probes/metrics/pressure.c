/* SPDX-License-Identifier: Apache-2.0 */
#include "pressure.h"

static const char *const names[] = { "cpu", "memory", "io", "irq" };
_Static_assert(ELEMENTSOF(names) == _PRESSURE_MAX, "a name a resource");

const char *pressure_resource_name(enum pressure_resource r) {
        return names[r];
}

void pressure_init(struct pressure_state *p) {
        for (size_t i = 0; i < _PRESSURE_MAX; i++)
                p->files[i] = SOURCE_NULL;
}

void pressure_close(struct pressure_state *p) {
        for (size_t i = 0; i < _PRESSURE_MAX; i++)
                source_close(&p->files[i]);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" */
bool pressure_total(const char *text, const char *kind, int64_t *ret_usec) {
        static const char key[] = " total=";
        size_t n = strlen(kind);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                const char *end, *total;

                line += *line == '\n';
                if (strncmp(line, kind, n) != 0 || line[n] != ' ')
                        continue;
                end = line + strcspn(line, "\n");
                total = strstr(line, key);
                if (!total || total >= end)
                        return false;
                total += strlen(key);
                return take_number(&total, ret_usec);
        }
        return false;
}

void pressure_look(struct pressure_state *p, const struct look *l) {
        static const char *const paths[] = { "/proc/pressure/cpu", "/proc/pressure/memory",
                                             "/proc/pressure/io", "/proc/pressure/irq" };
        char text[512];
        int64_t usec;

        for (size_t i = 0; i < _PRESSURE_MAX; i++) {
                /* A kernel without PSI, or with it switched off, says nothing. */
                if (source_read(&p->files[i], l->host, paths[i], text, sizeof(text)) < 0)
                        continue;
                if (pressure_total(text, "some", &usec))
                        put_double(l->sink, METRIC_PRESSURE, (double) usec / 1e6, names[i], "some", NULL);
                /* The CPU's own "full" is always 0 for a whole host. */
                if (i != PRESSURE_CPU && pressure_total(text, "full", &usec))
                        put_double(l->sink, METRIC_PRESSURE, (double) usec / 1e6, names[i], "full", NULL);
        }
}
