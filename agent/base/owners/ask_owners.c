/* SPDX-License-Identifier: Apache-2.0 */
#include "ask_owners.h"

#include "frame.h"
#include "local.pb-c.h"
#include "paths.h"

#define TIMEOUT (2 * USEC_PER_SEC)

static void fail_owners(struct device_owners *o, int error, const char *what) {
        *o = (struct device_owners){ .error = error };
        (void) snprintf(o->why, sizeof(o->why), "tpu-launchd (%s): %s", PATH_LAUNCHD_SOCKET, what);
}

static void take_reply(const Local__OwnersReply *reply, struct device_owners *ret) {
        *ret = (struct device_owners){ .incomplete = reply->incomplete };
        for (size_t i = 0; i < reply->n_owner && ret->n < DEVICE_OWNERS_MAX; i++) {
                const Local__Owner *in = reply->owner[i];
                struct device_owner *out = &ret->owners[ret->n++];

                out->pid = in->pid;
                out->uid = in->uid;
                (void) snprintf(out->device, sizeof(out->device), "%s", in->device);
                (void) snprintf(out->unit, sizeof(out->unit), "%s", in->unit);
                (void) snprintf(out->command, sizeof(out->command), "%s", in->command);
        }
        ret->incomplete |= reply->n_owner > DEVICE_OWNERS_MAX;
        for (size_t i = 0; i < reply->n_port && ret->n_ports < PORT_OWNERS_MAX; i++) {
                const Local__PortOwner *in = reply->port[i];
                struct port_owner *out = &ret->ports[ret->n_ports++];

                out->port = (uint16_t) in->port;
                out->pid = in->pid;
                out->uid = in->uid;
                (void) snprintf(out->unit, sizeof(out->unit), "%s", in->unit);
                (void) snprintf(out->command, sizeof(out->command), "%s", in->command);
        }
}

static void take_frame(const struct frame *f, struct device_owners *ret) {
        Local__OwnersReply *reply;
        Local__Error *e;

        if (f->kind == LOCAL__KIND__KIND_ERROR) {
                e = local__error__unpack(NULL, f->len, f->data);
                fail_owners(ret, -EIO, e ? e->text : "its answer cannot be understood");
                local__error__free_unpacked(e, NULL);
                return;
        }
        reply = f->kind == LOCAL__KIND__KIND_OWNERS_REPLY
                        ? local__owners_reply__unpack(NULL, f->len, f->data)
                        : NULL;
        if (reply)
                take_reply(reply, ret);
        else
                fail_owners(ret, -EPROTO, "its answer cannot be understood");
        local__owners_reply__free_unpacked(reply, NULL);
}

void ask_owners(const struct host *h, struct device_owners *ret) {
        Local__OwnersRequest q = LOCAL__OWNERS_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        _cleanup_close_ int fd = -1;
        struct frame f;
        char path[256];
        int r;

        if (snprintf(path, sizeof(path), "%s%s", h->root ? h->root : "", PATH_LAUNCHD_SOCKET) >=
            (int) sizeof(path)) {
                fail_owners(ret, -ENAMETOOLONG, "the path below --root is too long");
                return;
        }
        fd = frame_connect(path);
        r = fd < 0 ? fd : frame_send(fd, LOCAL__KIND__KIND_OWNERS_REQUEST, &q.base, TIMEOUT);
        if (r == 0)
                r = frame_receive(fd, TIMEOUT, &f, &buf);
        if (r < 0)
                fail_owners(ret, r, strerror(-r));
        else
                take_frame(&f, ret);
}
