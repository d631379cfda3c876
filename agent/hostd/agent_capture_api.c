/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/captures: this host's part of a diagnosis that somebody makes without a collector. */
#include "agent_calls.h"
#include "capture_build.h"
#include "capture_shelf.h"
#include "capture_wire.h"
#include "hex.h"

#define SHOWN 2 /* a round */
#define BUSY_AGAIN 5 /* seconds: a capture of one's own takes about as long */

static json_t *hex_json(const uint8_t *data, size_t len) {
        _cleanup_free_ char *text = hex_encode(data, len);

        return text ? json_stringn(text, 2 * len) : NULL;
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

static int add_kept(json_t *list, const char *directory, const char *name) {
        _cleanup_free_ uint8_t *wire = NULL;
        size_t len;
        int r = capture_shelf_read(directory, name, CAPTURE_WIRE_MAX, &wire, &len);

        if (r < 0)
                return r == -ENOENT ? 0 : r; /* a newer one has pushed it out */
        return json_array_append_new(list, json_pack("{s:s, s:o}", "name", name, "capture",
                                                     hex_json(wire, len))) < 0
                       ? -ENOMEM
                       : 0;
}

int agent_get_captures(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        const char *directory = agent_capture_directory(a);
        struct newest newest = { 0 };
        json_t *list = json_array();
        int k = list ? capture_shelf_visit(directory, on_name, &newest) : -ENOMEM;

        (void) r;
        for (size_t i = 0; i < newest.n && k == 0; i++)
                k = add_kept(list, directory, newest.names[i]);
        if (k < 0) {
                json_decref(list);
                return agent_answer_error(ret, 500, "ls -l the directory, and journalctl -u tpu-hostd",
                                          "%s cannot be read: %s", directory, strerror(-k));
        }
        return agent_answer_json(ret, 200, json_pack("{s:o}", "captures", list));
}

/* --- Of this host -------------------------------------------------------------------------------------- */

int agent_post_capture(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        const char *run = route_text(r, "run");
        struct agent_call *c;
        int k;

        if (!agent_caller_may_order(r->caller))
                return agent_refuse(a, r, ret, NULL, 403, "no right to act: this caller may not capture stacks",
                              "run it as root, or with a certificate that may act");
        if (run && *run && !run_name_is_valid(run))
                return agent_answer_error(ret, 400, "GET /v1/jobs has the names",
                                          "argument run: no name of a run");
        c = agent_call_new(a, r, sizeof(*c), "POST /v1/captures");
        if (!c)
                return agent_answer_error(ret, 500, NULL, "out of memory");
        k = agent_capture_order(a, run ? run : "", c);
        if (k == 0)
                return 1;
        agent_call_free(c);
        (void) agent_answer_error(ret, 503, "try again in a minute", "captures are under way already");
        ret->retry_after = BUSY_AGAIN;
        return 0;
}

void agent_capture_answered(void *token, const struct built_capture *b, const char *why) {
        struct agent_call *c = token;
        struct http_reply answer;

        agent_audit(c->agent, c->what, &c->caller, b ? "captured" : why);
        (void) (b ? agent_answer_json(&answer, 200,
                                      json_pack("{s:[{s:s, s:o}]}", "captures", "name", "", "capture",
                                                hex_json(b->wire, b->len)))
                  : agent_answer_error(&answer, 503, "tpuctl jobs", "%s", why));
        agent_call_answer(c, &answer);
}
