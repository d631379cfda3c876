/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A directory of a test's own, removed at the end of its scope; files in it by relative path, folders made
 * as needed. */
#include <ftw.h>
#include <sys/stat.h>

#include "test.h"

struct scratch {
        char path[64];
};

__attribute__((unused)) static struct scratch scratch_new(void) {
        struct scratch s = { .path = "/tmp/tpu-hostd-test-XXXXXX" };

        ASSERT_TRUE(mkdtemp(s.path) != NULL);
        return s;
}

static int scratch_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

__attribute__((unused)) static void scratch_free(struct scratch *s) {
        (void) nftw(s->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
#define _cleanup_scratch_ _cleanup_(scratch_free)

__attribute__((unused)) static void scratch_path(const struct scratch *s, const char *name,
                                                 char path[static 512]) {
        ASSERT_TRUE(snprintf(path, 512, "%s/%s", s->path, name) < 512);
        for (char *p = path + strlen(s->path) + 1; (p = strchr(p, '/')); p++) {
                *p = '\0';
                ASSERT_TRUE(mkdir(path, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
}

__attribute__((unused)) static void scratch_write(const struct scratch *s, const char *name,
                                                  const char *text) {
        char path[512];
        FILE *f;

        scratch_path(s, name, path);
        f = fopen(path, "w");
        ASSERT_TRUE(f != NULL);
        ASSERT_TRUE(fputs(text, f) >= 0);
        ASSERT_OK(fclose(f));
}

__attribute__((unused)) static void scratch_link(const struct scratch *s, const char *name,
                                                 const char *target) {
        char path[512];

        scratch_path(s, name, path);
        ASSERT_OK(symlink(target, path));
}
