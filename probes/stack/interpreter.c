/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreter.h"

#include <assert.h>
#include <fcntl.h>

#include "elf_symbols.h"
#include "mapped_file.h"
#include "texts.h"

#define CANDIDATES_MAX 16u

struct candidates {
        /* the libpythons first, then the program, then other "python…" files */
        struct mapping *items[CANDIDATES_MAX];
        size_t n;
        struct mapping start; /* of the file that is visited: where its first byte is */
        char exe[MAPS_PATH_MAX + 16];
};

static void candidates_clear(struct candidates *c) {
        for (size_t i = 0; i < c->n; i++)
                free(c->items[i]);
}

/* 0: likeliest; -1: not at all. */
static int rank_mapping(const struct candidates *c, const struct mapping *m) {
        const char *name = strrchr(m->path, '/') + 1;

        if (startswith(name, "libpython"))
                return 0;
        if (streq(m->path, c->exe))
                return 1;
        return startswith(name, "python") ? 2 : -1;
}

static int add_candidate(struct candidates *c, const struct mapping *m) {
        int mine = rank_mapping(c, m);
        struct mapping *copy;
        size_t at = 0;

        if (mine < 0 || (c->n == CANDIDATES_MAX && rank_mapping(c, c->items[c->n - 1]) <= mine))
                return 0;
        if (c->n == CANDIDATES_MAX)
                free(c->items[--c->n]); /* many may have such names: a likelier one takes its place */
        copy = malloc(sizeof(*copy));
        if (!copy)
                return -ENOMEM;
        *copy = *m;
        while (at < c->n && rank_mapping(c, c->items[at]) <= mine)
                at++;
        memmove(&c->items[at + 1], &c->items[at], (c->n - at) * sizeof(c->items[0]));
        c->items[at] = copy;
        c->n++;
        return 0;
}

/* Only a file of which something can be run: data may have such names, too. */
static int consider_mapping(const struct mapping *m, void *userdata) {
        struct candidates *c = userdata;

        if (rank_mapping(c, m) < 0)
                return 0;
        if (m->offset == 0)
                c->start = *m;
        if (!m->executable || c->start.end == 0 || c->start.inode != m->inode ||
            c->start.device != m->device)
                return 0;
        if (add_candidate(c, &c->start) < 0)
                return -ENOMEM;
        c->start.end = 0; /* once */
        return 0;
}

const char *python_version_text(uint64_t version, char buf[static PYTHON_VERSION_MAX]) {
        unsigned v = (unsigned) version, level = v >> 4 & 0xF;
        const char *pre = level == 0xA ? "a" : level == 0xB ? "b" : level == 0xC ? "rc" : "";
        int n = snprintf(buf, PYTHON_VERSION_MAX, "%u.%u.%u", v >> 24, v >> 16 & 0xFF, v >> 8 & 0xFF);

        if (*pre)
                (void) snprintf(buf + n, (size_t) (PYTHON_VERSION_MAX - n), "%s%u", pre, v & 0xF);
        return buf;
}

int interpreter_reason(const struct process *p, int error, char why[static REASON_MAX]) {
        char state = process_state(p);

        if (state == 'Z')
                (void) snprintf(why, REASON_MAX,
                                "it has exited and waits for its parent to collect it (zombie)");
        else if (state == '\0' || state == 'X' || error == -ESRCH)
                (void) snprintf(why, REASON_MAX, "it ended while it was read");
        else if (error == -EPERM || error == -EACCES)
                (void) snprintf(
                        why, REASON_MAX,
                        "not permitted to read its memory: run as its own user, or with CAP_SYS_PTRACE "
                        "(and CAP_CHECKPOINT_RESTORE or CAP_DAC_READ_SEARCH for its files)");
        else if (error == -E2BIG)
                (void) snprintf(why, REASON_MAX, "it is larger than what is read of one process");
        else if (error == -EFAULT || error == -EBADMSG)
                (void) snprintf(why, REASON_MAX,
                                "its interpreter's memory does not hold what CPython keeps there");
        else
                (void) snprintf(why, REASON_MAX, "%s", strerror(-error));
        return error;
}

/* --- The version of one that has no Py_Version --------------------------------------------------------- */

#define CHUNK 65536u
#define LONGEST 24u /* bytes of the text that are looked at */

/* Digits, at most three. */
static bool take_digits(const char **p, const char *end, unsigned *ret) {
        const char *start = *p;
        unsigned v = 0;

        for (; *p < end && **p >= '0' && **p <= '9' && *p - start < 3; (*p)++)
                v = v * 10 + (unsigned) (**p - '0');
        *ret = v;
        return *p > start;
}

static bool take_char(const char **p, const char *end, char c) {
        if (*p == end || **p != c)
                return false;
        (*p)++;
        return true;
}

