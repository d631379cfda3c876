/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a file that is named by its path is another one than at the last look: written anew, renamed into
 * place, gone. Any difference counts, so that a file that came from a backup is noticed, too.
 */
#include "base.h"

struct file_stamp {
        int64_t mtime_sec, mtime_nsec, ctime_sec, ctime_nsec;
        uint64_t inode, size;
        int error; /* why it could not be looked at; 0 */
};

/* Takes the stamps of n files; true: one of them is not as stamps[] said, which are then the new ones. */
bool file_stamps_changed(const char *const paths[], struct file_stamp stamps[], size_t n);
