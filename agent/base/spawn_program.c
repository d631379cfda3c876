/* SPDX-License-Identifier: Apache-2.0 */
#include "spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int spawn_program(const struct spawn_options *o, pid_t *ret) {
        short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        int r;

        if (o->own_group)
                flags |= POSIX_SPAWN_SETPGROUP; /* 0, as posix_spawnattr_init() leaves it: its own */
        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        /* These cannot fail in glibc but for lack of memory, which spawn then says. */
        (void) posix_spawn_file_actions_init(&files);
        (void) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (o->out >= 0)
                (void) posix_spawn_file_actions_adddup2(&files, o->out, STDOUT_FILENO);
        if (o->error >= 0)
                (void) posix_spawn_file_actions_adddup2(&files, o->error, STDERR_FILENO);
        (void) posix_spawnattr_init(&attributes);
        (void) posix_spawnattr_setflags(&attributes, flags);
        (void) posix_spawnattr_setsigmask(&attributes, &none);
        (void) posix_spawnattr_setsigdefault(&attributes, &all);
        /* posix_spawn(3) does not write to argv. */
        r = -posix_spawn(ret, o->path, &files, &attributes, (char **) (uintptr_t) o->argv, o->environment);
        (void) posix_spawn_file_actions_destroy(&files);
        (void) posix_spawnattr_destroy(&attributes);
        return r;
}
