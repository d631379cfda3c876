/* SPDX-License-Identifier: Apache-2.0 */
#include "writers.h"

#include "utf8.h"

#define OURS "tpu-netcfg"

/* A record that is whole. */
static bool copy_record(const struct writer_record *shared, struct writer_record *ret) {
        __u64 at = __atomic_load_n(&shared->at, __ATOMIC_ACQUIRE);

        memcpy(ret, shared, sizeof(*ret));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        ret->name[sizeof(ret->name) - 1] = ret->folder[sizeof(ret->folder) - 1] = '\0';
        ret->comm[sizeof(ret->comm) - 1] = ret->group[sizeof(ret->group) - 1] = '\0';
        ret->command[sizeof(ret->command) - 1] = '\0';
        return at != 0 && ret->at == at && __atomic_load_n(&shared->at, __ATOMIC_RELAXED) == at;
}

static bool is_meant(const struct writer_record *r, const struct writer_query *q) {
        if (r->at / NSEC_PER_USEC < q->since || streq(r->comm, OURS))
                return false;
        switch (q->kind) {
        case WRITER_SYSCTL:
                return streq(r->name, q->name) && streq(r->folder, q->folder);
        case WRITER_LINK:
        case WRITER_FEATURE:
                return r->name[0] ? streq(r->name, q->name) : q->index > 0 && r->index == q->index;
        case WRITER_ROUTE:
        case WRITER_RULE:
                return true;
        case WRITER_KINDS:
                break;
        }
        return false;
}

/* It goes into events and to the collector: from what may be a secret on nothing is shown. */
static void hide_secrets(char *line) {
        static const char *const words[] = { "pass", "secret", "token", "psk", "credential" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                char *at = strcasestr(line, words[i]);

                while (at && at > line && at[-1] != ' ')
                        at--;
                if (at)
                        (void) snprintf(at, strlen(at) + 1, "%s", "...");
        }
}

/* Arguments have a NUL behind each, and the last are cut. */
static void put_command(const struct writer_record *r, char ret[static WRITER_COMMAND_MAX]) {
        char line[WRITER_COMMAND_MAX];
        size_t len = sizeof(line) - 1;

        memcpy(line, r->command, sizeof(line));
        while (len > 0 && line[len - 1] == '\0')
                len--;
        for (size_t i = 0; i < len; i++)
                line[i] = line[i] ? line[i] : ' ';
        line[len] = '\0';
        hide_secrets(line);
        utf8_copy_line(ret, WRITER_COMMAND_MAX, len > 0 ? line : r->comm);
}

bool writers_find(const struct writers_figures *f, const struct writer_query *q, struct writer *ret) {
        struct writer_record found[WRITERS_KEPT];
        const struct writer_record *best = NULL;
        unsigned most = 0;
        size_t n = 0;

        for (size_t i = 0; i < WRITERS_KEPT; i++)
                if (copy_record(&f->kept[q->kind][i], &found[n]) && is_meant(&found[n], q))
                        n++;
        for (size_t i = 0; i < n; i++) {
                unsigned times = 0;

                for (size_t k = 0; k < n; k++)
                        times += streq(found[k].group, found[i].group);
                if (times > most || (times == most && found[i].at > best->at)) {
                        most = times;
                        best = &found[i];
                }
        }
        if (!best)
                return false;
        *ret = (struct writer) { .pid = best->pid, .parent = best->parent };
        utf8_copy_line(ret->group, sizeof(ret->group), best->group);
        put_command(best, ret->command);
        return true;
}
