/* SPDX-License-Identifier: Apache-2.0 */
#include "jobs.h"
#include "run_lines_state.h"

#define MAGIC "tpu-run-lines 1\n"
#define LINE_SIZE 320

struct run_lines_part *run_lines_part(struct run_lines_state *s, const char *run, const char *invocation) {
        struct run_lines_part *p = NULL, *oldest = &s->parts[0];

        for (size_t i = 0; i < s->n && !p; i++) {
                if (streq(s->parts[i].invocation, invocation) && streq(s->parts[i].run, run))
                        p = &s->parts[i];
                if (s->parts[i].used < oldest->used)
                        oldest = &s->parts[i];
        }
        if (!p) {
                p = s->n < RUN_LINES_PARTS_MAX ? &s->parts[s->n++] : oldest;
                *p = (struct run_lines_part) { 0 };
                (void) snprintf(p->run, sizeof(p->run), "%s", run);
                (void) snprintf(p->invocation, sizeof(p->invocation), "%s", invocation);
        }
        p->used = ++s->clock;
        return p;
}

static int take_line(struct run_lines_state *s, char *line) {
        struct run_lines_part *p;
        char *run, *invocation, *number, *end, *rest = line;
        size_t n = strcspn(line, "\n");

        if (line[n] != '\n')
                return -EBADMSG;
        line[n] = '\0';
        if (startswith(line, "cursor ")) {
                if (n - strlen("cursor ") >= sizeof(s->cursor))
                        return -EBADMSG;
                memcpy(s->cursor, line + strlen("cursor "), n - strlen("cursor ") + 1);
                return 0;
        }
        if (!streq(strsep(&rest, " "), "part"))
                return -EBADMSG;
        run = strsep(&rest, " ");
        invocation = rest ? strsep(&rest, " ") : NULL;
        number = rest;
        if (!number || !job_name_valid(run) || strlen(invocation) >= sizeof(p->invocation) ||
            s->n >= RUN_LINES_PARTS_MAX)
                return -EBADMSG;
        errno = 0;
        p = run_lines_part(s, run, invocation);
        p->number = strtoull(number, &end, 10);
        return *number < '0' || *number > '9' || *end || errno ? -EBADMSG : 0;
}

int run_lines_load(const char *path, struct run_lines_state *s) {
        FILE *f = fopen(path, "re");
        char line[LINE_SIZE];
        int r = 0;

        *s = (struct run_lines_state) { 0 };
        if (!f)
                return -errno;
        if (!fgets(line, sizeof(line), f) || !streq(line, MAGIC))
                r = -EBADMSG;
        while (r == 0 && fgets(line, sizeof(line), f))
                r = take_line(s, line);
        if (r == 0 && (ferror(f) || !s->cursor[0]))
                r = -EBADMSG;
        (void) fclose(f);
        if (r < 0)
                *s = (struct run_lines_state) { 0 };
        return r;
}

int run_lines_save(const char *path, const struct run_lines_state *s) {
        _cleanup_free_ char *beside = NULL;
        FILE *f;
        int r = 0;

        if (asprintf(&beside, "%s.new", path) < 0) {
                beside = NULL;
                return -ENOMEM;
        }
        f = fopen(beside, "we");
        if (!f)
                return -errno;
        (void) fprintf(f, MAGIC "cursor %s\n", s->cursor);
        for (size_t i = 0; i < s->n; i++)
                (void) fprintf(f, "part %s %s %" PRIu64 "\n", s->parts[i].run,
                               s->parts[i].invocation[0] ? s->parts[i].invocation : "-", s->parts[i].number);
        if (ferror(f))
                r = -EIO;
        if (fclose(f) == EOF && r == 0)
                r = -errno;
        if (r == 0 && rename(beside, path) < 0)
                r = -errno;
        if (r < 0)
                (void) unlink(beside);
        return r;
}
