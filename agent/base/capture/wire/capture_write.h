/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures as bytes (proto/capture.proto): by tpu-stack, which fills c and table, and by whoever appends a
 * part. What is written is bounded all the time: at most CAPTURE_STREAM_MAX, and CAPTURE_PACKED_MAX of gzip.
 */
#include "capture.pb-c.h"

#include "capture_read.h"
#include "gzip.h"

struct capture_writer {
        struct stack_table table; /* of all parts */
        struct host_capture
                c; /* what the next part will hold: one process, or more threads of the last one */
        struct pack *pack;
        const uint8_t *data; /* all so far, as gzip */
        size_t len, raw;
        size_t strings, frames, stacks, text, frames_of; /* of the table, that are written */
        /* that are written: host_capture.h bounds what a reader takes */
        size_t processes, threads, modules, waits, sockets, ends;
        size_t kept, to_come; /* bytes that are not for this process: there are others to come, so many */
        bool opened;  /* the process in c is written already */
        bool full, cut; /* something found no room: of this process, of any */
};
/* -ENOMEM. */
int capture_writer_init(struct capture_writer *w);
void capture_writer_clear(struct capture_writer *w);
#define _cleanup_capture_writer_ _cleanup_(capture_writer_clear)

/* Before each process, of so many that are still to come: the main thread of each finds room. */
void capture_writer_share(struct capture_writer *w, size_t processes);
/* Whether one more frame, with its strings, or one more thread may be added; if not, the capture says so. */
bool capture_writer_has_room(struct capture_writer *w);
/* Likewise one more process, thread or module. */
bool capture_writer_takes_process(struct capture_writer *w);
bool capture_writer_takes_thread(struct capture_writer *w);
bool capture_writer_takes_module(struct capture_writer *w);
/* Likewise one more wait, socket or end. Sockets stand before their process's threads. */
bool capture_writer_takes_wait(struct capture_writer *w);
bool capture_writer_takes_socket(struct capture_writer *w);
bool capture_writer_takes_end(struct capture_writer *w);
/* Behind a thread: what has gathered becomes a part, if it is much. -ENOMEM. */
int capture_writer_thread(struct capture_writer *w);
/* Behind a process. -ENOMEM. */
int capture_writer_process(struct capture_writer *w);
/* Behind the last one: data and len are the capture. */
int capture_writer_end(struct capture_writer *w);

/* A part that somebody else made, behind what there is. last: data and len are the capture then. -ENOMEM. */
int capture_writer_add(struct capture_writer *w, const Capture__Part *part, bool last);
/* An answer with captures, behind what there is: *data is grown; such answers one behind the other are one.
 * -ENOMEM. */
int captures_pack(const Capture__Captures *m, uint8_t **data, size_t *len, size_t *size);

/* protobuf-c's messages hold writable pointers, also where it only reads: texts of a part. */
static inline char *capture_part_text(const char *s) {
        return (char *) (uintptr_t) s;
}

/* A capture for people, at most max bytes of text (malloc'ed), and what is in it. -EPROTO, -E2BIG, -ENOMEM;
 * why: which part and field. */
struct capture_text {
        char *text;
        uint32_t processes, threads; /* that were read */
        char unread[200];            /* why the first of the other processes was not */
        bool cut;
};
int capture_text_make(const uint8_t *data, size_t len, size_t max, struct capture_text *ret,
                      char why[static CAPTURE_WHY_MAX]);
