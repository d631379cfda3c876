/* SPDX-License-Identifier: Apache-2.0 */
#include "processes.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- Programs ----------------------------------------------------------------------------------------- */

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

/* --- Capabilities ------------------------------------------------------------------------------------- */

static int get_capabilities(struct __user_cap_header_struct *head, struct __user_cap_data_struct *data) {
        *head = (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
        return syscall(SYS_capget, head, data) < 0 ? -errno : 0;
}

int capability_has(unsigned cap) {
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
        struct __user_cap_header_struct head;
        int r = get_capabilities(&head, data);

        return r < 0 ? r : (data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap)) != 0;
}

int capabilities_drop(const unsigned caps[], size_t n) {
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
        struct __user_cap_header_struct head;
        int r;

        for (size_t i = 0; i < n; i++)
                (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, caps[i], 0, 0); /* EINVAL: before 5.8 */
        r = get_capabilities(&head, data);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                struct __user_cap_data_struct *d = &data[CAP_TO_INDEX(caps[i])];

                d->effective &= ~CAP_TO_MASK(caps[i]);
                d->permitted &= ~CAP_TO_MASK(caps[i]);
                d->inheritable &= ~CAP_TO_MASK(caps[i]);
        }
        /* less is always permitted, unless a system call filter forbids to ask */
        return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int find_beside(const char *name, char ret[static PATH_MAX]) {
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
        char *end;

        if (n < 0)
                return -errno;
        path[n] = '\0';
        end = strrchr(path, '/');
        if (!end || (size_t) snprintf(ret, PATH_MAX, "%.*s/%s", (int) (end - path), path, name) >= PATH_MAX)
                return -ENAMETOOLONG;
        return access(ret, X_OK) < 0 ? -errno : 0;
}

int private_program_find(const char *name, char ret[static PATH_MAX]) {
        if (find_beside(name, ret) == 0)
                return 0;
        (void) snprintf(ret, PATH_MAX, "%s/%s", PRIVATE_PROGRAMS, name);
        return access(ret, X_OK) < 0 ? -errno : 0;
}
