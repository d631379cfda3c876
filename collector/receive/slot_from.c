/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_from.h"

#include "log.h"
#include "texts.h"
#include "utf8.h"

#define NAMES_MAX 8
#define HOST_MAX  64 /* bytes of a host's name with its end, as docs/registry.md has it */
#define SLICE_PLACE  "{slice}"
#define WORKER_PLACE "{worker}"

struct slot_from {
        char *words; /* each is ended */
        const char *names[NAMES_MAX];
        size_t n;
        struct name_list *map;
};

/* A name with both places filled; false: it is longer than a host's. */
static bool fill_name(const char *name, const char *slice, unsigned worker, char ret[static HOST_MAX]) {
        size_t at = 0;

        while (*name) {
                int n;

                if (startswith(name, SLICE_PLACE)) {
                        n = snprintf(ret + at, HOST_MAX - at, "%s", slice);
                        name += strlen(SLICE_PLACE);
                } else if (startswith(name, WORKER_PLACE)) {
                        n = snprintf(ret + at, HOST_MAX - at, "%u", worker);
                        name += strlen(WORKER_PLACE);
                } else
                        n = snprintf(ret + at, HOST_MAX - at, "%c", *name++);
                if (n < 0 || (size_t) n >= HOST_MAX - at)
                        return false;
                at += (size_t) n;
        }
        return at > 0;
}

/* Names as they came may be cut inside a character. */
static void say_whose(const char *given, const char *slice, unsigned worker, const char *host,
                      char why[static SLOT_FROM_WHY_MAX]) {
        char shown_given[HOST_MAX], shown_slice[HOST_MAX], shown_host[HOST_MAX];

        utf8_copy_line(shown_given, sizeof(shown_given), given);
        utf8_copy_line(shown_slice, sizeof(shown_slice), slice);
        utf8_copy_line(shown_host, sizeof(shown_host), host);
        (void) snprintf(why, SLOT_FROM_WHY_MAX, "worker %u of slice %s is %s%s's, not host %s's (SlotFrom=)",
                        worker, shown_slice, given ? "host " : "nobody", shown_given, shown_host);
}

bool slot_from_gives(struct slot_from *f, const char *slice, unsigned worker, const char *host,
                     char why[static SLOT_FROM_WHY_MAX]) {
        char key[96], name[HOST_MAX] = "", wrong[NAME_LIST_WHY_MAX];
        const char *given;

        if (name_list_look(f->map, wrong) && wrong[0])
                log_warning("SlotFrom=: %s", wrong);
        (void) snprintf(key, sizeof(key), "%.64s/%u", slice, worker);
        given = name_list_find(f->map, key);
        for (size_t i = 0; !given && i < f->n; i++)
                if (fill_name(f->names[i], slice, worker, name) && (streq(name, host) || i + 1 == f->n))
                        given = name;
        if (given && streq(given, host))
                return true;
        say_whose(given, slice, worker, host, why);
        return false;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int take_name(void *userdata, char *word, char why[static NAME_LIST_WHY_MAX]) {
        struct slot_from *f = userdata;

        if (!strstr(word, SLICE_PLACE) || !strstr(word, WORKER_PLACE))
                return text_fail(why, NAME_LIST_WHY_MAX, -EINVAL,
                                 "'%.100s' is no path of a file, and no name with " SLICE_PLACE " and "
                                 WORKER_PLACE ", as " SLICE_PLACE "-w-" WORKER_PLACE, word);
        if (f->n == NAMES_MAX)
                return text_fail(why, NAME_LIST_WHY_MAX, -E2BIG, "more than %d names", NAMES_MAX);
        f->names[f->n++] = word;
        return 0;
}

int slot_from_new(const char *words, struct slot_from **ret, char why[static NAME_LIST_WHY_MAX]) {
        _cleanup_(slot_from_freep) struct slot_from *f = calloc(1, sizeof(*f));
        int r;

        (void) snprintf(why, NAME_LIST_WHY_MAX, "out of memory");
        if (!f || !(f->words = strdup(words)))
                return -ENOMEM;
        r = name_list_new_among(f->words, take_name, f, &f->map, why);
        if (r < 0)
                return r;
        (void) name_list_look(f->map, why);
        if (why[0])
                return -EINVAL;
        *ret = TAKE_PTR(f);
        return 0;
}

struct slot_from *slot_from_free(struct slot_from *f) {
        if (!f)
                return NULL;
        f->map = name_list_free(f->map);
        free(f->words);
        free(f);
        return NULL;
}
