/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "device_list.h"
#include "run_spec.h"
#include "text_list.h"

/* JSON's integers are signed: no limit is -1. */
static json_int_t limit_out(uint64_t v) {
        return v > INT64_MAX ? -1 : (json_int_t) v;
}

static uint64_t limit_in(json_int_t v) {
        return v < 0 ? SPEC_UNLIMITED : (uint64_t) v;
}

json_t *run_spec_to_json(const struct run_spec *s) {
        return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:I, s:i, s:i, s:o, "
                         "s:b, s:b, s:b, s:o}",
                         "generation", (json_int_t) s->generation, "intent", s->intent, "slice", s->slice,
                         "worker", s->worker, "memlock", limit_out(s->memlock), "nofile",
                         limit_out(s->nofile), "memory_max", limit_out(s->memory_max), "memory_total",
                         limit_out(s->memory_total), "memory_high", limit_out(s->memory_high), "cpus",
                         s->cpus, "numa", s->numa, "keep_core", (int) s->keep_core, "grace_usec",
                         (json_int_t) s->grace, "restarts", (int) s->restarts, "preempt_signal",
                         s->preempt_signal, "preempt_argv", strings_to_json(s->preempt_argv),
                         "share_devices", (int) s->share_devices, "any_device", (int) s->any_device,
                         "remote", (int) s->remote, "devices", strings_to_json(s->devices));
}

static int copy(const char *from, char *to, size_t size) {
        if (strlen(from) >= size)
                return -EBADMSG;
        (void) snprintf(to, size, "%s", from);
        return 0;
}

static int copy_texts(const json_t *o, struct run_spec *s) {
        const struct {
                const char *key;
                char *to;
                size_t size;
        } texts[] = {
                { "intent", s->intent, sizeof(s->intent) }, { "slice", s->slice, sizeof(s->slice) },
                { "worker", s->worker, sizeof(s->worker) }, { "cpus", s->cpus, sizeof(s->cpus) },
                { "numa", s->numa, sizeof(s->numa) },
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                const char *text = json_string_value(json_object_get(o, texts[i].key));

                if (!text || copy(text, texts[i].to, texts[i].size) < 0)
                        return -EBADMSG;
        }
        return 0;
}

/* NULL, as an empty list is written, stays NULL. */
static int copy_list(const json_t *o, const char *key, size_t max, char ***to) {
        const json_t *list = json_object_get(o, key);

        if (json_array_size(list) == 0)
                return 0;
        *to = strings_from_json(list, max);
        return *to ? 0 : -EBADMSG;
}

int run_spec_from_json(const json_t *o, struct run_spec *s) {
        json_int_t generation, memlock, nofile, memory_max, total, high, grace;
        int keep_core, restarts, number, share, any, remote;

        run_spec_init(s);
        if (json_unpack((json_t *) (uintptr_t) o,
                        "{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:i, s:i, s:b, s:b, s:b}", "generation",
                        &generation, "memlock", &memlock, "nofile", &nofile, "memory_max", &memory_max,
                        "memory_total", &total, "memory_high", &high, "keep_core", &keep_core, "grace_usec",
                        &grace, "restarts", &restarts, "preempt_signal", &number, "share_devices", &share,
                        "any_device", &any, "remote", &remote) < 0)
                return -EBADMSG;
        if (generation < 0 || grace <= 0 || (usec_t) grace > SPEC_GRACE_MAX || restarts < 0 ||
            restarts > SPEC_RESTARTS_MAX || number < 0 || number > SIGRTMAX)
                return -EBADMSG;
        s->generation = (uint64_t) generation;
        s->memlock = limit_in(memlock);
        s->nofile = limit_in(nofile);
        s->memory_max = limit_in(memory_max);
        s->memory_total = limit_in(total);
        s->memory_high = limit_in(high);
        s->keep_core = keep_core;
        s->grace = (usec_t) grace;
        s->restarts = (uint32_t) restarts;
        s->preempt_signal = number;
        s->share_devices = share;
        s->any_device = any;
        s->remote = remote;
        if (copy_texts(o, s) < 0 || copy_list(o, "devices", DEVICE_LIST_MAX, &s->devices) < 0)
                return -EBADMSG;
        return copy_list(o, "preempt_argv", SPEC_PREEMPT_ARGV_MAX, &s->preempt_argv);
}
