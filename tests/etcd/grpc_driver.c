/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc-driver URL METHOD [option=value]…: asks and prints what happened, a JSON object a line. Options:
 * text=, size= (of the message), deadline= (ms), max=, count= (one after the other), at_once=, stream=1,
 * cancel= (after so many messages), metadata=, ca=, cert=, key=, swap= (a file that takes cert's place behind the
 * first answer).
 */
#include <getopt.h>
#include <jansson.h>

#include "grpc.h"

struct driver {
        sd_event *event;
        struct grpc *grpc;
        const char *method, *text, *cert, *swap;
        size_t size, at_once, at_work;
        long count, messages, cancel, enough;
        struct grpc_question question;
        struct grpc_call *call;
};

static void print(json_t *o) {
        (void) json_dumpf(o, stdout, JSON_COMPACT);
        (void) putchar('\n');
        (void) fflush(stdout);
        json_decref(o);
}

static void ask(struct driver *d);

static void ended(struct driver *d) {
        if (--d->count > 0 && d->count >= (long) d->at_once)
                ask(d);
        else if (d->at_work == 0)
                (void) sd_event_exit(d->event, 0);
}

static void on_done(const struct grpc_answer *a, void *userdata) {
        static const char *const outcomes[] = { "answered", "unsent", "refused", "uncertain" };
        struct driver *d = userdata;

        d->at_work--;
        if (d->swap && rename(d->swap, d->cert) == 0)
                d->swap = NULL;
        print(json_pack("{s:s,s:s,s:s,s:b,s:i,s:s%}", "outcome", outcomes[a->outcome], "status",
                        grpc_status_name(a->status), "why", a->why, "local", a->local, "len", (int) a->len,
                        "data", a->data ? (const char *) a->data : "",
                        a->data ? MIN(a->len, (size_t) 64) : 0));
        ended(d);
}

static void on_message(const uint8_t *data, size_t len, void *userdata) {
        struct driver *d = userdata;

        print(json_pack("{s:s%,s:i}", "message", (const char *) data, MIN(len, (size_t) 64), "len",
                        (int) len));
        if (++d->messages == d->enough)
                (void) sd_event_exit(d->event, 0);
        if (d->messages == d->cancel) {
                d->call = grpc_cancel(d->call);
                d->at_work--;
                ended(d);
        }
}

static void ask(struct driver *d) {
        int r = grpc_ask(d->grpc, &d->question, &d->call);

        if (r < 0) {
                print(json_pack("{s:i,s:s}", "error", r, "why", grpc_trouble(d->grpc)));
                (void) sd_event_exit(d->event, 0);
        } else
                d->at_work++;
}

static const char *value_of(const char *word, const char *name) {
        size_t n = strlen(name);

        return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static void take(struct driver *d, struct grpc_options *o, const char *word) {
        const char *v;

        if ((v = value_of(word, "text")))
                d->text = v;
        else if ((v = value_of(word, "size")))
                d->size = strtoul(v, NULL, 10);
        else if ((v = value_of(word, "deadline")))
                d->question.deadline = strtoul(v, NULL, 10) * USEC_PER_MSEC;
        else if ((v = value_of(word, "max")))
                o->message_max = strtoul(v, NULL, 10);
        else if ((v = value_of(word, "count")))
                d->count = strtol(v, NULL, 10);
        else if ((v = value_of(word, "at_once")))
                d->at_once = strtoul(v, NULL, 10);
        else if ((v = value_of(word, "cancel")))
                d->cancel = strtol(v, NULL, 10);
        else if ((v = value_of(word, "enough")))
                d->enough = strtol(v, NULL, 10);
        else if (value_of(word, "stream"))
                d->question.message = on_message;
        else if ((v = value_of(word, "metadata")))
                d->question.metadata[0] = v;
        else if ((v = value_of(word, "ca")))
                o->ca = v;
        else if ((v = value_of(word, "cert")))
                o->cert = d->cert = v;
        else if ((v = value_of(word, "swap")))
                d->swap = v;
        else if ((v = value_of(word, "key")))
                o->key = v;
}

int main(int argc, char *argv[]) {
        struct grpc_options o = { .name = "test",
                                  .user_agent = "grpc-driver",
                                  .connect_timeout = 5 * USEC_PER_SEC,
                                  .message_max = 1 << 20 };
        struct driver d = { .text = "hello", .at_once = 1, .count = 1 };
        _cleanup_free_ char *message = NULL;

        if (argc < 3 || sd_event_default(&d.event) < 0)
                return 64;
        for (int i = 3; i < argc; i++)
                take(&d, &o, argv[i]);
        o.url = argv[1];
        d.question.method = argv[2];
        d.question.len = d.size ? d.size : strlen(d.text);
        message = calloc(1, d.question.len + 1);
        if (!message)
                return 1;
        memcpy(message, d.text, MIN(strlen(d.text), d.question.len));
        d.question.data = message;
        d.question.done = on_done;
        d.question.userdata = &d;
        if (grpc_new(d.event, &o, &d.grpc) < 0)
                return 2;
        for (size_t i = 0; i < d.at_once; i++)
                ask(&d);
        (void) sd_event_loop(d.event);
        d.grpc = grpc_free(d.grpc);
        d.event = sd_event_unref(d.event);
        return 0;
}
