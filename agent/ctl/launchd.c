/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include "launchd.h"
#include "paths.h"

static int refuse(const struct frame *f, struct problem *p) {
        Local__Error *e = local__error__unpack(NULL, f->len, f->data);
        int r;

        if (!e)
                return launchd_garbled(p);
        r = problem_set(p, e->code > 0 ? -e->code : -EIO, e->remedy, "%s", e->text);
        local__error__free_unpacked(e, NULL);
        return r;
}

int launchd_garbled(struct problem *problem) {
        return problem_set(problem, -EPROTO, "tpuctl --version; tpu-launchd --version",
                           "tpu-launchd's answer cannot be understood");
}

static int no_answer(struct problem *p, int error, const char *path) {
        p->no_answer = true;
        return problem_set(p, error,
                           error == -EACCES ? "run it as root, or as a member of the socket's group"
                                            : "systemctl status tpu-launchd.socket tpu-launchd",
                           "no answer from tpu-launchd on %s: %s", path, strerror(-error));
}

int launchd_ask(const char *root, uint16_t kind, const ProtobufCMessage *m, uint16_t want, usec_t timeout,
                struct frame *ret, uint8_t **ret_buf, struct problem *problem) {
        _cleanup_free_ char *path = NULL;
        _cleanup_free_ uint8_t *buf = NULL;
        _cleanup_close_ int fd = -1;
        struct frame f;
        int r;

        *problem = (struct problem) { 0 };
        r = socket_path(root, PATH_LAUNCHD_SOCKET, &path);
        if (r < 0)
                return problem_set(problem, r, NULL, "the path of tpu-launchd's socket below --root: %s",
                                   strerror(-r));
        fd = frame_connect(path);
        if (fd < 0)
                return no_answer(problem, fd, path);
        r = frame_send(fd, kind, m, timeout);
        if (r == 0)
                r = frame_receive(fd, timeout, &f, &buf);
        if (r < 0)
                return no_answer(problem, r, path);
        if (f.kind == LOCAL__KIND__KIND_ERROR)
                return refuse(&f, problem);
        if (f.kind != want)
                return launchd_garbled(problem);
        *ret = f;
        *ret_buf = TAKE_PTR(buf);
        return 0;
}
