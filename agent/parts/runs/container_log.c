/* SPDX-License-Identifier: Apache-2.0 */
#include "container_log.h"

#include <assert.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local.pb-c.h"
#include "local_call.h"
#include "log.h"

#define ASK_TIME      (10 * USEC_PER_SEC)
#define READ_AT_ONCE  (1024 * 1024)
#define BEHIND_MAX    (16 * READ_AT_ONCE)
#define ASK_AGAIN     (30 * USEC_PER_SEC) /* a log that could not be had, or whose engine began another */

struct follower {
        struct container_logs *owner; /* NULL: the place is free */
        char run[64], form[16];
        usec_t started_real;
        usec_t asked, grew;           /* boot clock: the last question; when it was longer than before */
        struct local_call *call;
        int fd;
        char *buf;                    /* what of an entry was read; CONTAINER_LOG_LINE_MAX */
        size_t len;
        bool skips;                   /* of an entry that is too long, to its end */
        char *text;                   /* a line whose parts come one by one; as long */
        size_t text_len;
};

struct container_logs {
        struct bus *bus;
        void (*line)(const char *run, const char *text, size_t len, usec_t at, void *userdata);
        void *userdata;
        struct follower all[CONTAINER_LOGS_MAX];
};

/* --- Entries ------------------------------------------------------------------------------------------- */

/* "2026-11-27T16:39:16.123456789Z", or "+01:00" at its end; 0: it is none. */
static usec_t time_of(const char *text, size_t len) {
        char copy[40], *end;
        struct tm tm = { .tm_isdst = 0 };
        usec_t fraction = 0, unit = 100000;
        time_t seconds;

        if (len == 0 || len >= sizeof(copy))
                return 0;
        memcpy(copy, text, len);
        copy[len] = '\0';
        end = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
        if (!end)
                return 0;
        seconds = timegm(&tm);
        if (*end == '.')
                for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
                        fraction += (usec_t) (*end - '0') * unit;
        if (*end == '+' || *end == '-') {
                unsigned hours, minutes;

                if (strlen(end) != 6 || sscanf(end + 1, "%2u:%2u", &hours, &minutes) != 2 ||
                    hours > 23 || minutes > 59)
                        return 0;
                seconds -= (time_t) (60 * hours + minutes) * (*end == '-' ? -60 : 60);
        }
        return seconds > 0 ? (usec_t) seconds * USEC_PER_SEC + fraction : 0;
}

static int parse_json(const char *entry, size_t len, char *buf, size_t size, struct container_entry *ret) {
        json_t *o = json_loadb(entry, len, 0, NULL);
        const json_t *log = json_object_get(o, "log"), *at = json_object_get(o, "time");
        size_t n = json_string_length(log);

        if (!json_is_string(log)) {
                json_decref(o);
                return -EBADMSG;
        }
        ret->whole = n > 0 && json_string_value(log)[n - 1] == '\n';
        ret->len = MIN(n - ret->whole, size);
        ret->time_real = json_is_string(at) ? time_of(json_string_value(at), json_string_length(at)) : 0;
        memcpy(buf, json_string_value(log), ret->len);
        json_decref(o);
        return 0;
}

/* "TIME STREAM F text" */
static int parse_k8s(const char *entry, size_t len, char *buf, size_t size, struct container_entry *ret) {
        const char *stream = memchr(entry, ' ', len), *end = entry + len, *tag;

        tag = stream ? memchr(stream + 1, ' ', (size_t) (end - stream - 1)) : NULL;
        if (!tag || end - tag < 3 || (tag[1] != 'F' && tag[1] != 'P') || tag[2] != ' ')
                return -EBADMSG;
        ret->len = MIN((size_t) (end - tag - 3), size);
        ret->whole = tag[1] == 'F';
        ret->time_real = time_of(entry, (size_t) (stream - entry));
        memcpy(buf, tag + 3, ret->len);
        return 0;
}

