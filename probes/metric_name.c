/* SPDX-License-Identifier: Apache-2.0 */
#include "metric_name.h"

#include <ctype.h>

void metric_underscore(char *s) {
        for (; *s; s++)
                if (!isalnum((unsigned char) *s))
                        *s = '_';
}

/*
 * What the conventions and Prometheus name differently: every dashboard and alert for a process reads the
 * names of Prometheus' client libraries.
 */
static const struct {
        const char *name, *family;
} client_names[] = {
        { "process.cpu.time", "process_cpu_seconds" },
        { "process.memory.usage", "process_resident_memory_bytes" },
};

/* UCUM units as Prometheus spells them; a unit in braces ({packet}) is a remark and none. */
static const char *unit_name(const struct sample *m) {
        static const struct {
                const char *unit, *suffix;
        } table[] = {
                { "By", "bytes" },
                { "s", "seconds" },
                { "ms", "milliseconds" },
                { "Hz", "hertz" },
                { "Cel", "celsius" },
                { "W", "watts" },
                { "J", "joules" },
                { "%", "percent" },
                { "bit/s", "bits_per_second" },
                { "By/s", "bytes_per_second" },
        };

        if (!m->unit)
                return "";
        if (m->unit[0] == '{') /* a remark: "{token}/s" is a rate all the same */
                return strstr(m->unit, "}/s") ? "per_second" : "";
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].unit, m->unit))
                        return table[i].suffix;
        return streq(m->unit, "1") && m->kind == SAMPLE_GAUGE ? "ratio" : "";
}

/* Whether the last of the words that underscores part is this one. */
static bool ends_with(const char *s, const char *word) {
        size_t a = strlen(s), b = strlen(word);

        return a > b && s[a - b - 1] == '_' && streq(s + a - b, word);
}

/* "x_count" of {cpu} → "x_cpus". */
static void name_what_is_counted(const struct sample *m, char buf[static METRIC_NAME_MAX]) {
        size_t len = strlen(buf) - strlen("count"), n = m->unit ? strlen(m->unit) : 0;

        if (n <= 2 || m->unit[0] != '{' || len + n >= METRIC_NAME_MAX)
                return;
        (void) snprintf(buf + len, METRIC_NAME_MAX - len, "%.*ss", (int) n - 2, m->unit + 1);
        metric_underscore(buf);
}

int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]) {
        const char *unit = unit_name(m), *name = m->name;
        size_t len;

        for (size_t i = 0; i < ELEMENTSOF(client_names); i++)
                if (streq(name, client_names[i].name))
                        name = client_names[i].family;
        len = strlen(name);
        if (len + 1 + strlen(unit) >= METRIC_NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(buf, name, len + 1);
        metric_underscore(buf);
        if (m->kind == SAMPLE_GAUGE && ends_with(buf, "count"))
                name_what_is_counted(m, buf);
        if (unit[0] && !ends_with(buf, unit))
                (void) snprintf(buf + len, METRIC_NAME_MAX - len, "_%s", unit);
        return 0;
}
