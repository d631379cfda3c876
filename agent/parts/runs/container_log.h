/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads what adopted runs in containers print, from the files of their engines: tpu-launchd opens the file,
 * which is root's, and hands it over; it is parsed here, for what is in it is anybody's. It is read at each
 * tick and before a run is judged: each entry says when it was written, so that late reading moves no step.
 * (Only who may read the file by its path may be woken by it.) Reading begins at the end of the file, and
 * goes on with the next file when the engine has begun another.
 *
 * Forms, one entry a line:
 *   json-file  {"log":"text\\n","stream":"stdout","time":"2026-…Z"}  (docker)
 *   k8s-file   2026-…+00:00 stdout F text                             (podman; P instead of F: it goes on)
 */
#include "bus.h"

#define CONTAINER_LOGS_MAX 16u
#define CONTAINER_LOG_LINE_MAX (64 * 1024) /* of a longer entry the rest is left out */

struct container_logs;
/* line: a whole line of a run, without its line feed; valid during the call. -errno. */
int container_logs_new(struct bus *b, void (*line)(const char *run, const char *text, size_t len, usec_t at,
                                                   void *userdata),
                       void *userdata, struct container_logs **ret);
struct container_logs *container_logs_free(struct container_logs *l);
/* bus->runs is another list: who is new is asked for, who is gone is followed no more. */
void container_logs_listed(struct container_logs *l);

/* What has been written since, a part of it at a time; of one that is far behind only the last of it.
 * Whether all is read. */
bool container_logs_look(struct container_logs *l);

/* One entry (len bytes, without its line feed). Pure. */
struct container_entry {
        size_t len;       /* of its text in buf */
        bool whole;       /* it is the end of a line */
        usec_t time_real; /* when it was written; 0: it does not say */
};
/* form: "json-file" or "k8s-file". -EBADMSG. */
int container_entry_parse(const char *form, const char *entry, size_t len, char *buf, size_t size,
                          struct container_entry *ret);
