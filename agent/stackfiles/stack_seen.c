/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_seen.h"

#define MAGIC "tpu-stack-files 1\n"
#define LINE_SIZE 32

bool stack_seen_has(const struct stack_seen *s, uint64_t key) {
        for (size_t i = 0; i < s->n; i++)
                if (s->keys[i] == key)
                        return true;
        return false;
}

void stack_seen_add(struct stack_seen *s, uint64_t key) {
        if (s->n < STACK_SEEN_MAX) {
                s->keys[s->n++] = key;
                return;
        }
        s->keys[s->next] = key;
        s->next = (s->next + 1) % STACK_SEEN_MAX;
}

static int take_line(struct stack_seen *s, const char *line) {
        char *end;
        uint64_t key = strtoull(line, &end, 16);

        if (end != line + 16 || *end != '\n' || s->n >= STACK_SEEN_MAX)
                return -EBADMSG;
        stack_seen_add(s, key);
        return 0;
}

int stack_seen_load(const char *path, struct stack_seen *s) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        char line[LINE_SIZE];
        int r = 0;

        *s = (struct stack_seen){ .n = 0 };
        if (!f)
                return -errno;
        if (!fgets(line, sizeof(line), f) || !streq(line, MAGIC))
                return -EBADMSG;
        while (r == 0 && fgets(line, sizeof(line), f))
                r = take_line(s, line);
        if (r == 0 && ferror(f))
                r = -EIO;
        if (r < 0)
                *s = (struct stack_seen){ .n = 0 };
        return r;
}

static int write_all(FILE *f, const struct stack_seen *s) {
        bool failed;

        (void) fputs(MAGIC, f);
        for (size_t i = 0; i < s->n; i++)
                (void) fprintf(f, "%016" PRIx64 "\n", s->keys[(s->next + i) % s->n]);
        failed = ferror(f) != 0;
        return fclose(f) == 0 && !failed ? 0 : -EIO;
}

int stack_seen_save(const char *path, const struct stack_seen *s) {
        _cleanup_free_ char *beside = NULL;
        FILE *f;
        int r;

        if (asprintf(&beside, "%s.new", path) < 0) {
                beside = NULL;
                return -ENOMEM;
        }
        f = fopen(beside, "we");
        if (!f)
                return -errno;
        r = write_all(f, s);
        if (r == 0 && rename(beside, path) < 0)
                r = -errno;
        if (r < 0)
                (void) unlink(beside);
        return r;
}
