/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A /proc of a test's own: processes with their parents, groups, control groups and open files. */
#include "scratch.h"

struct tree_process {
        unsigned pid, parent, group, session, terminal;
        unsigned long long start; /* ticks */
        const char *control_group, *command; /* command: words that blanks separate */
};

__attribute__((unused)) static void tree_add(const struct scratch *s, const struct tree_process *p) {
        char name[64], text[256], path[512];
        FILE *f;

        (void) snprintf(name, sizeof(name), "proc/%u/stat", p->pid);
        (void) snprintf(text, sizeof(text),
                        "%u (a b) c) S %u %u %u %u -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %llu 0 0\n", p->pid,
                        p->parent, p->group ? p->group : p->pid, p->session ? p->session : p->pid,
                        p->terminal, p->start);
        scratch_write(s, name, text);
        (void) snprintf(name, sizeof(name), "proc/%u/cgroup", p->pid);
        (void) snprintf(text, sizeof(text), "0::%s\n", p->control_group);
        scratch_write(s, name, text);
        (void) snprintf(name, sizeof(name), "proc/%u/cmdline", p->pid);
        scratch_path(s, name, path);
        f = fopen(path, "we");
        ASSERT_TRUE(f != NULL);
        for (const char *c = p->command; *c; c++)
                ASSERT_TRUE(fputc(*c == ' ' ? '\0' : *c, f) != EOF);
        ASSERT_OK(fclose(f));
}

__attribute__((unused)) static void tree_open(const struct scratch *s, unsigned pid, const char *device) {
        static unsigned fd = 2;
        char name[64];

        (void) snprintf(name, sizeof(name), "proc/%u/fd/%u", pid, ++fd);
        scratch_link(s, name, device);
}

__attribute__((unused)) static void tree_close(const struct scratch *s, unsigned pid) {
        char name[64], path[512];

        for (unsigned fd = 2; fd < 512; fd++) {
                (void) snprintf(name, sizeof(name), "proc/%u/fd/%u", pid, fd);
                scratch_path(s, name, path);
                (void) unlink(path);
        }
}
