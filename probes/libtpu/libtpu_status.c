/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_status.h"

#include "libtpu.pb-c.h"
#include "utf8.h"

#define TENSOR_CORE_SEQUENCER 1 /* TPU_SEQUENCER_TYPE_TENSOR_CORE_SEQUENCER of tpu_telemetry.proto */

static void print_bytes(const ProtobufCBinaryData *b, char text[static LIBTPU_FINGERPRINT_MAX]) {
        size_t n = MIN(b->len, (size_t) (LIBTPU_FINGERPRINT_MAX - 1) / 2);

        text[0] = '\0';
        for (size_t i = 0; i < n; i++)
                (void) snprintf(text + 2 * i, 3, "%02x", b->data[i]);
}

/* One line of printable text; true: it was cut. */
static bool copy_line(char to[static LIBTPU_LOCATION_MAX], const char *from) {
        utf8_copy_line(to, LIBTPU_LOCATION_MAX, from);
        return strlen(from) >= LIBTPU_LOCATION_MAX;
}

/* The sequencer of the tensor core tells where a program is; else the first one. */
static const Libtpu__SequencerInfo *sequencer_of(const Libtpu__CurrentCoreStateSummary *s) {
        for (size_t i = 0; i < s->n_sequencer_info; i++)
                if (s->sequencer_info[i]->sequencer_type == TENSOR_CORE_SEQUENCER)
                        return s->sequencer_info[i];
        return s->n_sequencer_info > 0 ? s->sequencer_info[0] : NULL;
}

static bool read_core(const Libtpu__CoreStateEntry *e, struct libtpu_core *ret) {
        const Libtpu__CurrentCoreStateSummary *s = e->value;
        const Libtpu__SequencerInfo *q = sequencer_of(s);
        bool cut = copy_line(ret->error, s->error_message);

        ret->core = (uint32_t) e->key;
        ret->chip = s->core_id && s->core_id->chip_id >= 0 ? (uint32_t) s->core_id->chip_id : 0;
        ret->launch = s->launch_id;
        ret->queued = (uint32_t) MIN(s->n_queued_program_info, (size_t) UINT32_MAX);
        print_bytes(&s->program_fingerprint, ret->fingerprint);
        if (!q)
                return cut;
        ret->pc = q->pc;
        ret->tag = q->tag;
        ret->run = q->run_id;
        return copy_line(ret->location, q->hlo_location) || cut;
}

static bool is_known(const struct libtpu_status *s, uint32_t core) {
        for (size_t i = 0; i < s->n; i++)
                if (s->cores[i].core == core)
                        return true;
        return false;
}

static void add_core(struct libtpu_status *s, const Libtpu__CoreStateEntry *e) {
        struct libtpu_core core = { .core = 0 };
        size_t at = s->n;

        if (!e->value || e->key < 0 || is_known(s, (uint32_t) e->key))
                return;
        if (s->n >= LIBTPU_CORES_MAX) {
                s->cut = true;
                return;
        }
        s->cut |= read_core(e, &core);
        for (; at > 0 && s->cores[at - 1].core > core.core; at--)
                s->cores[at] = s->cores[at - 1];
        s->cores[at] = core;
        s->n++;
}

int libtpu_status_read(struct libtpu_reader *r, const void *data, size_t len, struct libtpu_status *s) {
        const Libtpu__GetTpuRuntimeStatusResponse *m;
        size_t before = s->n;
        int error = 0;

        m = libtpu_unpack(r, &libtpu__get_tpu_runtime_status_response__descriptor, data, len, &error);
        if (!m)
                return error;
        s->processes++;
        for (size_t i = 0; i < m->n_core_states; i++)
                add_core(s, m->core_states[i]);
        return (int) (s->n - before);
}

/* --- In short ------------------------------------------------------------------------------------------ */

static double number_of(const struct sample *s) {
        return s->is_int ? (double) s->i : s->d;
}

/* Held at the top: what a process says is not to be trusted. */
static int64_t sum_queued(int64_t a, int64_t b) {
        return a < 0 ? b : a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* What the transport between slices says comes first: it names who is to blame. */
static void take_error(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p) {
        if (number_of(&p->sample) == 0)
                return;
        r->error = true;
        if (!r->error_type[0] || id == LIBTPU_MEGASCALE_ERROR)
                (void) snprintf(r->error_type, sizeof(r->error_type), "%s", p->values[0]);
}

void libtpu_reading_take(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p) {
        double d;

        if (p->sample.kind != SAMPLE_GAUGE)
                return;
        d = number_of(&p->sample);
        if (id == LIBTPU_DUTY_CYCLE)
                r->duty_cycle = isnan(r->duty_cycle) ? d : MIN(r->duty_cycle, d);
        else if (id == LIBTPU_IDLE)
                r->idle_seconds = isnan(r->idle_seconds) ? d : MAX(r->idle_seconds, d);
        else if (id == LIBTPU_HLO_QUEUE && p->sample.is_int && p->sample.i >= 0)
                r->queued = sum_queued(r->queued, p->sample.i);
        else if (id == LIBTPU_MEGASCALE_ERROR || id == LIBTPU_SLICE_ERROR)
                take_error(r, id, p);
}