bool version_parse(const char *text, size_t len, uint64_t *ret) {
        const char *p = text, *end = text + len;
        unsigned major, minor, micro, level = 0xF, serial = 0;

        if (!take_digits(&p, end, &major) || !take_char(&p, end, '.') || !take_digits(&p, end, &minor) ||
            !take_char(&p, end, '.') || !take_digits(&p, end, &micro))
                return false;
        if (take_char(&p, end, 'a'))
                level = 0xA;
        else if (take_char(&p, end, 'b'))
                level = 0xB;
        else if (take_char(&p, end, 'r') && take_char(&p, end, 'c'))
                level = 0xC;
        if (level != 0xF && !take_digits(&p, end, &serial))
                return false;
        (void) take_char(&p, end, '+'); /* built between two releases */
        if (!take_char(&p, end, ' ') || !take_char(&p, end, '('))
                return false;
        if (major > 255 || minor > 255 || micro > 255 || serial > 15)
                return false;
        *ret = (uint64_t) major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
        return true;
}

/* The texts in one chunk; each begins after a NUL. */
static int search_chunk(const char *buf, size_t n, uint64_t address, uint64_t *version, uint64_t *at) {
        for (const char *p = buf; p + 1 < buf + n && (p = memchr(p, '\0', (size_t) (buf + n - p - 1)));
             p++) {
                uint64_t v;

                if (p[1] != '3' ||
                    !version_parse(p + 1, MIN((size_t) (buf + n - p - 1), (size_t) LONGEST), &v))
                        continue;
                if (*version != 0 && *version != v)
                        return -ENOTUNIQ;
                *version = v;
                *at = address + (uint64_t) (p + 1 - buf);
        }
        return 0;
}

/*
 * Searches size bytes at address. -ENOENT: no such text; -ENOTUNIQ: texts of two different versions; else as
 * memory_read(). *ret_at: where the text is.
 */
static int version_search(struct memory *m, uint64_t address, uint64_t size, uint64_t *ret,
                          uint64_t *ret_at) {
        char buf[CHUNK];
        uint64_t version = 0, at = 0;

        size = MIN(size, (uint64_t) VERSION_DATA_MAX);
        for (uint64_t done = 0; done + LONGEST < size; done += CHUNK - LONGEST) {
                struct iovec local = { buf, MIN(size - done, (uint64_t) CHUNK) },
                             remote = { (void *) (uintptr_t) (address + done), local.iov_len };
                ssize_t n = m->source.readv(m->source.userdata, &local, &remote, 1);
                int r;

                if (n < 0)
                        return (int) n;
                r = search_chunk(buf, (size_t) n, address + done, &version, &at);
                if (r < 0)
                        return r;
        }
        if (!version)
                return -ENOENT;
        *ret = version;
        *ret_at = at;
        return 0;
}

/* --- The interpreter ----------------------------------------------------------------------------------- */

/* What the interpreter says of itself, where its version does, takes the place of the table. */
static int take_description(struct memory *m, struct interpreter *i, char why[static REASON_MAX]) {
        char text[PYTHON_VERSION_MAX];
        uint8_t bytes[LAYOUT_DEBUG_MAX];
        int r;

        if (i->layout->debug.size == 0)
                return 0;
        assert(i->layout->debug.size <= sizeof(bytes));
        r = memory_read(m, i->runtime, bytes, i->layout->debug.size);
        if (r < 0)
                return r;
        r = python_layout_describe(i->layout, i->version, bytes, &i->described);
        if (r == -EOPNOTSUPP)
                (void) snprintf(why, REASON_MAX,
                                "CPython %s without the GIL (free-threaded) is not supported yet",
                                python_version_text(i->version, text));
        else if (r < 0)
                (void) snprintf(
                        why, REASON_MAX,
                        "its CPython %s does not describe itself (_Py_DebugOffsets) as that version does: "
                        "not read, for a guess could be wrong",
                        python_version_text(i->version, text));
        if (r == 0)
                i->layout = &i->described;
        return r;
}

/* Takes the version at version_at, or finds it in the data: sets the layout, or says why not. */
static int take_version(struct memory *m, struct interpreter *i, uint64_t data, uint64_t data_size,
                        char why[static REASON_MAX]) {
        char text[PYTHON_VERSION_MAX];
        int r = i->version_at ? memory_read_u64(m, i->version_at, &i->version)
                              : version_search(m, data, data_size, &i->version, &i->version_at);

        if (r == -ENOENT || r == -ENOTUNIQ) {
                (void) snprintf(why, REASON_MAX, "which CPython it is, is not known (%s); supported: %s",
                                r == -ENOENT ? "no Py_Version, nor the text of sys.version"
                                             : "two texts like sys.version",
                                python_layout_supported);
                return -EOPNOTSUPP;
        }
        if (r == 0)
                r = memory_read_u64(m, i->version_at, &i->version_raw);
        if (r < 0)
                return r;
        i->layout = python_layout_find(i->version);
        if (i->layout)
                return take_description(m, i, why);
        return text_fail(why, REASON_MAX, -EOPNOTSUPP, "CPython %s is not supported yet; supported: %s",
                         python_version_text(i->version, text), python_layout_supported);
}

