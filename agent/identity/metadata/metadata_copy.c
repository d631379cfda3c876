/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "durable.h"
#include "metadata_copy.h"

/* --- The text ----------------------------------------------------------------------------------------- */

static json_t *nics_to_json(const struct metadata_facts *f) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < f->n_nics; i++) {
                char mac[METADATA_MAC_TEXT];
                json_t *o = json_pack("{s:s, s:s}", "mac", metadata_mac_text(f->nics[i].mac, mac), "ip",
                                      f->nics[i].ip);
                int r = json_array_append_new(array, o);

                if (r == 0 && f->nics[i].mtu > 0)
                        r = json_object_set_new(o, "mtu", json_integer(f->nics[i].mtu));
                if (r < 0) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

char *metadata_copy_format(const struct metadata_copy *c) {
        json_t *v = json_pack("{s:i, s:s, s:I, s:s, s:s, s:o}", "version", 1, "boot_id", c->boot_id,
                              "taken_usec", (json_int_t) c->taken, "machine_type", c->facts.machine_type,
                              "name", c->facts.name, "nics", nics_to_json(&c->facts));
        char *text = v ? json_dumps(v, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;

        json_decref(v);
        return text;
}

/* Our own file may have been anybody's since: what it says is checked like the server's answers. */
static int take_string(const json_t *v, const char *key, char *dest, size_t size) {
        const json_t *s = json_object_get(v, key);
        size_t len = json_string_length(s);

        if (!json_is_string(s) || len >= size ||
            strspn(json_string_value(s),
                   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") != len)
                return -EBADMSG;
        memcpy(dest, json_string_value(s), len + 1);
        return 0;
}

static int take_copy(const json_t *v, struct metadata_copy *c, char why[static METADATA_WHY_MAX]) {
        const json_t *taken = json_object_get(v, "taken_usec"), *nics = json_object_get(v, "nics");

        (void) snprintf(why, METADATA_WHY_MAX, "this is no copy that tpu-hostd wrote");
        if (json_integer_value(json_object_get(v, "version")) < 1 || !json_is_integer(taken) ||
            json_integer_value(taken) < 0 || take_string(v, "boot_id", c->boot_id, sizeof(c->boot_id)) < 0 ||
            take_string(v, "machine_type", c->facts.machine_type, sizeof(c->facts.machine_type)) < 0 ||
            take_string(v, "name", c->facts.name, sizeof(c->facts.name)) < 0)
                return -EBADMSG;
        c->taken = (usec_t) json_integer_value(taken);
        return metadata_nics_parse(nics, &c->facts, why);
}

int metadata_copy_parse(const char *text, size_t len, struct metadata_copy *ret,
                        char why[static METADATA_WHY_MAX]) {
        struct metadata_copy c = { 0 };
        json_error_t error;
        json_t *v;
        int r;

        v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        if (!v) {
                (void) snprintf(why, METADATA_WHY_MAX, "line %d: %.80s", error.line, error.text);
                return -EBADMSG;
        }
        r = take_copy(v, &c, why);
        json_decref(v);
        if (r == 0)
                *ret = c;
        return r;
}

int metadata_copy_read(const struct host *h, const char *path, struct metadata_copy *ret,
                       char why[static METADATA_WHY_MAX]) {
        _cleanup_free_ char *text = malloc(METADATA_BODY_MAX);
        size_t len;
        int r;

        if (!text)
                return -ENOMEM;
        r = host_read(h, path, text, METADATA_BODY_MAX, &len);
        if (r < 0) {
                (void) snprintf(why, METADATA_WHY_MAX, "%s", strerror(-r));
                return r;
        }
        return metadata_copy_parse(text, len, ret, why);
}

const char *metadata_copy_origin(const struct metadata_copy *c, char buf[static METADATA_ORIGIN_MAX]) {
        char text[CLOCK_TEXT_MAX];

        (void) snprintf(buf, METADATA_ORIGIN_MAX, "metadata, last good of %s", clock_text(c->taken, text));
        return buf;
}

/* --- The writer --------------------------------------------------------------------------------------- */

struct metadata_writer {
        sd_event *event;
        char *directory, *name;
        void (*done)(int result, void *userdata);
        void *userdata;
        pid_t child; /* 0: none at work */
        int pidfd;
        sd_event_source *source;
        char *waiting; /* the text to write after the child's end */
};

static int start_child(struct metadata_writer *w, char *text);

/* Only what a child of a program with threads may do; its end tells the result. */
__attribute__((noreturn)) static void write_and_exit(const char *directory, const char *name,
                                                     const char *text) {
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -errno : durable_write(fd, name, text, strlen(text), 0600);

        _exit(-r);
}

static int on_child(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct metadata_writer *w = userdata;
        siginfo_t info = { 0 };
        int r = -EIO;

        (void) s, (void) fd, (void) revents;
        if (waitid(P_PID, (id_t) w->child, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
                return 0;
        if (info.si_code == CLD_EXITED)
                r = -info.si_status;
        w->child = 0;
        w->source = sd_event_source_disable_unref(w->source);
        w->pidfd = close_fd(w->pidfd);
        if (w->waiting) {
                int started = start_child(w, TAKE_PTR(w->waiting));

                r = r < 0 ? r : started;
        }
        if (w->done)
                w->done(r, w->userdata);
        return 0;
}

/* Takes text over. */
static int start_child(struct metadata_writer *w, char *text) {
        _cleanup_free_ char *own = text;
        int r;

        w->child = fork();
        if (w->child < 0) {
                w->child = 0;
                return -errno;
        }
        if (w->child == 0)
                write_and_exit(w->directory, w->name, own);
        w->pidfd = (int) syscall(__NR_pidfd_open, w->child, 0);
        r = w->pidfd < 0 ? -errno : sd_event_add_io(w->event, &w->source, w->pidfd, EPOLLIN, on_child, w);
        if (r < 0)
                return r; /* the child does its work; it stays as a zombie, and no second one is made */
        (void) sd_event_source_set_description(w->source, "metadata-copy");
        return 0;
}

int metadata_writer_put(struct metadata_writer *w, const struct metadata_copy *c) {
        char *text = metadata_copy_format(c);

        if (!text)
                return -ENOMEM;
        if (w->child == 0)
                return start_child(w, text);
        free(w->waiting);
        w->waiting = text;
        return 0;
}

int metadata_writer_new(sd_event *e, const char *path, void (*done)(int result, void *userdata),
                        void *userdata, struct metadata_writer **ret) {
        _cleanup_(metadata_writer_freep) struct metadata_writer *w = calloc(1, sizeof(*w));
        const char *slash = strrchr(path, '/');

        if (!slash || !slash[1])
                return -EINVAL;
        if (!w)
                return -ENOMEM;
        *w = (struct metadata_writer) {
                .event = sd_event_ref(e), .done = done, .userdata = userdata, .pidfd = -1
        };
        w->directory = strndup(path, MAX((size_t) (slash - path), (size_t) 1));
        w->name = strdup(slash + 1);
        if (!w->directory || !w->name)
                return -ENOMEM;
        *ret = TAKE_PTR(w);
        return 0;
}

struct metadata_writer *metadata_writer_free(struct metadata_writer *w) {
        if (!w)
                return NULL;
        w->source = sd_event_source_disable_unref(w->source);
        w->pidfd = close_fd(w->pidfd);
        w->event = sd_event_unref(w->event);
        free(w->waiting);
        free(w->directory);
        free(w->name);
        free(w);
        return NULL;
}
