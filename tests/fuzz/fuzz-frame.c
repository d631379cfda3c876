/* SPDX-License-Identifier: Apache-2.0 */
/* Local frames of any peer, cut anywhere: each is whole and bounded, and its message is read or refused. */
#include <assert.h>

#include "frame.h"
#include "local.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const messages[] = {
        &local__error__descriptor,        &local__report__descriptor,
        &local__network_mtu__descriptor,  &local__observe__descriptor,
        &local__run_request__descriptor,  &local__run_list_reply__descriptor,
        &local__stop_request__descriptor, &local__capture_reply__descriptor,
        &local__owners_reply__descriptor,
};

static void read_message(const struct frame *f) {
        ProtobufCMessage *m =
                protobuf_c_message_unpack(messages[f->kind % ELEMENTSOF(messages)], NULL, f->len, f->data);

        if (m)
                protobuf_c_message_free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t taken = 0;
        int pair[2];

        if (size > 64 * 1024 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return 0;
        if (size > 0)
                assert(send(pair[1], data, size, MSG_NOSIGNAL) == (ssize_t) size);
        (void) close(pair[1]);
        for (;;) {
                uint8_t *buf = NULL;
                struct frame f;
                int r = frame_receive(pair[0], USEC_PER_SEC, &f, &buf);

                if (r < 0) {
                        assert(r != -ETIMEDOUT);
                        break;
                }
                assert(f.len <= FRAME_MAX);
                taken += 8 + f.len;
                assert(taken <= size);
                read_message(&f);
                free(buf);
        }
        (void) close(pair[0]);
        return 0;
}
