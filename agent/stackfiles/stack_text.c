/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_text.h"

#include <assert.h>
#include <fcntl.h>

#include "fnv.h"
#include "state_file.h"
#include "utf8.h"

#define LINE_MAX_BYTES                                                                                      \
        2048 /* a longer one is none of faulthandler's: a name is cut at 500 characters there */

enum line_kind {
        LINE_FOREIGN,
        LINE_EMPTY,
        LINE_INFO,    /* of cloud-tpu-diagnostics */
        LINE_FATAL,   /* of a crash */
        LINE_TIMEOUT, /* of dump_traceback_later() */
        LINE_CURRENT, /* the thread that dumps, among others */
        LINE_THREAD,
        LINE_STACK, /* the thread that dumps, alone */
        LINE_C_STACK,
        LINE_FRAME,
        LINE_EXTENSIONS,
};

static const char *const kinds[_STACK_TEXT_KIND_MAX] = {
        [STACK_TEXT_SNAPSHOT] = "snapshot", [STACK_TEXT_TIMEOUT] = "timeout", [STACK_TEXT_CRASH] = "crash"
};

const char *stack_text_kind_name(enum stack_text_kind k) {
        return kinds[k];
}

/* --- Lines ------------------------------------------------------------------------------------------- */

static bool begins(const char *line, size_t len, const char *with) {
        size_t n = strlen(with);

        return len >= n && memcmp(line, with, n) == 0;
}

static bool ends(const char *line, size_t len, const char *with) {
        size_t n = strlen(with);

        return len >= n && memcmp(line + len - n, with, n) == 0;
}

/* `  File "PATH", line N in NAME`, `  <no Python frame>`, `  Garbage-collecting`, `  ...`, `  Binary file
 * "…", at …` */
static bool is_frame(const char *line, size_t len) {
        if (len < 5 || line[0] != ' ' || line[1] != ' ' || line[2] == ' ')
                return false;
        if (begins(line, len, "  File \"") || begins(line, len, "  File ???"))
                return memmem(line, len, ", line ", 7) != NULL;
        if (begins(line, len, "  Binary file \""))
                return memmem(line, len, ", at ", 5) != NULL;
        return begins(line, len, "  <") ? line[len - 1] == '>'
                                        : (len == 5 && begins(line, len, "  ...")) ||
                                                  begins(line, len, "  Garbage-collecting");
}

static enum line_kind classify(const char *line, size_t len) {
        if (len == 0)
                return LINE_EMPTY;
        if (len > LINE_MAX_BYTES)
                return LINE_FOREIGN;
        if (line[0] == ' ')
                return is_frame(line, len) ? LINE_FRAME : LINE_FOREIGN;
        if (begins(line, len, "Fatal Python error: "))
                return LINE_FATAL;
        if (begins(line, len, "INFO: Not a crash."))
                return LINE_INFO;
        if (begins(line, len, "Timeout (") && ends(line, len, ")!"))
                return LINE_TIMEOUT;
        if (begins(line, len, "Extension modules: "))
                return LINE_EXTENSIONS;
        if (!ends(line, len, "(most recent call first):"))
                return LINE_FOREIGN;
        if (begins(line, len, "Current thread 0x"))
                return LINE_CURRENT;
        if (begins(line, len, "Thread 0x"))
                return LINE_THREAD;
        if (begins(line, len, "Current thread's C stack trace"))
                return LINE_C_STACK;
        return begins(line, len, "Stack (") ? LINE_STACK : LINE_FOREIGN;
}

/* --- Snapshots --------------------------------------------------------------------------------------- */

struct building {
        struct stack_text *to;
        bool any, has_current, is_alone; /* any line of a stack; is_alone: of one thread */
        bool in_stack;                   /* frames belong to something */
        uint64_t ids[STACK_TEXT_THREADS_MAX];
        size_t n_ids;
};

static void add_line(struct building *b, const char *line, size_t len) {
        struct stack_text *t = b->to;

        if (len + 2 > sizeof(t->text) - t->len) {
                t->cut = true;
                return;
        }
        memcpy(t->text + t->len, line, len);
        for (size_t i = t->len; i < t->len + len; i++) /* a text has no NUL */
                if (t->text[i] == '\0')
                        t->text[i] = '?';
        (void) utf8_scrub(t->text + t->len, len);
        t->len += len;
        t->text[t->len++] = '\n';
        t->text[t->len] = '\0';
}

static uint64_t thread_id(const char *line, size_t len) {
        const char *x = memmem(line, len, "0x", 2);
        char digits[20];
        size_t n;

        if (!x)
                return 0;
        n = MIN((size_t) (line + len - x), sizeof(digits) - 1);
        memcpy(digits, x, n);
        digits[n] = '\0';
        return strtoull(digits, NULL, 16);
}

static bool knows_thread(const struct building *b, uint64_t id) {
        for (size_t i = 0; i < b->n_ids; i++)
                if (b->ids[i] == id)
                        return true;
        return false;
}

/* Whether this line is the first of the next snapshot. */
static bool begins_next(const struct building *b, enum line_kind k, const char *line, size_t len) {
        if (!b->any)
                return false;
        switch (k) {
        case LINE_FATAL:
        case LINE_TIMEOUT:
        case LINE_INFO:
        case LINE_FOREIGN:
                return true;
        case LINE_STACK:
                return b->to->threads > 0;
        case LINE_CURRENT:
                return b->has_current || b->is_alone || knows_thread(b, thread_id(line, len));
        case LINE_THREAD:
                return b->is_alone || knows_thread(b, thread_id(line, len)) ||
                       b->n_ids == STACK_TEXT_THREADS_MAX;
        case LINE_C_STACK:
        case LINE_FRAME:
        case LINE_EXTENSIONS:
        case LINE_EMPTY:
                break;
        }
        return false;
}