int container_entry_parse(const char *form, const char *entry, size_t len, char *buf, size_t size,
                          struct container_entry *ret) {
        if (streq(form, "json-file"))
                return parse_json(entry, len, buf, size, ret);
        return streq(form, "k8s-file") ? parse_k8s(entry, len, buf, size, ret) : -EBADMSG;
}

/* A line of which the parts come one by one is of the time of its last part. */
static void take_entry(struct follower *f, const char *entry, size_t len) {
        const struct container_logs *l = f->owner;
        usec_t now = host_now(l->bus->host), real = host_now_real(l->bus->host), ago;
        struct container_entry e;

        if (container_entry_parse(f->form, entry, len, f->text + f->text_len,
                                  CONTAINER_LOG_LINE_MAX - f->text_len, &e) < 0)
                return;
        f->text_len += e.len;
        if (!e.whole && f->text_len < CONTAINER_LOG_LINE_MAX)
                return;
        ago = e.time_real > 0 ? real - MIN(real, e.time_real) : 0;
        l->line(f->run, f->text, f->text_len, now - MIN(now, ago), l->userdata);
        f->text_len = 0;
}

/* Whole entries that are in the buffer. */
static void take_entries(struct follower *f) {
        size_t used = 0;
        const char *end;

        while ((end = memchr(f->buf + used, '\n', f->len - used))) {
                size_t n = (size_t) (end - f->buf) - used;

                if (!f->skips)
                        take_entry(f, f->buf + used, n);
                f->skips = false;
                used += n + 1;
        }
        memmove(f->buf, f->buf + used, f->len - used);
        f->len -= used;
        if (f->len == CONTAINER_LOG_LINE_MAX) {
                f->len = 0;
                f->skips = true;
        }
        assert(f->len < CONTAINER_LOG_LINE_MAX);
}

/* A container that prints faster than it is read is no burden: what it printed last tells its step. */
static void leave_out(struct follower *f) {
        off_t at = lseek(f->fd, 0, SEEK_CUR);
        struct stat st;

        if (at < 0 || fstat(f->fd, &st) < 0 || st.st_size - at <= BEHIND_MAX)
                return;
        (void) lseek(f->fd, st.st_size - READ_AT_ONCE, SEEK_SET);
        f->len = f->text_len = 0;
        f->skips = true; /* the rest of an entry */
}

/* At most so much at a time; the rest at the next look. Whether all is read. */
static bool read_log(struct follower *f) {
        if (f->fd >= 0)
                leave_out(f);
        for (size_t total = 0; f->fd >= 0;) {
                ssize_t n;

                if (total >= READ_AT_ONCE)
                        return false;
                n = read(f->fd, f->buf + f->len, CONTAINER_LOG_LINE_MAX - f->len);
                if (n <= 0)
                        break;
                f->grew = host_now(f->owner->bus->host);
                total += (size_t) n;
                f->len += (size_t) n;
                take_entries(f);
        }
        return true;
}

/* --- One run ------------------------------------------------------------------------------------------- */

static void forget_follower(struct follower *f) {
        f->fd = close_fd(f->fd);
        f->call = local_call_free(f->call);
        free(f->buf);
        free(f->text);
        *f = (struct follower){ .fd = -1 };
}

/* The first file is read from its end: what was printed before is of the past. Another from its start. */
static void change_file(struct follower *f, int fd) {
        struct stat now, then;
        bool first = f->fd < 0;

        if (fstat(fd, &now) < 0 || (!first && fstat(f->fd, &then) == 0 && now.st_ino == then.st_ino)) {
                (void) close_fd(fd);
                return;
        }
        for (unsigned i = 0; i <= BEHIND_MAX / READ_AT_ONCE && !read_log(f); i++)
                ; /* to its end, unless somebody goes on writing to it */
        (void) close_fd(f->fd);
        f->fd = fd;
        f->len = f->text_len = 0;
        f->skips = false;
        if (first)
                (void) lseek(fd, 0, SEEK_END);
}

