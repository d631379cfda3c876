/* SPDX-License-Identifier: Apache-2.0 */
#include "cause.h"

/*
 * Lines that training code and libtpu print when they end, each with where it is from. In the order of what
 * they say: of two in one log the first of this list counts, for a host whose TPU is busy also loses its
 * peers.
 */
static const struct log_sign signs[] = {
        /* jax#10192, pytorch/xla#3214, TensorFlow's tpu_initializer_helper.cc */
        { { "already in use by", "Not attempting to load libtpu" },
          CAUSE_DEVICE_BUSY,
          "libtpu says that another process has the TPU",
          "tpuctl status shows who has the devices" },
        /* pytorch/xla#7227 */
        { { "The TPU is already in use by" },
          CAUSE_DEVICE_BUSY,
          "libtpu says that another process has the TPU",
          "tpuctl status shows who has the devices" },
        /* TensorFlow's tpu_initializer_helper.cc: the lock is held by a process that cannot be found */
        { { "accessing libtpu multi-process lockfile" },
          CAUSE_DEVICE_BUSY,
          "libtpu could not take its lock /tmp/libtpu_lockfile",
          "tpuctl status shows who has the devices" },
        /* vllm tpu-inference PR#926 */
        { { "/dev/vfio/", "Device or resource busy" },
          CAUSE_DEVICE_BUSY,
          "a chip's device was busy",
          "tpuctl status shows who has the devices" },
        /* jax#13260 */
        { { "/dev/accel", "No such file or directory" },
          CAUSE_DEVICE_LOST,
          "a chip's device node was not there",
          "tpuctl check chips; a reboot may bring it back" },
        { { "/dev/vfio/", "No such file or directory" },
          CAUSE_DEVICE_LOST,
          "a chip's device node was not there",
          "tpuctl check chips; a reboot may bring it back" },
        /* Lightning#20244 */
        { { "Invalid slice_builder_worker_addresses" },
          CAUSE_CONFIGURATION,
          "libtpu was given another number of workers than the slice has",
          "compare tpuctl env with tpuctl identity" },
        /* KubeRay's webhook */
        { { "Identical TPU_WORKER_ID assigned" },
          CAUSE_CONFIGURATION,
          "two hosts have the same worker id",
          "compare tpuctl identity of all hosts" },
        /* gvisor#10795, jax#24399: no tpu-env from the metadata server */
        { { "Failed to get TPU metadata" },
          CAUSE_CONFIGURATION,
          "the framework asked the metadata server and got no answer",
          "start it with tpuctl run --framework, which makes the question needless" },
        /* MaxText's megascale_hang_playbook.md */
        { { "Megascale detects a hang" },
          CAUSE_HANG,
          "Megascale found that the slices hang",
          "tpuctl diagnose SLICE" },
        /* XLA's distributed client (client.h), as JAX prints it when a task is lost */
        { { "Terminating process because the JAX distributed service detected" },
          CAUSE_PEER_LOST,
          "JAX's coordination service lost another host of the run",
          "look at the other hosts' tpuctl jobs: one of them ended first" },
        /* The project's source documents, F11: the coordinator of another slice does not listen (yet) */
        { { "GetMultiSliceTopology returned with status: UNAVAILABLE" },
          CAUSE_PEER_LOST,
          "another slice of the run was not up, or could not be reached",
          "tpuctl check path; look at the other slice's tpuctl jobs" },
        /* gloo's tcp/pair.cc, under torch.distributed: the socket to another rank ended */
        { { "gloo/transport/tcp/pair.cc", "Connection closed by peer" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "look at the other hosts' tpuctl jobs: one of them ended first" },
        { { "gloo/transport/tcp/pair.cc", "Connection reset by peer" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "look at the other hosts' tpuctl jobs: one of them ended first" },
        { { "gloo/transport/tcp/pair.cc", "Connection timed out" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "look at the other hosts' tpuctl jobs: one of them ended first" },
        /* F11 */
        { { "TPU initialization failed: Failed to connect" },
          CAUSE_PEER_LOST,
          "libtpu could not connect to the other hosts of the slice",
          "tpuctl check path; look at the other hosts' tpuctl jobs" },
};

const struct log_sign *log_sign(int i) {
        return i >= 0 && (size_t) i < ELEMENTSOF(signs) ? &signs[i] : NULL;
}

static bool has_all(const struct log_sign *s, const char *line, size_t len) {
        const char *at = line;

        for (size_t w = 0; w < ELEMENTSOF(s->words) && s->words[w]; w++) {
                size_t n = strlen(s->words[w]);

                at = memmem(at, len - (size_t) (at - line), s->words[w], n);
                if (!at)
                        return false;
                at += n;
        }
        return true;
}

int log_sign_find(const char *line, size_t len) {
        for (size_t i = 0; i < ELEMENTSOF(signs); i++)
                if (has_all(&signs[i], line, len))
                        return (int) i;
        return -1;
}
