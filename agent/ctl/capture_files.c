/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "capture_files.h"
#include "capture_read.h"
#include "capture_wire.h"
#include "hex.h"
#include "io.h"
#include "json_text.h"
#include "utf8.h"

#define CAPTURE_FILE_MAX (256u * 1024 * 1024)

#define WIRE_FIRST                                                                                          \
        0x08 /* field 1, a varint: the version of proto/capture.proto; no text and no JSON begins so */

struct loading {
        struct scene *scene;
        const char *path;
        size_t n; /* captures of this file so far */
        struct problem *problem;
};

static int wrong(struct loading *l, int r, const char *why) {
        return problem_set(l->problem, r, NULL, "%s: capture %zu: %s", l->path, l->n + 1, why);
}

/* "DIR/h5.json" → "h5". */
static void name_after_file(struct loading *l, struct host_capture *c) {
        const char *slash = strrchr(l->path, '/'), *name = slash ? slash + 1 : l->path,
                   *dot = strchr(name + 1, '.');

        (void) snprintf(c->host, sizeof(c->host), "%.*s", dot ? (int) (dot - name) : (int) strlen(name),
                        name);
        c->round = MIN((uint32_t) l->n, 1u);
}

static int keep(struct loading *l, struct host_capture *c) {
        int r;

        if (!c->host[0] && c->worker == CAPTURE_WORKER_NONE)
                name_after_file(l, c);
        r = scene_add(l->scene, c, NULL);
        if (r < 0)
                return wrong(l, r, strerror(-r));
        l->n++;
        return 0;
}

static int load_object(struct loading *l, const json_t *v) {
        _cleanup_host_capture_ struct host_capture c;
        char why[CAPTURE_WHY_MAX];
        int r;

        host_capture_init(&c);
        r = capture_json_read(v, &c, &l->scene->table, why);
        return r < 0 ? wrong(l, r, why) : keep(l, &c);
}

static int load_value(struct loading *l, const json_t *v) {
        const json_t *list = json_is_array(v) ? v : json_object_get(v, "captures");
        int r = 0;

        if (!list)
                return load_object(l, v);
        if (!json_is_array(list))
                return wrong(l, -EPROTO, "\"captures\" is no list");
        for (size_t i = 0; i < json_array_size(list) && r == 0; i++)
                r = load_object(l, json_array_get(list, i));
        return r;
}

static int load_json(struct loading *l, const char *text, size_t len) {
        size_t at = 0;

        while (at < len) {
                json_error_t error;
                json_t *v = json_loadb(text + at, len - at, JSON_DISABLE_EOF_CHECK, &error);
                int r;

                if (!v)
                        return problem_set(l->problem, -EPROTO, NULL, "%s: capture %zu, line %d of it: %s",
                                           l->path, l->n + 1, error.line, error.text);
                r = load_value(l, v);
                json_decref(v);
                if (r < 0)
                        return r;
                at += (size_t) error.position; /* where this one ended */
                while (at < len && strchr(" \t\r\n", text[at]) && text[at])
                        at++;
        }
        return 0;
}

static int load_wire(struct loading *l, const uint8_t *data, size_t len) {
        _cleanup_host_capture_ struct host_capture c;
        const char *why;
        int r;

        host_capture_init(&c);
        r = capture_wire_unpack(data, len, &c, &l->scene->table, &why);
        return r < 0 ? wrong(l, r, why) : keep(l, &c);
}

static int load_bytes(struct loading *l, const char *data, size_t len) {
        size_t at = strspn(data, " \t\r\n");

        if (len > 0 && data[0] == WIRE_FIRST)
                return load_wire(l, (const uint8_t *) data, len);
        if (data[at] == '{' || data[at] == '[')
                return load_json(l, data + at, len - at);
        return wrong(l, -EPROTO, "no capture: text is for people, tpu-stack --json writes one");
}

static int load_file(const char *path, int fd, size_t size, struct scene *s, struct problem *problem) {
        struct loading l = { .scene = s, .path = path, .problem = problem };
        _cleanup_free_ char *data = size <= CAPTURE_FILE_MAX ? malloc(size + 1) : NULL;
        ssize_t n;

        if (size > CAPTURE_FILE_MAX)
                return problem_set(problem, -E2BIG, NULL, "%s: larger than %u MiB", path,
                                   CAPTURE_FILE_MAX >> 20);
        if (!data)
                return problem_set(problem, -ENOMEM, NULL, "%s: out of memory", path);
        n = io_read_up_to(fd, data, size);
        if (n < 0)
                return problem_set(problem, (int) n, NULL, "%s: %s", path, strerror((int) -n));
        data[n] = 0;
        return load_bytes(&l, data, (size_t) n);
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
        return load_file(path, fd, (size_t) st.st_size, s, problem);
}

void capture_who(struct host_capture *c, const json_t *v, const char *slice, const char *worker) {
        const json_t *number = json_object_get(v, worker), *address = json_object_get(v, "address");

        host_capture_init(c);
        utf8_copy(c->slice, sizeof(c->slice), slice ? slice : json_text_of(v, "slice"));
        utf8_copy(c->host, sizeof(c->host), json_text_of(v, "host"));
        utf8_copy(c->address, sizeof(c->address),
                  json_string_value(json_is_array(address) ? json_array_get(address, 0) : address));
        if (json_is_integer(number) && json_integer_value(number) >= 0 &&
            json_integer_value(number) < CAPTURE_WORKER_NONE)
                c->worker = (uint32_t) json_integer_value(number);
}

int capture_hex_add(struct scene *s, const char *hex, const struct host_capture *who) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        _cleanup_free_ uint8_t *data = NULL;
        const char *why = "it cannot be unpacked";
        size_t len;
        int r;

        host_capture_init(&c);
        r = hex_decode(hex, &data, &len);
        if (r == 0)
                r = capture_wire_unpack(data, len, &c, &t, &why);
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
        r = scene_add(s, &c, &t);
        return r < 0 ? r : 1;
}
