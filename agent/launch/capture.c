/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#define WORD_MAX    16
#define OPTIONS_MAX 2

static void add_word(const char ***at, char **words, const char *text) {
        (void) snprintf(*words, WORD_MAX, "%s", text);
        *(*at)++ = *words;
        *words += WORD_MAX;
}

/* argv has room for n + OPTIONS_MAX + 2, words for n + OPTIONS_MAX words. */
static void fill(const char **argv, char *words, const char *tool, bool native, const pid_t *pids,
                 size_t n) {
        char number[WORD_MAX];

        *argv++ = tool;
        add_word(&argv, &words, "--capture");
        if (native)
                add_word(&argv, &words, "--native");
        for (size_t i = 0; i < n; i++) {
                (void) snprintf(number, sizeof(number), "%d", (int) pids[i]);
                add_word(&argv, &words, number);
        }
}

int capture_start(sd_event *e, const char *tool, const pid_t *pids, size_t n, bool native,
                  void (*done)(int result, const char *answer, size_t len, void *userdata), void *userdata,
                  struct child **ret) {
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "LANG=C.UTF-8" }, NULL };
        _cleanup_free_ const char **argv = calloc(n + OPTIONS_MAX + 2, sizeof(*argv));
        _cleanup_free_ char *words = calloc(n + OPTIONS_MAX, WORD_MAX);
        const struct spawn_options program = {
                .path = tool, .argv = argv, .environment = environment, .error = -1, .own_group = true
        };
        const struct child_work work = { .name = "capture",
                                         .timeout = native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT,
                                         .program = &program,
                                         .max = CAPTURE_BYTES_MAX,
                                         .done = done,
                                         .userdata = userdata };

        if (n == 0 || n > CAPTURE_PIDS_MAX)
                return n == 0 ? -ESRCH : -E2BIG;
        if (!argv || !words)
                return -ENOMEM;
        fill(argv, words, tool, native, pids, n);
        return child_start(e, &work, ret);
}
