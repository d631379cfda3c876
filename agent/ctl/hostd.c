/* SPDX-License-Identifier: Apache-2.0 */
#include "hostd.h"
#include "paths.h"

int hostd_ask(const char *root, const char *path, bool post, usec_t timeout, json_t **ret,
              struct problem *problem) {
        return hostd_call(root, post ? "POST" : NULL, path, timeout, ret, problem);
}

int hostd_call(const char *root, const char *method, const char *path, usec_t timeout, json_t **ret,
               struct problem *problem) {
        struct http_request q = { .post = method != NULL, .method = method, .timeout = timeout };
        _cleanup_free_ char *socket = NULL, *url = NULL;
        int r;

        r = socket_path(root, PATH_HOSTD_SOCKET, &socket);
        if (r == 0 && asprintf(&url, "http://localhost%s", path) < 0)
                r = -ENOMEM;
        if (r < 0)
                return problem_set(problem, r, NULL, "the path of tpu-hostd's socket below --root: %s",
                                   strerror(-r));
        q.unix_socket = socket;
        q.url = url;
        r = http_json(&q, ret, problem);
        if (r < 0 && problem->no_answer && !problem->remedy[0])
                (void) snprintf(problem->remedy, sizeof(problem->remedy), "%s",
                                r == -EACCES ? "run it as root, or as a member of the socket's group"
                                             : "systemctl status tpu-hostd");
        return r;
}
