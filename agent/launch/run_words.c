/* SPDX-License-Identifier: Apache-2.0 */
#include "run_words.h"

#include <fcntl.h>

#include "libtpu_logs.h"
#include "log.h"
#include "state_file.h"
#include "who.h"

#define NOBODY 65534 /* the group: files count by their owner */
#define WORDS_FILE_MAX (RUN_NAME_MAX + 16)

static const char *const words[] = { WORDS_LIBTPU };

static const struct state_format format = { .what = "run-words",
                                            .version = 1,
                                            .max = WORDS_BYTES_MAX,
                                            .options = { .mode = 0600, .lazy = true } };

static const char *words_file(const char *name, const char *which, char buf[static WORDS_FILE_MAX]) {
        (void) snprintf(buf, WORDS_FILE_MAX, "%s.%s", name, which);
        return buf;
}

static void keep(const struct run *run, const char *which, const char *text, size_t len) {
        char file[WORDS_FILE_MAX];
        int k = state_file_write(run->owner->words_fd, words_file(run->kept->name, which, file), &format,
                                 text, MIN(len, (size_t) WORDS_BYTES_MAX));

        if (k < 0)
                (void) log_warning_errno(k, STATE_WORDS "/%s cannot be written: %m", file);
}

/* --- libtpu's logs ------------------------------------------------------------------------------------- */

/* In the child: as the run's user, so that no link and no folder shows another's. */
static int write_libtpu_logs(int fd, const void *data) {
        const struct libtpu_logs_of *of = data;
        struct target user = { .uid = of->uid, .gid = NOBODY };
        int r = who_become(&user);

        return r < 0 ? r : libtpu_logs_write(fd, of);
}

static void on_libtpu_logs(int result, const char *answer, size_t len, void *userdata) {
        struct run *run = userdata;

        run->words = child_free(run->words);
        if (result < 0)
                (void) log_warning_errno(result, "run %s: libtpu's logs cannot be read: %m",
                                         run->kept->name);
        else if (len > 0)
                keep(run, WORDS_LIBTPU, answer, len);
}

/* -ENOENT: there are none that are seen from here. */
static int find_folder(const struct run *run, char *buf, size_t size) {
        const struct host *h = run->owner->host;
        const char *set = kept_run_variable(run->kept, "TPU_LOG_DIR");
        int n;

        if (kept_run_has_image(run->kept) || streq(set, "disabled"))
                return -ENOENT; /* a container has a /tmp of its own */
        n = snprintf(buf, size, "%s%s%s%s", h->real_root ? "" : h->root,
                     set[0] && set[0] != '/' ? run->kept->directory : "",
                     set[0] && set[0] != '/' ? "/" : "", set[0] ? set : LIBTPU_LOGS_DEFAULT);
        return n < 0 || (size_t) n >= size ? -ENAMETOOLONG : 0;
}

void run_keep_words(struct run *run) {
        const struct kept_run *kept = run->kept;
        struct libtpu_logs_of of = { .uid = kept->uid,
                                     .began_real = kept->started_real,
                                     .ended_real = kept->end.real };
        const struct child_work work = { .name = "run-words",
                                         .timeout = WORDS_TIMEOUT,
                                         .run = write_libtpu_logs,
                                         .data = &of,
                                         .max = LIBTPU_LOGS_MAX,
                                         .done = on_libtpu_logs,
                                         .userdata = run };
        int k = run->words || run->owner->words_fd < 0 ? -EBUSY
                                                       : find_folder(run, of.folder, sizeof(of.folder));

        if (k >= 0)
                k = child_start(run->owner->event, &work, &run->words);
        if (k < 0 && k != -ENOENT)
                (void) log_warning_errno(k, "run %s: libtpu's logs are not kept: %m", kept->name);
}

/* --- What is kept -------------------------------------------------------------------------------------- */

void run_remove_words(const struct runs *r, const char *name) {
        char file[WORDS_FILE_MAX];

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                (void) unlinkat(r->words_fd, words_file(name, words[i], file), 0); /* most have none */
}

int run_words(const struct runs *r, const char *name, const char *which, char **ret, size_t *ret_len) {
        char file[WORDS_FILE_MAX];

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(which, words[i]))
                        return state_file_load(r->words_fd, words_file(name, which, file), &format, ret,
                                               ret_len);
        return -EINVAL;
}
