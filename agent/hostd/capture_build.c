/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_build.h"

#include "capture.h"
#include "capture_print.h"
#include "capture_read.h"
#include "capture_wire.h"
#include "inflate.h"
#include "pack.h"
#include "utf8.h"

#define STACKS_MAX   (4u * 1024 * 1024) /* tpu-stack prints no more */
#define FINDINGS_MAX 192u

void built_capture_clear(struct built_capture *b) {
        free(b->wire);
        free(b->packed);
        free(b->text);
        *b = (struct built_capture){ 0 };
}

/* --- What tpu-stack said ------------------------------------------------------------------------------- */

static int parse(const uint8_t *stacks, size_t len, json_t **ret, char why[static 200]) {
        _cleanup_free_ uint8_t *text = NULL;
        json_error_t error;
        size_t n;
        int r = inflate_gzip(stacks, len, STACKS_MAX, &text, &n);

        if (r < 0) {
                (void) snprintf(why, 200, "what tpu-stack said cannot be unpacked: %s", strerror(-r));
                return r == -EBADMSG ? -EPROTO : r;
        }
        *ret = json_loadb((const char *) text, n, 0, &error);
        if (*ret)
                return 0;
        (void) snprintf(why, 200, "what tpu-stack said is no JSON: %s", error.text);
        return -EPROTO;
}

static bool without_python(const json_t *process) {
        return json_object_get(process, "no_python") != NULL;
}

/* Shells and launchers say nothing beside the program itself. */
static void leave_out_others(json_t *stacks) {
        json_t *list = json_object_get(stacks, "processes"), *v;
        size_t i, n = 0;

        json_array_foreach (list, i, v)
                n += !without_python(v);
        for (i = json_array_size(list); n > 0 && i > 0; i--)
                if (without_python(json_array_get(list, i - 1)))
                        (void) json_array_remove(list, i - 1);
}

/* The main thread stands first, threads with Python before those without. */
static void cut_threads(json_t *stacks, size_t most) {
        json_t *v;
        size_t i;

        json_array_foreach (json_object_get(stacks, "processes"), i, v) {
                json_t *threads = json_object_get(v, "threads");

                while (json_array_size(threads) > most)
                        (void) json_array_remove(threads, json_array_size(threads) - 1);
        }
}

/* --- What we know -------------------------------------------------------------------------------------- */

static int text(struct stack_table *t, const char *s, uint32_t *ret) {
        char buf[512];

        utf8_copy(buf, sizeof(buf), s);
        return stack_table_string(t, buf, strlen(buf), ret);
}

static int add_finding(struct host_capture *c, struct stack_table *t, const struct finding *s) {
        struct captured_finding *f;
        int r;

        if ((s->verdict != VERDICT_WARN && s->verdict != VERDICT_FAIL) || c->n_findings >= FINDINGS_MAX)
                return 0;
        r = host_capture_add_finding(c, &f);
        if (r < 0)
                return r;
        f->fail = s->verdict == VERDICT_FAIL;
        r = text(t, s->check, &f->check);
        if (r == 0)
                r = text(t, s->subject, &f->subject);
        return r < 0 ? r : text(t, s->found, &f->found);
}

static int add_findings(struct host_capture *c, struct stack_table *t, const struct capture_about *a) {
        int r = 0;

        for (size_t i = 0; a->checks && i < a->checks->n && r == 0; i++) {
                struct finding settled;

                kept_finding_unpack(a->checks->entries[i].settled, &settled);
                r = add_finding(c, t, &settled);
        }
        for (size_t i = 0; a->more && i < a->more->n && r == 0; i++)
                r = add_finding(c, t, &a->more->items[i]);
        return r;
}

static int describe(struct host_capture *c, struct stack_table *t, const struct capture_about *a) {
        struct captured_process *p;
        int r = text(t, a->ended_how ? a->ended_how : "", &c->ended_how);

        utf8_copy(c->slice, sizeof(c->slice), a->slice);
        utf8_copy(c->host, sizeof(c->host), a->host);
        utf8_copy(c->address, sizeof(c->address), a->address);
        utf8_copy(c->episode, sizeof(c->episode), a->episode);
        c->worker = a->worker;
        c->round = a->round;
        c->wanted = a->wanted;
        c->taken = a->taken;
        c->clock_error = a->clock_error;
        c->step = a->step < 0 ? CAPTURE_STEP_NONE : (uint64_t) a->step;
        c->ended = a->ended;
        c->reached = a->reached;
        for (size_t i = 0; a->own && i < MIN(a->own->n, (size_t) CAPTURE_OWN_MAX) && r == 0; i++)
                r = text(t, a->own->items[i], &c->own[c->n_own++]);
        if (r == 0 && a->problem && !a->ended) {
                r = host_capture_add_process(c, &p);
                if (r == 0)
                        r = text(t, a->problem, &p->error);
        }
        if (r == 0 && a->cores)
                r = libtpu_status_to_capture(a->cores, t, c);
        return r < 0 ? r : add_findings(c, t, a);
}

/* --- Together ------------------------------------------------------------------------------------------ */

int capture_pack(const uint8_t *wire, size_t len, uint8_t **ret, size_t *ret_len) {
        _cleanup_(pack_freep) struct pack *p = NULL;
        const uint8_t *data;
        int r = pack_new(CAPTURE_WIRE_MAX, CAPTURE_SEND_MAX, &p);

        if (r == 0)
                r = pack_add(p, (const char *) wire, len);
        if (r == 0)
                r = pack_end(p, &data, ret_len);
        if (r < 0)
                return r;
        *ret = malloc(*ret_len);
        if (!*ret)
                return -ENOMEM;
        memcpy(*ret, data, *ret_len);
        return 0;
}

static int build(const json_t *stacks, const struct capture_about *a, bool cut, struct built_capture *b,
                 char why[static 200]) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        char reason[CAPTURE_WHY_MAX] = "";
        int r = 0;

        host_capture_init(&c);
        if (stacks)
                r = capture_json_read(stacks, &c, &t, reason);
        c.cut |= cut;
        if (r == 0)
                r = describe(&c, &t, a);
        if (r == 0)
                r = capture_wire_pack(&c, &t, &b->wire, &b->len);
        if (r == 0)
                r = capture_pack(b->wire, b->len, &b->packed, &b->packed_len);
        if (r == 0)
                r = capture_print(&c, &t, CAPTURE_TEXT_MAX, &b->text);
        b->processes = (unsigned) c.n_processes;
        b->threads = (unsigned) c.n_threads;
        b->cut = c.cut;
        if (r < 0)
                (void) snprintf(why, 200, "%s", reason[0] ? reason : strerror(-r));
        return r;
}

int capture_build(const uint8_t *stacks, size_t len, const struct capture_about *a,
                  struct built_capture *ret, char why[static 200]) {
        static const size_t most[] = { SIZE_MAX, 256, 64, 16, 4, 1 };
        json_t *v = NULL;
        int r = 0;

        if (stacks)
                r = parse(stacks, len, &v, why);
        if (r < 0)
                return r;
        leave_out_others(v);
        r = -E2BIG;
        for (size_t i = 0; r == -E2BIG && i < ELEMENTSOF(most); i++) {
                struct built_capture b = { 0 };

                if (i > 0)
                        cut_threads(v, most[i]);
                r = build(v, a, i > 0, &b, why);
                if (r == 0)
                        *ret = b;
                else
                        built_capture_clear(&b);
        }
        json_decref(v);
        return r;
}
