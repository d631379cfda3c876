/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One question to another daemon of ours over a connection of its own, without blocking; the answer comes
 * once, from the loop. And one thing that another daemon is to know: said again, after waits that grow,
 * until it has answered.
 */
#include "frame.h"

struct local_question {
        const char *program; /* static: who is asked, for the words of failures */
        const char *socket;  /* its; NULL or empty: nobody answers */
        uint16_t kind, want; /* of the message, of the good answer */
        const ProtobufCMessage *message;
        usec_t timeout;
};

struct local_answer {
        int error;      /* 0; -errno as it says it; -ECONNREFUSED, -ETIMEDOUT, …: it did not answer */
        bool no_answer; /* nothing is known of what became of it */
        const char *text, *remedy; /* of an error */
        uint16_t kind;
        const uint8_t *data; /* the payload of a good answer */
        size_t len;
        int *fd; /* of a good answer: the descriptor that came with it, or -1; closed unless it is taken */
};

struct local_call;
/* The message is packed here. done is called once, never from here, and may free the call. -ENOMEM. */
int local_call_new(sd_event *e, const struct local_question *q,
                   void (*done)(const struct local_answer *a, void *userdata), void *userdata,
                   struct local_call **ret);
/* done is not called any more; what was asked for may happen nevertheless. */
struct local_call *local_call_free(struct local_call *c);
DEFINE_CLEANUP(struct local_call *, local_call_free)

/* Part of what its owner keeps; program, ask and answered are set before local_telling_init(). */
struct local_telling {
        const char *program;
        int (*ask)(struct local_telling *t); /* makes the message and calls local_telling_ask() */
        /* It has answered, be it that it refuses, which it would do again. May start the next, or clear and
         * free t. */
        void (*answered)(struct local_telling *t, const struct local_answer *a);

        sd_event *event;
        char *socket;
        const char *what;
        struct local_call *call; /* NULL: nothing is at work */
        sd_event_source *again;
        unsigned failures;
};
int local_telling_init(sd_event *e, const char *socket, struct local_telling *t);
/* Sends it now, in place of what is at work. what: for the log, "PROGRAM cannot be sent WHAT" (static). */
void local_telling_start(struct local_telling *t, const char *what);
void local_telling_stop(struct local_telling *t);
int local_telling_ask(struct local_telling *t, uint16_t kind, const ProtobufCMessage *m, uint16_t want);
void local_telling_clear(struct local_telling *t);
