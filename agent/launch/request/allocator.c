/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator.h"

#include <stdarg.h>

#include "host_stat.h"

#define THRESHOLD "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD"
#define SEPARATORS " :" /* ld.so(8): LD_PRELOAD is separated by blanks or colons */

static const char *const allocator_names[] = {
        [ALLOCATOR_AUTO] = "auto",
        [ALLOCATOR_TCMALLOC] = "tcmalloc",
        [ALLOCATOR_GLIBC] = "glibc",
};
_Static_assert(ELEMENTSOF(allocator_names) == _ALLOCATOR_MAX, "every allocator has a name");

int allocator_parse(const char *name, enum allocator *ret) {
        for (size_t i = 0; i < ELEMENTSOF(allocator_names); i++)
                if (streq(name, allocator_names[i]) || (i == ALLOCATOR_AUTO && name[0] == '\0')) {
                        *ret = (enum allocator) i;
                        return 0;
                }
        return -EINVAL;
}

static const char *find_variable(const struct environment *e, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; i < e->n; i++)
                if (strncmp(e->entries[i].assignment, name, n) == 0 && e->entries[i].assignment[n] == '=')
                        return e->entries[i].assignment + n + 1;
        return NULL;
}

static bool is_tcmalloc(const char *library, size_t len) {
        const char *base = memrchr(library, '/', len);

        base = base ? base + 1 : library;
        len -= (size_t) (base - library);
        return len >= strlen("libtcmalloc") && strncmp(base, "libtcmalloc", strlen("libtcmalloc")) == 0;
}

/* Whether the list names tcmalloc; the others are appended to *rest, which has room for the whole list. */
static bool split_preload(const char *list, char *rest) {
        bool found = false;

        *rest = '\0';
        for (const char *p = list + strspn(list, SEPARATORS); *p;) {
                size_t len = strcspn(p, SEPARATORS);

                if (is_tcmalloc(p, len))
                        found = true;
                else {
                        if (*rest)
                                strcat(rest, ":");
                        strncat(rest, p, len);
                }
                p += len;
                p += strspn(p, SEPARATORS);
        }
        return found;
}

static int set_variable(char **ret, const char *fmt, ...) _printf_(2, 3);
static int set_variable(char **ret, const char *fmt, ...) {
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vasprintf(ret, fmt, ap);
        va_end(ap);
        if (n >= 0)
                return 0;
        *ret = NULL;
        return -ENOMEM;
}

static int use_tcmalloc(const char *theirs, bool has_it, const char *reason, const struct environment *user,
                        struct allocator_choice *c) {
        int r = 0;

        (void) snprintf(c->note, sizeof(c->note), "tcmalloc (%s)", reason);
        if (!has_it)
                r = theirs && *theirs ?
                            set_variable(&c->preload, "LD_PRELOAD=%s:%s", ALLOCATOR_LIBRARY, theirs) :
                                        set_variable(&c->preload, "LD_PRELOAD=%s", ALLOCATOR_LIBRARY);
        if (r == 0 && !has_it && theirs && *theirs)
                r = set_variable(&c->conflict, "LD_PRELOAD: yours '%.200s' is loaded after tcmalloc",
                                 theirs);
        if (r == 0 && !find_variable(user, THRESHOLD))
                r = set_variable(&c->threshold, "%s=%s", THRESHOLD, ALLOCATOR_REPORT_THRESHOLD);
        return r;
}

/* Without tcmalloc: nothing may bring it in, be it the user's variable or one that every service of the host
 * inherits. */
static int use_glibc(const char *theirs, bool has_it, const char *rest, const char *reason,
                     struct allocator_choice *c) {
        int r;

        (void) snprintf(c->note, sizeof(c->note), "glibc (%s)", reason);
        if (theirs && !has_it)
                return 0;
        r = *rest ? set_variable(&c->preload, "LD_PRELOAD=%s", rest)
                  : set_variable(&c->preload, "LD_PRELOAD");
        if (r == 0 && has_it)
                r = set_variable(&c->conflict,
                          "LD_PRELOAD: tcmalloc was taken out of yours '%.200s', for glibc was asked for",
                          theirs);
        return r;
}

static int choose(const struct host *h, enum allocator wanted, const struct environment *user, char *rest,
                  struct allocator_choice *c) {
        const char *theirs = find_variable(user, "LD_PRELOAD");
        bool has_it = theirs && split_preload(theirs, rest);
        char why[ELF_WHY_MAX], reason[160];
        int r;

        if (wanted == ALLOCATOR_GLIBC)
                return use_glibc(theirs, has_it, rest, "asked for", c);
        if (wanted == ALLOCATOR_AUTO && theirs) {
                (void) snprintf(c->note, sizeof(c->note), "%s (auto: your own LD_PRELOAD is kept)",
                                has_it ? "tcmalloc" :
                                *rest  ? "as preloaded" :
                                         "glibc");
                return 0;
        }
        r = elf_check_library(h, ALLOCATOR_LIBRARY, why);
        if (r == -ENOENT)
                (void) snprintf(why, sizeof(why), "not installed (package libgoogle-perftools4)");
        if (r < 0 && wanted == ALLOCATOR_TCMALLOC) {
                (void) snprintf(c->note, sizeof(c->note), "tcmalloc: %s: %s", ALLOCATOR_LIBRARY, why);
                return r;
        }
        (void) snprintf(reason, sizeof(reason), "auto: %s: %s", ALLOCATOR_LIBRARY, why);
        if (r < 0)
                return use_glibc(theirs, has_it, rest, reason, c);
        return use_tcmalloc(theirs, has_it,
                            wanted == ALLOCATOR_AUTO ? "auto: installed and loadable" : "asked for", user,
                            c);
}

int allocator_choose(const struct host *h, enum allocator wanted, const struct environment *user,
                     struct allocator_choice *ret) {
        const char *theirs = find_variable(user, "LD_PRELOAD");
        _cleanup_free_ char *rest = calloc(1, (theirs ? strlen(theirs) : 0) + 1);
        struct allocator_choice c = { 0 };
        int r;

        if (!rest)
                return -ENOMEM;
        r = choose(h, wanted, user, rest, &c);
        if (r == -ENOMEM)
                allocator_choice_clear(&c);
        *ret = c;
        return r;
}

void allocator_choice_clear(struct allocator_choice *c) {
        free(c->preload);
        free(c->threshold);
        free(c->conflict);
        *c = (struct allocator_choice){ 0 };
}
