/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What libtpu wrote for a run: the ends of the newest files of each severity, in TPU_LOG_DIR or
 * /tmp/tpu_logs. Its names are those of Google's logging library: PROGRAM.HOST.USER.log.SEVERITY.TIME.PID.
 * Anybody may write there. So a file counts when it is a regular one of the run's user, and was written
 * while the run was there. It is read by a process that is that user.
 */
#include <sys/stat.h>

#include "base.h"

#define LIBTPU_LOGS_DEFAULT "/tmp/tpu_logs"
#define LIBTPU_LOGS_LOOKED_AT 16384u /* names of a folder */
#define LIBTPU_LOGS_MAX (64u * 1024) /* bytes that are kept of a run, headings included */
/* A process that ends writes its last lines, and the run's end is noted by another. */
#define LIBTPU_LOGS_LATE (60 * USEC_PER_SEC)

enum libtpu_severity { LIBTPU_FATAL, LIBTPU_ERROR, LIBTPU_WARNING, LIBTPU_INFO, _LIBTPU_SEVERITY_MAX };

struct libtpu_logs_of {
        char folder[4096];
        uid_t uid;
        usec_t began_real, ended_real;
};

struct libtpu_logs {
        struct {
                char name[256]; /* empty: there is none */
                usec_t written_real;
        } newest[_LIBTPU_SEVERITY_MAX];
};

/* -ENOENT: it is no name of such a file. */
int libtpu_log_severity(const char *name, enum libtpu_severity *ret);
/* Pure: takes the file if it counts and is newer than that of its severity so far. */
void libtpu_logs_consider(struct libtpu_logs *l, const struct libtpu_logs_of *of, const char *name,
                          const struct stat *st);

/*
 * Writes the ends of the files to fd, the worst first, each below a line "NAME, the last N of M bytes:".
 * Nothing: there are none. -errno of reading the folder.
 */
int libtpu_logs_write(int fd, const struct libtpu_logs_of *of);
