/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Writes a state file (state_file.h) without blocking the loop: in a child process, of which there is one at
 * a time; a disk that hangs keeps the child, and later texts wait for it (the newest wins).
 */
#include <systemd/sd-event.h>

#include "state_file.h"

struct file_writer;
/* Text number (and with it every one before) is on the disk: 0, or could not be written: -errno. */
typedef void (*file_written_t)(uint64_t number, int result, void *userdata);

/* path: absolute. format: static; what it names, the event source is named after. done may be NULL. */
int file_writer_new(sd_event *e, const char *path, const struct state_format *format, file_written_t done,
                    void *userdata, struct file_writer **ret);
/* Does not wait for a child at work. */
struct file_writer *file_writer_free(struct file_writer *w);
DEFINE_CLEANUP(struct file_writer *, file_writer_free)
/* Takes text over, also on failure. Returns 0, or -errno when no child could be made. ret_number may be
 * NULL. */
int file_writer_put(struct file_writer *w, char *text, uint64_t *ret_number);
/* The same with a JSON value; NULL is -ENOMEM. */
int file_writer_put_json(struct file_writer *w, json_t *o, uint64_t *ret_number);
