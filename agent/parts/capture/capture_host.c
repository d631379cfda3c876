/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_host.h"

#include "capture_write.h"

#define HOST_MAX     (100u * 1024) /* bytes, packed: of all that is appended */
#define ONE_MAX      (16u * 1024)  /* more than a core or a finding, and the end; not packed */
#define FINDINGS_MAX 192u

_Static_assert(CAPTURE_PACKED_MAX + HOST_MAX + 16 * 1024 <= CAPTURE_POST_MAX,
               "what may be written may be posted");

struct appending {
        struct capture_writer writer;
        size_t findings;
        bool cut;
};

static int add_host(struct appending *p, const struct capture_about *a, bool first) {
        Capture__Part part = CAPTURE__PART__INIT;
        Capture__Host h = CAPTURE__HOST__INIT, *list[] = { &h };
        char *own[CAPTURE_OWN_MAX];

        h.slice = capture_part_text(a->slice);
        h.host = capture_part_text(a->host);
        h.address = capture_part_text(a->address);
        h.episode = capture_part_text(a->episode);
        h.worker_plus_1 = a->worker + 1;
        h.round_plus_1 = a->round + 1;
        h.wanted_usec = a->wanted;
        h.taken_usec = a->taken;
        h.clock_error_usec = a->clock_error;
        h.step_plus_1 = a->step < 0 ? 0 : (uint64_t) a->step + 1;
        h.ended_usec = a->ended;
        h.ended_how = capture_part_text(a->ended_how ? a->ended_how : "");
        h.ended_peer = capture_part_text(a->ended_peer ? a->ended_peer : "");
        h.reached_plus_1 = a->reached + 1;
        h.problem = capture_part_text(a->problem && !a->ended ? a->problem : "");
        for (size_t i = 0; a->own && i < MIN(a->own->n, (size_t) CAPTURE_OWN_MAX); i++)
                own[h.n_own_addresses++] = capture_part_text(a->own->items[i]);
        h.own_addresses = own;
        part.version = first ? CAPTURE_VERSION : 0;
        part.host = list;
        part.n_host = 1;
        return capture_writer_add(&p->writer, &part, false);
}

static bool has_room(struct appending *p) {
        if (p->writer.len > HOST_MAX || p->writer.raw > CAPTURE_APPENDED_MAX - ONE_MAX)
                p->cut = true;
        return !p->cut;
}

static int add_core(struct appending *p, const struct libtpu_core *core) {
        Capture__Part part = CAPTURE__PART__INIT;
        Capture__Core c = CAPTURE__CORE__INIT, *list[] = { &c };

        c.core = core->core;
        c.chip = core->chip;
        c.pc = core->pc;
        c.launch = core->launch;
        c.run = core->run;
        c.queued = core->queued;
        c.fingerprint = capture_part_text(core->fingerprint);
        c.location = capture_part_text(core->location);
        c.error = capture_part_text(core->error);
        part.cores = list;
        part.n_cores = 1;
        return has_room(p) ? capture_writer_add(&p->writer, &part, false) : 0;
}

static int add_finding(struct appending *p, const struct finding *s) {
        Capture__Part part = CAPTURE__PART__INIT;
        Capture__Finding f = CAPTURE__FINDING__INIT, *list[] = { &f };

        if ((s->verdict != VERDICT_WARN && s->verdict != VERDICT_FAIL) || p->findings++ >= FINDINGS_MAX)
                return 0;
        f.check = capture_part_text(s->check);
        f.subject = capture_part_text(s->subject);
        f.found = capture_part_text(s->found);
        f.fail = s->verdict == VERDICT_FAIL;
        part.findings = list;
        part.n_findings = 1;
        return has_room(p) ? capture_writer_add(&p->writer, &part, false) : 0;
}

static int add_findings(struct appending *p, const struct capture_about *a) {
        int r = 0;

        for (size_t i = 0; a->checks && i < a->checks->n && r == 0; i++) {
                struct finding settled;

                kept_finding_unpack(a->checks->entries[i].settled, &settled);
                r = add_finding(p, &settled);
        }
        for (size_t i = 0; a->more && i < a->more->n && r == 0; i++)
                r = add_finding(p, &a->more->items[i]);
        return r;
}

static int append(struct appending *p, const struct capture_about *a, bool first) {
        Capture__Part end = CAPTURE__PART__INIT;
        int r = add_host(p, a, first);

        for (size_t i = 0; a->cores && i < a->cores->n && r == 0; i++)
                r = add_core(p, &a->cores->cores[i]);
        if (r == 0)
                r = add_findings(p, a);
        end.cut = p->cut || (a->cores && a->cores->cut);
        return r < 0 ? r : capture_writer_add(&p->writer, &end, true);
}

int capture_host_append(const uint8_t *stacks, size_t len, const struct capture_about *a, uint8_t **ret,
                        size_t *ret_len) {
        struct appending p = { .findings = 0 };
        _cleanup_free_ uint8_t *data = NULL;
        int r = len > CAPTURE_PACKED_MAX ? -E2BIG : capture_writer_init(&p.writer);

        if (r < 0)
                return r;
        r = append(&p, a, !stacks);
        if (r == 0)
                data = malloc(len + p.writer.len);
        if (data) {
                if (stacks)
                        memcpy(data, stacks, len);
                memcpy(data + len, p.writer.data, p.writer.len);
                *ret_len = len + p.writer.len;
                *ret = TAKE_PTR(data);
        } else if (r == 0)
                r = -ENOMEM;
        capture_writer_clear(&p.writer);
        return r;
}