enum { RUNTIME, VERSION, CODE, UNICODE, BYTES, SYMBOLS };

/* What the file does not export may still be in its own tables. */
static int search_file(const struct process *p, struct memory *m, const struct mapping *map,
                       struct elf_symbol symbols[static SYMBOLS], struct elf_answer *ret,
                       char why[static REASON_MAX]) {
        _cleanup_close_ int fd = mapped_file_open(p, m, map);
        int r;

        if (fd == -ESTALE || fd == -ENOENT)
                (void) snprintf(
                        why, REASON_MAX,
                        "the file it runs, %.150s, was replaced or deleted, and opening the old one needs "
                        "CAP_CHECKPOINT_RESTORE",
                        map->path);
        if (fd < 0)
                return fd;
        r = elf_symbols_find(fd, symbols, SYMBOLS, ".PyRuntime", ret);
        if (r == -ENOPKG)
                (void) snprintf(why, REASON_MAX,
                                "a stripped program needs libelf.so.1 (the package libelf1)");
        return r;
}

/* -ENOENT: this file holds no interpreter. */
static int look_into_mapping(const struct process *p, struct memory *m, const struct mapping *map,
                     struct interpreter *ret, char why[static REASON_MAX]) {
        struct elf_symbol s[SYMBOLS] = { [RUNTIME] = { "_PyRuntime", 0 },
                                         [VERSION] = { "Py_Version", 0 },
                                         [CODE] = { "PyCode_Type", 0 },
                                         [UNICODE] = { "PyUnicode_Type", 0 },
                                         [BYTES] = { "PyBytes_Type", 0 } };
        struct elf_answer answer = { 0 };
        uint64_t bias, runtime;
        int r = elf_mapped_find(m, map->start, s, SYMBOLS, &answer);

        if (r == -ESRCH || r == -EPERM)
                return r;
        if (r < 0 || !s[RUNTIME].value)
                r = search_file(p, m, map, s, &answer, why);
        if (r < 0)
                return r;
        /* a stripped program still has the section */
        runtime = s[RUNTIME].value ? s[RUNTIME].value : answer.section;
        if (!runtime && s[CODE].value)
                return text_fail(why, REASON_MAX, -EOPNOTSUPP,
                                 "CPython before 3.7 is not supported; supported: %s",
                                 python_layout_supported);
        if (!runtime)
                return -ENOENT;
        bias = map->start - answer.first_address;
        *ret = (struct interpreter) { .runtime = runtime + bias };
        ret->version_at = s[VERSION].value ? s[VERSION].value + bias : 0;
        ret->types.code = s[CODE].value ? s[CODE].value + bias : 0;
        ret->types.unicode = s[UNICODE].value ? s[UNICODE].value + bias : 0;
        ret->types.bytes = s[BYTES].value ? s[BYTES].value + bias : 0;
        return take_version(m, ret, answer.data + bias, answer.data_size, why);
}

/* A library may be mapped and never started: the one with an interpreter counts. */
static bool is_started(struct memory *m, const struct interpreter *i) {
        uint64_t head;

        return memory_read_u64(m, i->runtime + i->layout->runtime.interpreters, &head) == 0 && head != 0;
}

static int choose_interpreter(const struct process *p, struct memory *m, const struct candidates *c,
                  struct interpreter *ret, char why[static REASON_MAX]) {
        int worst = -ENOENT;

        for (size_t i = 0; i < c->n; i++) {
                int r = look_into_mapping(p, m, c->items[i], ret, why);

                if (r == 0 && is_started(m, ret))
                        return 0;
                if (r == 0) {
                        (void) snprintf(why, REASON_MAX,
                                        "its CPython interpreter is not started yet, or already ended");
                        r = -EAGAIN;
                }
                if (r != -ENOENT && r != -ENOEXEC)
                        worst = r;
        }
        return worst;
}

int interpreter_find(const struct process *p, struct memory *m, struct interpreter *ret,
                     char why[static REASON_MAX]) {
        _cleanup_(candidates_clear) struct candidates c = { 0 };
        bool empty = false;
        int r;

        why[0] = '\0';
        mapped_file_program(p, c.exe, sizeof(c.exe));
        r = maps_visit(p, consider_mapping, &c, &empty);
        if (r == 0 && empty && !strchr("ZX", process_state(p)))
                return text_fail(why, REASON_MAX, -ENOENT,
                                 "no CPython interpreter in its memory map: it has none (a kernel thread)");
        if (r < 0 || empty)
                return interpreter_reason(p, r < 0 ? r : -ESRCH, why);
        r = choose_interpreter(p, m, &c, ret, why);
        if (r == -ENOENT && !why[0])
                (void) snprintf(why, REASON_MAX, "no CPython interpreter in its memory map");
        else if (r < 0 && !why[0])
                (void) interpreter_reason(p, r, why);
        return r;
}
