/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_answer.h"

#include "local.pb-c.h"
#include "log.h"
#include "wire_text.h"

static int problem_of(const struct job *j, const struct capture_result *r, struct problem *p) {
        if (r->error == -ETIMEDOUT)
                return problem_set(p, r->error, "see: ps -eo pid,stat,wchan:30,comm",
                                   "run %s: its stacks did not come within %u s", j->name,
                                   (unsigned) ((r->wish.native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT) /
                                               USEC_PER_SEC));
        if (r->error == -ESRCH)
                return problem_set(p, r->error, "only Python processes have stacks to show",
                                   "run %s: no Python process in it: %.200s", j->name, r->problem);
        if (r->error == -E2BIG)
                return problem_set(p, r->error, "see the main threads: tpuctl stack",
                                   "run %s: its stacks are more than can be sent", j->name);
        return problem_set(p, r->error, "see: journalctl -b -u tpu-launchd",
                           "run %s: tpu-stack failed: %.256s", j->name, r->problem);
}

int capture_answer(struct frame_peer *peer, const struct job *j, const struct capture_result *r,
                   usec_t taken_real, struct problem *p) {
        Local__CaptureReply reply = LOCAL__CAPTURE_REPLY__INIT;
        int k;

        if (r->error < 0)
                return problem_of(j, r, p);
        reply.name = wire_text(j->name);
        reply.text = wire_text(r->text);
        reply.packed.data = (uint8_t *) (uintptr_t) r->packed; /* only read */
        reply.packed.len = r->packed_len;
        reply.taken_real_usec = taken_real;
        reply.processes = r->processes;
        reply.threads = r->threads;
        reply.native = r->wish.native;
        reply.partial = r->partial;
        reply.problem = wire_text(r->problem);
        k = frame_peer_send(peer, LOCAL__KIND__KIND_CAPTURE_REPLY, &reply.base);
        if (k < 0)
                (void) log_debug_errno(k, "a local caller did not take its stacks: %m");
        return 0;
}
