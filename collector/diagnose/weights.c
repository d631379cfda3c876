/* SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

/* The measurements. "matrix": twelve causes on booted hosts, torch over gloo, three trials each
 * (tests/lab/stalls.py). "sockets": both ends of all connections of stalled trainings, looked at 15 s after
 * the strike: a ring, a star, gloo, 17 trials. "none": an estimate, kept below what is measured. */
static const struct {
        double weight;
        const char *from;
} weights[_WEIGHT_MAX] = {
        [WEIGHT_BLOCKED] = { 1.0, "sockets: 8 of 8 in the ring and the star; it is what the kernel does" },
        [WEIGHT_POLLS] = { 0.9, "matrix: pollers wait everywhere; whom for, others decide" },
        [WEIGHT_LIKE_MOST] = { 0.9, "matrix: 11 of 12" },
        [WEIGHT_UNREAD] = { 0.5, "sockets: right in 8 of 10, in a star wrong in 2 of 3" },
        [WEIGHT_UNSENT] = { 0.8, "sockets: a full window is the reader's" },
        [WEIGHT_OWED] = { 0.6, "sockets: right in 14 of 14 in ring and gloo, in the star where not equal" },
        [WEIGHT_OWES] = { 0.85, "sockets: 14 of 14; in the star wrong where the thread does not decide" },
        [WEIGHT_CYCLE] = { 0.92, "matrix: 3 of 3" },
        [WEIGHT_OUTSIDE] = { 0.9, "none" },
        [WEIGHT_SPINS] = { 0.3, "recorded: MPI, whose ranks wait so; and all of a run that compiles" },
        [WEIGHT_LOOKS] = { 0.1, "sockets: what is owed shows alike for ranks that wait by spinning" },
        [WEIGHT_NEAR] = { 0.45, "recorded: gloo, second step: ahead of the others or behind them" },
        [WEIGHT_SIDE] = { 0.5, "none" },
        [WEIGHT_SINK] = { 0.7, "none" },
        [WEIGHT_MEMBER] = { 0.4, "none: one of several" },
        [WEIGHT_SILENT] = { 0.85, "matrix: 3 of 3 (eth0)" },
        [WEIGHT_SILENT_EXPLAINED] = { 0.35, "none" },
        [WEIGHT_LEFT_ALONE] = { 0.95, "matrix: 3 of 3 (exit)" },
        [WEIGHT_LEFT_FIRST] = { 0.95, "matrix: 3 of 3 (exit)" },
        [WEIGHT_LEFT_CLOSE] = { 0.55, "none: within what the clocks may be wrong by" },
        [WEIGHT_LEFT_ODD] = { 0.75, "recorded: hub, who left by itself among those that lost a peer" },
        [WEIGHT_LEFT_LATER] = { 0.15, "none" },
        [WEIGHT_LEFT_SOME] = { 0.4, "none" },
        [WEIGHT_CORE_ERROR] = { 0.9, "Megascale's own rule" },
        [WEIGHT_CORE_PROGRAM] = { 0.8, "Megascale's own rule" },
        [WEIGHT_CORE_BEHIND] = { 0.7, "Megascale's own rule" },
        [WEIGHT_CORE_COUNTER] = { 0.8, "Megascale's own rule" },
        [WEIGHT_CORE_INPUT] = { 0.3, "Megascale's own rule: look at its threads" },
        [WEIGHT_STEP] = { 0.4, "none: the line of a step may be late" },
        [WEIGHT_STEP_EXPLAINED] = { 0.1, "none" },
        [WEIGHT_PATH_NOTHING] = { 0.2, "none" },
        [WEIGHT_PATH_LIKELY] = { 0.6, "none" },
        [WEIGHT_PATH_CLEAR] = { 0.85, "matrix: 3 of 3 (eth1)" },
        [WEIGHT_PATH_PAIR] = { 0.55, "none: either end" },
        [WEIGHT_PATH_EXPLAINED] = { 0.1, "none" },
        [WEIGHT_CHECK_PATH] = { 0.65, "none" },
        [WEIGHT_CHECK] = { 0.3, "none" },
};

/* Of what a rank waits for itself: seen once, at one place twice, at two places. */
static const struct {
        double once, stuck, moved;
        const char *from;
} ends[_KIND_MAX] = {
        [WAIT_LOCK] = { 0.8, 0.9, 0.8, "matrix: deadlock, queue" },
        [WAIT_GIL] = { 0.7, 0.85, 0.7, "none" },
        [WAIT_SOCKET] = { 0.85, 0.92, 0.85, "matrix: read" },
        [WAIT_PIPE] = { 0.85, 0.92, 0.85, "matrix: read" },
        [WAIT_EVENTFD] = { 0.75, 0.85, 0.75, "none" },
        [WAIT_FILE] = { 0.85, 0.95, 0.85, "matrix: mount" },
        [WAIT_FILE_LOCK] = { 0.85, 0.92, 0.85, "none" },
        [WAIT_DEVICE] = { 0.75, 0.85, 0.75, "none" },
        [WAIT_CHILD] = { 0.75, 0.85, 0.75, "none" },
        [WAIT_TIMER] = { 0.8, 0.85, 0.8, "matrix: sleep" },
        [WAIT_PAGE] = { 0.85, 0.92, 0.85, "none" },
        [WAIT_IO_URING] = { 0.75, 0.85, 0.75, "none" },
        [WAIT_STOPPED] = { 0.97, 0.97, 0.97, "matrix: stop" },
        [WAIT_FROZEN] = { 0.97, 0.97, 0.97, "none: as stopped" },
        [WAIT_THROTTLED] = { 0.85, 0.92, 0.85, "none" },
        [KIND_CPU] = { 0.85, 0.85, 0.85, "matrix: loop, spin, pause" },
        [KIND_CALL] = { 0.8, 0.9, 0.8, "matrix: read" },
        [KIND_ENDED] = { 0.9, 0.9, 0.9, "matrix: exit" },
};

double weight_of(enum weight w) {
        return weights[w].weight;
}

const char *weight_measurement(enum weight w) {
        return weights[w].from;
}

double weight_of_end(uint8_t kind, bool stuck, bool moved) {
        return moved ? ends[kind].moved : stuck ? ends[kind].stuck : ends[kind].once;
}
