/* SPDX-License-Identifier: Apache-2.0 */
/* Whose state it is, and that what is another machine's is renamed and lost nowhere. */
#include <fcntl.h>
#include <sys/stat.h>

#include "machine_state.h"
#include "scratch.h"
#include "test.h"

static struct machine_ids ids(const char *machine, const char *instance, const char *boot) {
        struct machine_ids i = { 0 };

        (void) snprintf(i.machine, sizeof(i.machine), "%s", machine);
        (void) snprintf(i.instance, sizeof(i.instance), "%s", instance);
        (void) snprintf(i.boot, sizeof(i.boot), "%s", boot);
        return i;
}

static void test_whose(void) {
        static const struct {
                const char *machine, *instance, *boot; /* of "m", "1", boot "b" */
                enum machine_whose open, certain;
        } cases[] = {
                { "m", "1", "c", MACHINE_OURS, MACHINE_OURS },
                { "other", "1", "c", MACHINE_OURS, MACHINE_OURS }, /* a new machine id */
                { "m", "2", "c", MACHINE_OTHERS, MACHINE_OTHERS }, /* an image with its machine id */
                { "other", "2", "c", MACHINE_OTHERS, MACHINE_OTHERS },
                { "m", "", "c", MACHINE_OPEN, MACHINE_OURS },
                { "other", "", "c", MACHINE_OPEN, MACHINE_OTHERS },
                { "", "", "c", MACHINE_OPEN, MACHINE_OURS },
                { "other", "2", "b", MACHINE_OURS, MACHINE_OURS }, /* what was found in this boot stays */
                { "other", "", "b", MACHINE_OURS, MACHINE_OURS },
                { "other", "2", "", MACHINE_OTHERS, MACHINE_OTHERS },
        };
        const struct machine_ids of = ids("m", "1", "b"), no_instance = ids("m", "", "b");
        struct machine_ids now;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                now = ids(cases[i].machine, cases[i].instance, cases[i].boot);
                ASSERT_EQ(machine_state_judge(&of, &now, false), cases[i].open);
                ASSERT_EQ(machine_state_judge(&of, &now, true), cases[i].certain);
        }
        now = ids("m", "1", "c"); /* the first time that it is known */
        ASSERT_EQ(machine_state_judge(&no_instance, &now, false), MACHINE_OURS);
        now = ids("m", "", "c"); /* a machine that has none */
        ASSERT_EQ(machine_state_judge(&no_instance, &now, false), MACHINE_OURS);
        now = ids("other", "1", "c");
        ASSERT_EQ(machine_state_judge(&no_instance, &now, false), MACHINE_OPEN);
        ASSERT_EQ(machine_state_judge(&no_instance, &now, true), MACHINE_OTHERS);
}

static void test_file(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct machine_state a = { .of = ids("m", "1", "b"), .found_boot = "c", .found_instance = "2" }, b;
        char path[512];

        (void) snprintf(a.of.host, sizeof(a.of.host), "tpu-a-0");
        scratch_path(&s, MACHINE_STATE_NAME, path);
        ASSERT_EQ(machine_state_read(path, &b), -ENOENT);
        ASSERT_OK(machine_state_write(path, &a));
        ASSERT_OK(machine_state_read(path, &b));
        ASSERT_EQ(memcmp(&a, &b, sizeof(a)), 0);
        scratch_write(&s, MACHINE_STATE_NAME, "nothing of ours");
        ASSERT_EQ(machine_state_read(path, &b), -ENOENT);
        ASSERT_EQ(access(path, F_OK), -1); /* it is kept as machine.damaged */
        ASSERT_EQ(machine_state_parse("{}", 2, &b), -EBADMSG);
}

static void test_set_aside(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512], aside[MACHINE_PATH_MAX], wanted[512];

        scratch_path(&s, "spool", path);
        ASSERT_OK(machine_state_set_aside(path, aside)); /* there is none */
        ASSERT_STREQ(aside, "");
        for (unsigned n = 1; n <= MACHINE_ASIDE_BESIDE; n++) {
                scratch_write(&s, "spool/events/ledger", "x");
                ASSERT_OK(machine_state_set_aside(path, aside));
                ASSERT_OK(machine_state_aside_name(path, n, wanted));
                ASSERT_STREQ(aside, wanted);
                ASSERT_EQ(access(path, F_OK), -1);
        }
        scratch_write(&s, "spool/events/ledger", "x");
        ASSERT_EQ(machine_state_set_aside(path, aside), -EEXIST);
        ASSERT_OK(access(path, F_OK));
        ASSERT_OK(machine_state_aside_name(path, MACHINE_ASIDE_BESIDE + 2, aside)); /* of a mount point */
        ASSERT_TRUE(strstr(aside, "/spool/" MACHINE_ASIDE "-2"));
        memset(path + 1, 'x', sizeof(path) - 2);
        path[sizeof(path) - 1] = '\0';
        ASSERT_EQ(machine_state_set_aside(path, aside), -ENAMETOOLONG);
}

static void test_remove(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512], kept[512], link[512];

        scratch_write(&s, "kept/a", "x");
        scratch_write(&s, "spool/events/1.seg", "x");
        scratch_write(&s, "spool/b", "x");
        scratch_path(&s, "spool", path);
        scratch_path(&s, "kept", kept);
        scratch_path(&s, "spool/events/link", link);
        ASSERT_OK(symlink(kept, link));
        ASSERT_OK(machine_state_remove(path));
        ASSERT_EQ(access(path, F_OK), -1);
        scratch_path(&s, "kept/a", kept);
        ASSERT_OK(access(kept, F_OK));
        ASSERT_OK(machine_state_remove(kept));
        ASSERT_OK(machine_state_remove(kept));
}

int main(void) {
        test_whose();
        test_file();
        test_set_aside();
        test_remove();
        return 0;
}