static void on_answer(const struct local_answer *a, void *userdata) {
        struct follower *f = userdata;
        Local__LogReply *m = a->error < 0 ? NULL : local__log_reply__unpack(NULL, a->len, a->data);

        f->call = local_call_free(f->call);
        if (m && *a->fd >= 0) {
                (void) snprintf(f->form, sizeof(f->form), "%.15s", m->form);
                change_file(f, TAKE_FD(*a->fd));
        } else if (a->error < 0 && !a->no_answer)
                log_debug("run %s: %s", f->run, a->text);
        if (m)
                local__log_reply__free_unpacked(m, NULL);
}

static void ask_for_log(struct follower *f) {
        Local__LogRequest m = LOCAL__LOG_REQUEST__INIT;
        struct bus *b = f->owner->bus;
        const struct local_question q = { .program = "tpu-launchd",
                                          .socket = bus_launchd_socket(b),
                                          .kind = LOCAL__KIND__KIND_LOG_REQUEST,
                                          .want = LOCAL__KIND__KIND_LOG_REPLY,
                                          .message = &m.base,
                                          .timeout = ASK_TIME };

        m.name = f->run;
        f->asked = host_now(b->host);
        (void) local_call_new(b->event, &q, on_answer, f, &f->call); /* else it is asked again */
}

static struct follower *find_follower(struct container_logs *l, const struct host_run *run) {
        struct follower *place = NULL;

        for (size_t i = 0; i < ELEMENTSOF(l->all); i++) {
                if (l->all[i].owner && streq(l->all[i].run, run->name) &&
                    l->all[i].started_real == run->started_real)
                        return &l->all[i];
                place = place || l->all[i].owner ? place : &l->all[i];
        }
        if (!place)
                return NULL;
        place->buf = malloc(CONTAINER_LOG_LINE_MAX);
        place->text = malloc(CONTAINER_LOG_LINE_MAX);
        if (!place->buf || !place->text) {
                forget_follower(place);
                return NULL;
        }
        place->owner = l;
        (void) snprintf(place->run, sizeof(place->run), "%s", run->name);
        place->started_real = run->started_real;
        return place;
}

static bool is_followed(const struct host_run *run) {
        return run && run->adopted && run->container[0] && host_run_lives(run);
}

void container_logs_listed(struct container_logs *l) {
        const struct host_runs *runs = l->bus->runs;

        if (!runs->known)
                return;
        for (size_t i = 0; i < ELEMENTSOF(l->all); i++) {
                const struct host_run *run = l->all[i].owner ? host_runs_find(runs, l->all[i].run) : NULL;

                if (l->all[i].owner && (!is_followed(run) || run->started_real != l->all[i].started_real))
                        forget_follower(&l->all[i]);
        }
        for (size_t i = 0; i < runs->n; i++) {
                struct follower *f = is_followed(&runs->runs[i]) ? find_follower(l, &runs->runs[i]) : NULL;

                if (f && f->asked == 0)
                        ask_for_log(f);
        }
}

bool container_logs_look(struct container_logs *l) {
        usec_t now = host_now(l->bus->host);
        bool all = true;

        for (size_t i = 0; i < ELEMENTSOF(l->all); i++) {
                struct follower *f = &l->all[i];

                if (!f->owner)
                        continue;
                all = read_log(f) && all;
                /* It may not be there yet, or the engine may have begun another. */
                if (!f->call && now >= f->grew + ASK_AGAIN && now >= f->asked + ASK_AGAIN)
                        ask_for_log(f);
        }
        return all;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int container_logs_new(struct bus *b, void (*line)(const char *run, const char *text, size_t len, usec_t at,
                                                   void *userdata),
                       void *userdata, struct container_logs **ret) {
        struct container_logs *l = calloc(1, sizeof(*l));

        if (!l)
                return -ENOMEM;
        l->bus = b;
        l->line = line;
        l->userdata = userdata;
        for (size_t i = 0; i < ELEMENTSOF(l->all); i++)
                l->all[i].fd = -1;
        *ret = l;
        return 0;
}

struct container_logs *container_logs_free(struct container_logs *l) {
        if (!l)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(l->all); i++)
                if (l->all[i].owner)
                        forget_follower(&l->all[i]);
        free(l);
        return NULL;
}
