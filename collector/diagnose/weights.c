/* SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

static const struct {
        double weight;
        const char *from;
} weights[_WEIGHT_MAX] = {
#define WEIGHT(name, weight, from) [WEIGHT_##name] = { weight, from },
#include "weights.def"
#undef WEIGHT
};

/* Of what a rank waits for itself: seen once or at two places, at one place twice. Behind it where that is
 * from, as in weights.def. */
static const struct {
        double once, stuck;
} ends[_KIND_MAX] = {
        [WAIT_LOCK] = { 0.8, 0.9 },        /* matrix: deadlock, queue */
        [WAIT_GIL] = { 0.7, 0.85 },        /* none */
        [WAIT_SOCKET] = { 0.85, 0.92 },    /* matrix: read */
        [WAIT_PIPE] = { 0.85, 0.92 },      /* matrix: read */
        [WAIT_EVENTFD] = { 0.75, 0.85 },   /* none */
        [WAIT_FILE] = { 0.85, 0.95 },      /* matrix: mount */
        [WAIT_FILE_LOCK] = { 0.85, 0.92 }, /* none */
        [WAIT_DEVICE] = { 0.75, 0.85 },    /* none */
        [WAIT_CHILD] = { 0.75, 0.85 },     /* none */
        [WAIT_TIMER] = { 0.8, 0.85 },      /* matrix: sleep */
        [WAIT_PAGE] = { 0.85, 0.92 },      /* none */
        [WAIT_IO_URING] = { 0.75, 0.85 },  /* none */
        [WAIT_STOPPED] = { 0.97, 0.97 },   /* matrix: stop */
        [WAIT_FROZEN] = { 0.97, 0.97 },    /* none: as stopped */
        [WAIT_THROTTLED] = { 0.85, 0.92 }, /* none */
        [KIND_CPU] = { 0.85, 0.85 },       /* matrix: loop, spin, pause */
        [KIND_CALL] = { 0.8, 0.9 },        /* matrix: read */
        [KIND_ENDED] = { 0.9, 0.9 },       /* matrix: exit */
};

double weight_of(enum weight w) {
        return weights[w].weight;
}

const char *weight_measurement(enum weight w) {
        return weights[w].from;
}

double weight_of_end(uint8_t kind, bool stuck) {
        return stuck ? ends[kind].stuck : ends[kind].once;
}