static void take_head(struct building *b, enum line_kind k, const char *line, size_t len) {
        struct stack_text *t = b->to;
        size_t prefix = strlen("Fatal Python error: ");

        if (k == LINE_TIMEOUT) {
                t->kind = STACK_TEXT_TIMEOUT;
                return;
        }
        t->kind = STACK_TEXT_CRASH;
        (void) snprintf(t->reason, sizeof(t->reason), "%.*s", (int) MIN(len - prefix, sizeof(t->reason) - 1),
                        line + prefix);
        (void) utf8_scrub(t->reason, strlen(t->reason));
}

static void take_thread(struct building *b, enum line_kind k, const char *line, size_t len) {
        b->to->threads++;
        b->in_stack = true;
        b->has_current |= k == LINE_CURRENT;
        b->is_alone |= k == LINE_STACK;
        if (k != LINE_STACK && b->n_ids < STACK_TEXT_THREADS_MAX)
                b->ids[b->n_ids++] = thread_id(line, len);
}

static void take_line(struct building *b, enum line_kind k, const char *line, size_t len) {
        struct stack_text *t = b->to;

        switch (k) {
        case LINE_FOREIGN:
        case LINE_EMPTY:
        case LINE_INFO:
                return;
        case LINE_FRAME:
                if (!b->in_stack)
                        return; /* of nothing */
                t->frames++;
                break;
        case LINE_EXTENSIONS:
                if (!b->any)
                        return;
                break;
        case LINE_FATAL:
        case LINE_TIMEOUT:
                take_head(b, k, line, len);
                break;
        case LINE_CURRENT:
        case LINE_THREAD:
        case LINE_STACK:
                take_thread(b, k, line, len);
                break;
        case LINE_C_STACK:
                b->in_stack = true;
                break;
        }
        b->any = true;
        add_line(b, line, len);
        t->hash = fnv(t->hash, &k, 1);
        if (k == LINE_FRAME || k == LINE_FATAL)
                t->hash = fnv(t->hash, line, len);
}

static void begin_snapshot(struct building *b, struct stack_text *t) {
        b->to = t;
        b->any = b->has_current = b->is_alone = b->in_stack = false;
        b->n_ids = 0;
        t->kind = STACK_TEXT_SNAPSHOT;
        t->reason[0] = t->text[0] = '\0';
        t->threads = t->frames = 0;
        t->hash = FNV_BEGIN;
        t->cut = false;
        t->len = 0;
}

/* A stack, or that it crashed: the words before it alone are nothing. */
static bool is_worth(const struct building *b) {
        return b->to->frames > 0 || b->to->kind == STACK_TEXT_CRASH;
}

int stack_text_next(const char *data, size_t len, bool end, size_t *at, struct stack_text *ret) {
        struct building b;
        size_t from = *at;

        begin_snapshot(&b, ret);
        while (from < len) {
                const char *line = data + from, *newline = memchr(line, '\n', len - from);
                size_t n = newline ? (size_t) (newline - line) : len - from;
                enum line_kind k;

                if (!newline && !end && n <= LINE_MAX_BYTES)
                        break; /* the rest of the line is to come */
                if (n > 0 && line[n - 1] == '\r')
                        n--;
                k = classify(line, n);
                if (begins_next(&b, k, line, n)) {
                        *at = from;
                        if (is_worth(&b))
                                return 1;
                        begin_snapshot(&b, ret);
                }
                take_line(&b, k, line, n);
                from = newline ? (size_t) (newline - data) + 1 : len;
                if (!b.any)
                        *at = from; /* nothing of it is looked at again */
        }
        if (!end || !b.any)
                return 0;
        *at = len;
        return is_worth(&b);
}

/* --- Which were reported ------------------------------------------------------------------------------- */

static const struct state_format seen_format = { .what = "stack-files",
                                                 .version = 1,
                                                 .max = STACK_SEEN_MAX * sizeof(uint64_t),
                                                 .options = { .mode = 0600, .lazy = true } };

bool stack_seen_has(const struct stack_seen *s, uint64_t key) {
        for (size_t i = 0; i < s->n; i++)
                if (s->keys[i] == key)
                        return true;
        return false;
}

void stack_seen_add(struct stack_seen *s, uint64_t key) {
        assert(s->n <= STACK_SEEN_MAX && s->next < STACK_SEEN_MAX);
        if (s->n < STACK_SEEN_MAX) {
                s->keys[s->n++] = key;
                return;
        }
        s->keys[s->next] = key;
        s->next = (s->next + 1) % STACK_SEEN_MAX;
}

int stack_seen_load(const char *path, struct stack_seen *s) {
        _cleanup_free_ char *keys = NULL;
        size_t len;
        int r = state_file_load(AT_FDCWD, path, &seen_format, &keys, &len);

        *s = (struct stack_seen){ .n = 0 };
        if (r < 0)
                return r;
        s->n = MIN(len / sizeof(s->keys[0]), (size_t) STACK_SEEN_MAX);
        memcpy(s->keys, keys, s->n * sizeof(s->keys[0]));
        return 0;
}

int stack_seen_save(const char *path, const struct stack_seen *s) {
        uint64_t keys[STACK_SEEN_MAX];

        for (size_t i = 0; i < s->n; i++)
                keys[i] = s->keys[(s->next + i) % s->n];
        return state_file_write(AT_FDCWD, path, &seen_format, keys, s->n * sizeof(keys[0]));
}
