/* SPDX-License-Identifier: Apache-2.0 */
#include "core_option.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "processes.h"

#define NOBODY       65534 /* the group */
#define CAPABILITIES 64

static int become(uid_t uid) {
        unsigned all[CAPABILITIES];

        for (unsigned i = 0; i < CAPABILITIES; i++)
                all[i] = i;
        if (geteuid() == 0 && uid != 0 &&
            (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
             setresuid(uid, uid, uid) < 0))
                return -errno;
        return capabilities_drop(all, CAPABILITIES);
}

int core_option_open(const char *path, const char *user, int *ret) {
        char reason[96];
        _cleanup_close_ int fd = -1;
        uint32_t uid = 0;
        struct stat st;
        int r = user ? config_parse_u32_within(user, 0, INT32_MAX, &uid, reason) : 0;

        if (r < 0)
                return log_error_errno(r, "--user %s: %s", user, reason);
        r = user ? become((uid_t) uid) : 0;
        if (r < 0)
                return log_error_errno(r, "cannot become user %u: %m", (unsigned) uid);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        r = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
        if (r == 0 && !user)
                r = become(st.st_uid);
        if (r < 0)
                return log_error_errno(r, "%s: %m", path);
        *ret = TAKE_FD(fd);
        return 0;
}

int core_option_read(const struct host *h, const char *path, int fd, struct core_file **ret) {
        char why[CORE_WHY_MAX];
        int r = core_file_new(h, fd, ret, why);

        if (r < 0)
                log_error("%s: %s", path, why);
        return r;
}
