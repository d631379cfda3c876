/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/captures: this host's part of a diagnosis that somebody makes without a collector. */
#include "agent_calls.h"
#include "calls.h"
#include "capture_host.h"
#include "capture_shelf.h"
#include "capture_write.h"

#define SHOWN 2 /* a round */
#define BUSY_AGAIN 5 /* seconds: a capture of one's own takes about as long */

struct captures {
        uint8_t *data;
        size_t len, size;
};

static int add(struct captures *c, const uint8_t *data, size_t len) {
        Capture__Captured item = CAPTURE__CAPTURED__INIT, *list[] = { &item };
        Capture__Captures m = CAPTURE__CAPTURES__INIT;

        item.capture.data = (uint8_t *) (uintptr_t) data; /* only read */
        item.capture.len = len;
        m.captured = list;
        m.n_captured = 1;
        return captures_pack(&m, &c->data, &c->len, &c->size);
}

static int answer(struct http_reply *ret, struct captures *c) {
        *ret = (struct http_reply){
                .status = 200, .content_type = "application/x-protobuf", .body = c->data, .len = c->len
        };
        return 0;
}

/* --- What is kept -------------------------------------------------------------------------------------- */

struct newest {
        char names[SHOWN][SHELF_NAME_MAX];
        size_t n;
};

static bool on_name(const char *name, void *userdata) {
        struct newest *w = userdata;

        if (w->n == SHOWN)
                memmove(w->names[0], w->names[1], sizeof(w->names[0]) * (SHOWN - 1));
        else
                w->n++;
        (void) snprintf(w->names[w->n - 1], SHELF_NAME_MAX, "%s", name);
        return true;
}

static int add_kept(struct captures *c, const char *directory, const char *name) {
        _cleanup_free_ uint8_t *data = NULL;
        size_t len;
        int r = capture_shelf_read(directory, name, CAPTURE_POST_MAX, &data, &len);

        return r < 0 ? (r == -ENOENT ? 0 : r) /* a newer one has pushed it out */ : add(c, data, len);
}

int agent_get_captures(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        const char *directory = agent_capture_directory(b);
        struct newest newest = { 0 };
        struct captures all = { .len = 0 };
        int k = capture_shelf_visit(directory, on_name, &newest);

        (void) r;
        for (size_t i = 0; i < newest.n && k == 0; i++)
                k = add_kept(&all, directory, newest.names[i]);
        if (k < 0) {
                free(all.data);
                return answer_error(ret, 500, "ls -l the directory, and journalctl -u tpu-hostd",
                                          "%s cannot be read: %s", directory, strerror(-k));
        }
        return answer(ret, &all);
}

/* --- Of this host -------------------------------------------------------------------------------------- */

int agent_post_capture(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        const char *run = route_text(r, "run");
        struct late_call *c;
        int k;

        if (!caller_may_order(r->caller))
                return call_refuse(b, r, ret, NULL, 403, "no right to act: this caller may not capture stacks",
                              "run it as root, or with a certificate that may act");
        if (run && *run && !run_name_is_valid(run))
                return answer_error(ret, 400, "GET /v1/runs has the names",
                                          "argument run: no name of a run");
        c = late_call_new(b, r, sizeof(*c), "POST /v1/captures");
        if (!c)
                return answer_error(ret, 500, NULL, "out of memory");
        k = agent_capture_order(b, run ? run : "", c);
        if (k == 0)
                return 1;
        late_call_free(c);
        (void) answer_error(ret, 503, "try again in a minute", "captures are under way already");
        ret->retry_after = BUSY_AGAIN;
        return 0;
}

void agent_capture_answered(void *token, const uint8_t *data, size_t len, const char *why) {
        struct late_call *c = token;
        struct captures one = { .len = 0 };
        struct http_reply reply;

        if (data && add(&one, data, len) < 0)
                why = "out of memory";
        call_audit(c->bus, c->what, &c->caller, one.data ? "captured" : why);
        if (one.data)
                (void) answer(&reply, &one);
        else
                (void) answer_error(&reply, 503, "tpuctl runs", "%s", why);
        late_call_answer(c, &reply);
}
