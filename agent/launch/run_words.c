/* SPDX-License-Identifier: Apache-2.0 */
#include "run_words.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core_find.h"
#include "libtpu_logs.h"
#include "log.h"
#include "state_file.h"
#include "who.h"

#define NOBODY 65534 /* the group: files count by their owner */
#define WORDS_FILE_MAX (RUN_NAME_MAX + 16)
#define WORDS_THERE_MAX 8u /* a folder of a run's may never answer: so many processes at most wait for one */

static const char *const words[] = { WORDS_LIBTPU, WORDS_CORE };

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

/* --- The stacks of a core ------------------------------------------------------------------------------ */

static void on_stacks(int result, const char *answer, size_t len, void *userdata) {
        struct run *run = userdata;

        run->core = child_free(run->core);
        if (result < 0)
                (void) log_warning_errno(result, "run %s: the stacks of %s cannot be read: %m",
                                         run->kept->name, run->core_path);
        else if (len > 0)
                keep(run, WORDS_CORE, answer, len);
}

static int start_reading(struct run *run) {
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "LANG=C.UTF-8" }, NULL };
        char user[16];
        const char *const argv[] = { run->owner->stack_tool, "--core", run->core_path, "--user", user,
                                     NULL };
        const struct spawn_options program = { .path = run->owner->stack_tool,
                                               .argv = argv,
                                               .environment = environment,
                                               .out = -1,
                                               .error = -1,
                                               .own_group = true };
        const struct child_work work = { .name = "run-core",
                                         .timeout = CORE_TIMEOUT,
                                         .program = &program,
                                         .max = CORE_TEXT_MAX,
                                         .there = &run->owner->words_there,
                                         .done = on_stacks,
                                         .userdata = run };

        (void) snprintf(user, sizeof(user), "%u", (unsigned) run->kept->uid);
        return child_start(run->owner->event, &work, &run->core);
}

static void on_core(int result, const char *answer, size_t len, void *userdata) {
        struct run *run = userdata;
        char words_of_it[sizeof(run->core_path) + 128];
        bool packed;

        (void) snprintf(run->core_path, sizeof(run->core_path), "%s", result == 0 ? answer : "");
        run->core = child_free(run->core);
        if (result == 0 && len == 0)
                return; /* a limit, the disk, or the site's will */
        packed = endswith(run->core_path, ".zst") || endswith(run->core_path, ".lz4") ||
                 endswith(run->core_path, ".xz");
        if (packed) {
                (void) snprintf(words_of_it, sizeof(words_of_it),
                                "%s is compressed, and not read: unpack it, then tpu-stack --core\n",
                                run->core_path);
                keep(run, WORDS_CORE, words_of_it, strlen(words_of_it));
                return;
        }
        if (result == 0)
                result = start_reading(run);
        if (result < 0)
                (void) log_warning_errno(result, "run %s: its core is not looked for: %m", run->kept->name);
}

/* In the child: as the run's user, whose folder it may be. */
static int find_core(int fd, const void *data) {
        const struct core_wanted *w = data;
        struct target user = { .uid = w->uid, .gid = NOBODY };
        int r = who_become(&user);

        return r < 0 ? r : core_find(fd, data);
}

/* The first of a run: what follows a crash and a restart is most often the same. */
static void look_for_core(struct run *run) {
        const struct runs *r = run->owner;
        struct core_wanted w = { .uid = run->kept->uid,
                                 .pid = (pid_t) run->crashed,
                                 .began_real = run->kept->started_real };
        const struct child_work work = { .name = "run-core",
                                         .timeout = 2 * CORE_FIND_WAIT,
                                         .run = find_core,
                                         .data = &w,
                                         .there = &run->owner->words_there,
                                         .done = on_core,
                                         .userdata = run };
        char file[WORDS_FILE_MAX];
        int k;

        if (run->core || run->crashed == 0 || kept_run_has_image(run->kept) ||
            faccessat(r->words_fd, words_file(run->kept->name, WORDS_CORE, file), F_OK, 0) == 0)
                return;
        (void) snprintf(w.root, sizeof(w.root), "%s", r->host->real_root ? "" : r->host->root);
        (void) snprintf(w.folder, sizeof(w.folder), "%s", run->kept->directory);
        k = host_read(r->host, "/proc/sys/kernel/core_pattern", w.pattern, sizeof(w.pattern), NULL);
        if (k >= 0)
                k = r->words_there < WORDS_THERE_MAX ? child_start(r->event, &work, &run->core) : -EBUSY;
        if (k < 0)
                (void) log_warning_errno(k, "run %s: its core is not looked for: %m", run->kept->name);
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
        struct stat st;
        int n;

        if (kept_run_has_image(run->kept) || streq(set, "disabled"))
                return -ENOENT; /* a container has a /tmp of its own */
        n = snprintf(buf, size, "%s%s%s%s", h->real_root ? "" : h->root,
                     set[0] && set[0] != '/' ? run->kept->directory : "",
                     set[0] && set[0] != '/' ? "/" : "", set[0] ? set : LIBTPU_LOGS_DEFAULT);
        if (n < 0 || (size_t) n >= size)
                return -ENAMETOOLONG;
        /* no process for that on hosts where libtpu never wrote; a folder of the run's may not answer */
        return !set[0] && lstat(buf, &st) < 0 ? -errno : 0;
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
                                         .there = &run->owner->words_there,
                                         .done = on_libtpu_logs,
                                         .userdata = run };
        char file[WORDS_FILE_MAX];
        int k = run->owner->words_fd < 0 || run->owner->words_there >= WORDS_THERE_MAX
                        ? -EBUSY
                        : find_folder(run, of.folder, sizeof(of.folder));

        run->words = child_free(run->words); /* of the end before */
        (void) unlinkat(run->owner->words_fd, words_file(kept->name, WORDS_LIBTPU, file), 0);
        look_for_core(run);
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
