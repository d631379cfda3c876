/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server of gRPC on this host sends over HTTP/2: every call ends exactly once, with an answer within
 * its limit or without one; nothing is taken beyond the budget. First byte: how many calls, and in what
 * pieces the rest comes.
 */
#include <assert.h>

#include "grpc_session.h"

#define MESSAGE_MAX 512
#define BUDGET 4096
#define ASKED_MAX 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        struct grpc_session *session;
        unsigned asked, ended;
};

static void ask(struct seen *s);

static void done(int error, const uint8_t *data, size_t len, const char *why, void *userdata) {
        struct seen *s = userdata;

        s->ended++;
        assert(error <= 0 && why && strlen(why) < 256);
        assert(error == 0 ? len <= MESSAGE_MAX : !data && len == 0);
        for (const char *c = why; *c; c++)
                assert(*c >= ' ' && *c <= '~');
        if (s->asked < ASKED_MAX)
                ask(s); /* the next one out of the last one's end */
}

static void ask(struct seen *s) {
        const struct grpc_session_question q = {
                .method = "/a.B/C", .data = "hello", .len = 5, .timeout = USEC_PER_SEC, .done = done,
                .userdata = s
        };

        if (grpc_session_ask(s->session, &q) == 0)
                s->asked++;
}

static void drain(struct grpc_session *s) {
        const uint8_t *out;

        while (grpc_session_output(s, &out) > 0)
                ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct grpc_session_options o = {
                .user_agent = "fuzz", .message_max = MESSAGE_MAX, .budget = BUDGET
        };
        struct seen s = { .asked = 0 };
        size_t piece;

        if (size < 1)
                return 0;
        if (grpc_session_new(&o, &s.session) < 0)
                return 0;
        piece = (size_t) (data[0] >> 4) * 16 + 1;
        for (unsigned i = 0; i <= (data[0] & 3); i++)
                ask(&s);
        drain(s.session);
        for (size_t at = 1; at < size; at += piece) {
                int r = grpc_session_input(s.session, data + at, MIN(piece, size - at));

                assert(r < 0 || MIN(at + piece, size) - 1 <= BUDGET);
                grpc_session_deliver(s.session);
                if (r < 0)
                        break;
                drain(s.session);
        }
        /* done asks again, ASKED_MAX times in all */
        while (grpc_session_open(s.session) > 0 || grpc_session_has_ended(s.session))
                grpc_session_fail(s.session, -ECONNRESET, "the end");
        assert(grpc_session_open(s.session) == 0 && s.ended == s.asked);
        (void) grpc_session_free(s.session);
        return 0;
}
