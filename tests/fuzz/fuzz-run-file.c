/* SPDX-License-Identifier: Apache-2.0 */
/* The files that outlive tpu-launchd, with whatever content: a run's specification, and how it ended. */
#include <assert.h>

#include "fuzz-root.h"
#include "kept_run.h"
#include "state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_whole(int dir, const char *what, const uint8_t *data, size_t size) {
        const struct state_format f = { .what = what, .version = streq(what, "run") ? 2 : 1, .max = SIZE_MAX,
                                        .options = { .mode = 0600 } };

        assert(state_file_write(dir, "a", &f, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const folders[] = { NULL };
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_close_ int dir = -1;
        struct kept_run *kept = NULL;
        struct exit_record r;

        fuzz_root_open(folders, &h);
        dir = openat(h.root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        write_whole(dir, "exit", data, size);
        if (exit_record_read(dir, "a", "0123456789abcdef0123456789abcdef", &r) == 0)
                assert(r.result[0] && strlen(r.why) < sizeof(r.why));
        write_whole(dir, "run", data, size);
        if (kept_run_read(dir, "a", &kept) == 0) {
                assert(streq(kept->name, "a") && kept->argv && kept->env && kept->spec->grace > 0);
                assert(kept_run_write(dir, kept) == 0);
        }
        (void) kept_run_free(kept);
        return 0;
}
