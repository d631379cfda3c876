/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "capture_files.h"
#include "capture_read.h"
#include "capture_write.h"
#include "io.h"
#include "json_text.h"
#include "utf8.h"

#define CAPTURE_FILE_MAX (256u * 1024 * 1024)

/* "DIR/h5.capture" → "h5". */
static void name_after_file(const char *path, size_t index, struct host_capture *c) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
                   *dot = strchr(name + 1, '.');

        (void) snprintf(c->host, sizeof(c->host), "%.*s", dot ? (int) (dot - name) : (int) strlen(name),
                        name);
        c->round = MIN((uint32_t) index, 1u);
}

static int load_captures(const char *path, const uint8_t *data, size_t len, struct scene *s,
                         struct problem *problem) {
        _cleanup_capture_reader_ struct capture_reader reader;
        char why[CAPTURE_WHY_MAX];
        int r = 1;

        capture_reader_init(&reader, data, len, CAPTURE_DIAGNOSED);
        for (size_t i = 0; r > 0; i++) {
                _cleanup_host_capture_ struct host_capture c;

                r = capture_reader_next(&reader, &c, &s->table, why);
                if (r == 0 && i == 0)
                        return problem_set(problem, -EPROTO, NULL, "%s: it is empty", path);
                if (r < 0)
                        return problem_set(problem, r, "tpu-stack --capture writes captures",
                                           "%s: capture %zu%s%s: %s", path, i + 1, c.host[0] ? " of " : "",
                                           c.host, why[0] ? why : strerror(-r));
                if (r > 0 && !c.host[0] && c.worker == CAPTURE_WORKER_NONE)
                        name_after_file(path, i, &c);
                if (r > 0 && (r = scene_add(s, &c)) < 0)
                        return problem_set(problem, r, NULL, "%s: capture %zu: %s", path, i + 1,
                                           strerror(-r));
                r = r < 0 ? r : reader.len > 0 || reader.parts.next < reader.parts.end;
        }
        return r;
}

int capture_file_read(const char *path, int fd, char **ret, size_t *ret_len, struct problem *problem) {
        int r = io_read_whole(fd, CAPTURE_FILE_MAX, ret, ret_len);

        if (r == -E2BIG)
                return problem_set(problem, r, NULL, "%s: larger than %u MiB", path, CAPTURE_FILE_MAX >> 20);
        return r < 0 ? problem_set(problem, r, NULL, "%s: %s", path, strerror(-r)) : 0;
}

static int load_file(const char *path, int fd, struct scene *s, struct problem *problem) {
        _cleanup_free_ char *data = NULL;
        size_t len;
        int r = capture_file_read(path, fd, &data, &len, problem);

        return r < 0 ? r : load_captures(path, (const uint8_t *) data, len, s, problem);
}

static int no_dots(const struct dirent *d) {
        return d->d_name[0] != '.';
}

static int load_folder(const char *path, struct scene *s, struct problem *problem) {
        struct dirent **names;
        int n = scandir(path, &names, no_dots, alphasort), r = 0;

        if (n < 0)
                return problem_set(problem, -errno, NULL, "%s: %s", path, strerror(errno));
        for (int i = 0; i < n; i++) {
                char file[4096];
                struct stat st;

                (void) snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
                if (r == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode))
                        r = capture_files_load(file, s, problem);
                free(names[i]);
        }
        free(names);
        return r;
}

int capture_files_load(const char *path, struct scene *s, struct problem *problem) {
        _cleanup_close_ int fd =
                open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a fifo does not hold it up */
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return problem_set(problem, -errno, NULL, "%s: %s", path, strerror(errno));
        if (S_ISDIR(st.st_mode))
                return load_folder(path, s, problem);
        if (!S_ISREG(st.st_mode))
                return problem_set(problem, -EINVAL, NULL, "%s: neither a file nor a folder", path);
        return load_file(path, fd, s, problem);
}

void capture_who(struct host_capture *c, const json_t *v, const char *slice) {
        const json_t *number = json_object_get(v, "worker"), *address = json_object_get(v, "address");

        host_capture_init(c);
        utf8_copy(c->slice, sizeof(c->slice), slice ? slice : json_text_of(v, "slice"));
        utf8_copy(c->host, sizeof(c->host), json_text_of(v, "host"));
        utf8_copy(c->address, sizeof(c->address),
                  json_string_value(json_is_array(address) ? json_array_get(address, 0) : address));
        if (json_is_integer(number) && json_integer_value(number) >= 0 &&
            json_integer_value(number) < CAPTURE_WORKER_NONE)
                c->worker = (uint32_t) json_integer_value(number);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

static void who_of(const Capture__Host *h, struct host_capture *ret) {
        host_capture_init(ret);
        if (!h)
                return;
        utf8_copy(ret->slice, sizeof(ret->slice), h->slice);
        utf8_copy(ret->host, sizeof(ret->host), h->host);
        utf8_copy(ret->address, sizeof(ret->address), h->address);
        ret->worker = h->worker_plus_1 - 1;
        ret->round = h->round_plus_1 > 1;
}

/* 1: added; 0: it cannot be read. */
static int add_one(struct scene *s, const Capture__Captured *m, struct host_capture *who) {
        _cleanup_host_capture_ struct host_capture c;
        char why[CAPTURE_WHY_MAX];
        int r;

        host_capture_init(&c);
        if (m->capture.len == 0) {
                who->silent = true;
                return scene_add(s, who);
        }
        r = capture_read(m->capture.data, m->capture.len, CAPTURE_DIAGNOSED, &c, &s->table, why);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                fprintf(stderr, "tpuctl diagnose: the capture of %s is left out: %s\n", who->host, why);
                return 0;
        }
        memcpy(c.slice, who->slice, sizeof(c.slice));
        memcpy(c.host, who->host, sizeof(c.host));
        if (who->address[0])
                memcpy(c.address, who->address, sizeof(c.address));
        c.worker = who->worker;
        c.round = who->round;
        c.silent = false;
        r = scene_add(s, &c);
        return r < 0 ? r : 1;
}

int captures_add(struct scene *s, const json_t *answer, const struct host_capture *who, uint64_t *ret_next) {
        const char *bytes = json_string_value(answer);
        Capture__Captures *m =
                bytes ? capture__captures__unpack(NULL, json_string_length(answer), (const uint8_t *) bytes)
                      : NULL;
        int added = 0, r = 0;

        if (!m)
                return -EPROTO;
        for (size_t i = 0; i < m->n_captured && r >= 0; i++) {
                struct host_capture of;

                who_of(m->captured[i]->host, &of);
                if (who)
                        of = *who;
                r = add_one(s, m->captured[i], &of);
                added += r > 0;
        }
        *ret_next = m->next;
        capture__captures__free_unpacked(m, NULL);
        return r < 0 ? r : added;
}
