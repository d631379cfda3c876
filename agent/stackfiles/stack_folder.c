/* SPDX-License-Identifier: Apache-2.0 */
#include "fnv.h"
#include "stack_folder.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "loop_timer.h"
#include "open_folder.h"
#include "stack_place.h"

#define ENTRIES_MAX 4096
#define REFUSED_HOUR 64 /* files that are reported as not taken, an hour */
#define HOUR (3600 * USEC_PER_SEC)
#define CHUNK_SIZE ((size_t) 256 * 1024) /* more than two snapshots */
#define WATCH_FOLDER                                                                                        \
        (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define WATCH_PARENT (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct stack_folder {
        const struct host *host;
        struct stack_seen *seen;
        usec_t settle;
        struct stack_folder_handlers handlers;
        void *userdata;
        char path[OPEN_FOLDER_PATH_MAX], pattern[STACK_NAME_SIZE];
        int fd;        /* the folder while it is looked at, else -1 */
        bool attached; /* it is watched: it was this one */
        dev_t dev;
        ino_t ino;
        int inotify;
        uid_t owner;
        sd_event_source *io, *settled;
        const char *refused; /* of the folder, as struct stack_file */
        bool again;          /* not all was read */
        struct stack_places places;
        size_t first; /* the next look begins with it */
        struct stack_budget budget;
        usec_t refused_since; /* boot clock */
        unsigned n_refused;   /* files that were reported as not taken since */
        struct stack_folder_stats stats;
        struct stack_text *text; /* while a look goes on */
        char *chunk;
};

/* --- What is refused --------------------------------------------------------------------------------- */

/* Whoever may write to the folder is not to fill the journal. */
static bool may_report(struct stack_folder *f) {
        usec_t now = host_now(f->host);

        if (now >= f->refused_since + HOUR) {
                f->refused_since = now;
                f->n_refused = 0;
        }
        return f->n_refused++ < REFUSED_HOUR;
}

/* why: a literal, by which it is known that it was reported. */
static void report_refused(struct stack_folder *f, struct stack_file *file, const char *why) {
        char path[OPEN_FOLDER_PATH_MAX + STACK_NAME_SIZE];
        const char **told = file ? &file->refused : &f->refused;

        if (*told && streq(*told, why))
                return;
        *told = why;
        if (file && !may_report(f))
                return;
        (void) snprintf(path, sizeof(path), "%s%s%s", f->path, file ? "/" : "", file ? file->name : "");
        f->handlers.refused(path, why, f->userdata);
}

/* NULL: the file may be read. */
static const char *why_not(const struct stack_folder *f, const struct stat *st) {
        if (S_ISLNK(st->st_mode))
                return "it is a symbolic link";
        if (!S_ISREG(st->st_mode))
                return "it is no regular file";
        if (st->st_nlink != 1)
                return "it has several names (hard links)";
        if (!f->handlers.accepts(st->st_uid, f->owner, f->userdata))
                return "its owner is neither root nor the folder's, and the folder is not root's";
        if (st->st_size > STACK_FILE_BYTES_MAX)
                return "it is longer than 16 MiB";
        return NULL;
}

/* --- Reading ----------------------------------------------------------------------------------------- */

static uint64_t key_of(const struct stack_folder *f, const struct stack_file *file,
                       const struct stack_text *t) {
        return fnv_text(fnv_text(t->hash, f->path), file->name);
}

static void report_snapshots(struct stack_folder *f, const struct stack_file *file, uid_t owner) {
        uint64_t key = key_of(f, file, f->text);
        char path[OPEN_FOLDER_PATH_MAX + STACK_NAME_SIZE];
        const struct stack_source s = { .path = path, .owner = owner, .written_real = file->dated };

        if (stack_seen_has(f->seen, key)) {
                f->stats.repeated++;
                return;
        }
        if (!stack_budget_take(&f->budget, host_now(f->host), owner, strlen(f->text->text))) {
                f->stats.passed_over++;
                return;
        }
        stack_seen_add(f->seen, key);
        f->stats.snapshots++;
        (void) snprintf(path, sizeof(path), "%s/%s", f->path, file->name);
        f->handlers.snapshot(f->text, &s, f->userdata);
}

/* One that waits for its writer still is not whole: its last write is younger than the time to settle. */
static bool is_quiet(const struct stack_folder *f, const struct stack_file *file) {
        usec_t now = host_now_real(f->host);

        return now < file->written || now - file->written >= f->settle / 2;
}

/* A chunk from where the last one ended. Returns how many bytes were read. */
static size_t read_chunk(struct stack_folder *f, struct stack_file *file, int fd, uid_t owner) {
        ssize_t n = pread(fd, f->chunk, CHUNK_SIZE, file->at);
        size_t at = 0;
        bool last, end;

        if (n <= 0)
                return 0;
        last = file->at + n >= file->size;
        end = last ? is_quiet(f, file) : (size_t) n == CHUNK_SIZE;
        while (stack_text_next(f->chunk, (size_t) n, last && end, &at, f->text) > 0)
                report_snapshots(f, file, owner);
        if (at == 0 && !last &&
            (size_t) n == CHUNK_SIZE) { /* a snapshot longer than a chunk: what is there of it */
                if (stack_text_next(f->chunk, (size_t) n, true, &at, f->text) > 0)
                        report_snapshots(f, file, owner);
                at = (size_t) n;
        }
        file->at += (off_t) at;
        if (last && !end && at < (size_t) n)
                f->again = true;
        return at;
}

static void read_file(struct stack_folder *f, struct stack_file *file, size_t *budget) {
        _cleanup_close_ int fd =
                openat(f->fd, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;
        const char *why;

        if (fd < 0)
                return report_refused(f, file,
                                      errno == EACCES ? "we may not read it" : "it cannot be opened");
        if (fstat(fd, &st) < 0)
                return;
        why = why_not(f, &st); /* another one may lie there since it was looked at */
        if (why)
                return report_refused(f, file, why);
        file->refused = NULL;
        if (st.st_dev != file->dev || st.st_ino != file->ino || st.st_size < file->at)
                file->at = 0; /* replaced, or cut and written again */
        file->dev = st.st_dev;
        file->ino = st.st_ino;
        file->size = st.st_size;
        while (file->at < file->size) {
                size_t n;

                if (*budget < CHUNK_SIZE) {
                        f->again = true;
                        return;
                }
                *budget -= CHUNK_SIZE;
                n = read_chunk(f, file, fd, st.st_uid);
                if (n == 0 || f->again)
                        return;
        }
}

/* --- Listing ----------------------------------------------------------------------------------------- */

static usec_t usec_of(const struct timespec *t) {
        return t->tv_sec < 0 ? 0 : (usec_t) t->tv_sec * USEC_PER_SEC + (usec_t) t->tv_nsec / NSEC_PER_USEC;
}

/* Whoever writes a file may date it as it likes, but for the time of its last change. What is of the future
 * even so is of a clock that was set back since: it counts as the oldest. */
static usec_t counts_from(usec_t dated, usec_t now) {
        return dated <= now ? dated : now - MIN(now, STACK_AGE_MAX);
}

static void look_at_entry(struct stack_folder *f, const char *name) {
        usec_t dated, written, now = host_now_real(f->host);
        struct stack_file *file;
        struct stat st;
        const char *why;

        if (strlen(name) >= STACK_NAME_SIZE || fnmatch(f->pattern, name, FNM_PERIOD) != 0 ||
            fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return;
        dated = MIN(usec_of(&st.st_mtim), usec_of(&st.st_ctim));
        written = counts_from(dated, now);
        if (now - written > STACK_AGE_MAX)
                return;
        file = stack_place_of(&f->places, name, st.st_uid, written);
        if (!file)
                return;
        file->written = written;
        file->dated = dated;
        file->owner = st.st_uid;
        file->there = true;
        why = why_not(f, &st);
        if (why) {
                file->there = false; /* not opened */
                report_refused(f, file, why);
        }
}

/* Those that are followed, also where they are not among the first of a folder with very many. */
static void look_at_followed(struct stack_folder *f) {
        for (size_t i = 0; i < f->places.n; i++) {
                f->places.files[i].there = false;
                look_at_entry(f, f->places.files[i].name);
        }
}

static void list_files(struct stack_folder *f) {
        int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_closedir_ DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        const struct dirent *e;
        size_t n = 0;

        if (!d) {
                (void) close_fd(fd);
                return report_refused(f, NULL, "it cannot be listed");
        }
        while ((e = readdir(d)))
                if (++n > ENTRIES_MAX)
                        return report_refused(f, NULL,
                                              "it has more than 4096 entries: the rest is not looked at");
                else
                        look_at_entry(f, e->d_name);
}

/* Everything that has changed. What is beyond the budget is where the next look begins: who writes all the
 * time does not hold up the others. */
static void look_at_folder(struct stack_folder *f) {
        _cleanup_free_ struct stack_text *text = malloc(sizeof(*text));
        _cleanup_free_ char *chunk = malloc(CHUNK_SIZE);
        size_t budget = STACK_LOOK_BYTES_MAX, first = f->first;

        f->again = false;
        if (!text || !chunk) {
                f->again = true;
                return;
        }
        f->text = text;
        f->chunk = chunk;
        stack_budget_begin(&f->budget);
        look_at_followed(f);
        list_files(f);
        for (size_t i = 0; i < f->places.n; i++) {
                struct stack_file *file = &f->places.files[(first + i) % f->places.n];

                if (file->there && budget >= CHUNK_SIZE)
                        f->first = (size_t) (file - f->places.files) + 1;
                if (file->there)
                        read_file(f, file, &budget);
        }
        f->text = NULL;
        f->chunk = NULL;
}

/* --- The watch --------------------------------------------------------------------------------------- */

static int watch(struct stack_folder *f, int fd, uint32_t mask) {
        char link[40];

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d",
                        fd); /* this very folder, whatever its name is now */
        return inotify_add_watch(f->inotify, link, mask) < 0 ? -errno : 0;
}

/* The inotify instance is made again each time: no previous watch is left. */
static int fresh_inotify(struct stack_folder *f);

/* Waits for the folder, or that part of its path which is missing. Returns 0, or 1: it is there by now. */
static int wait_for(struct stack_folder *f, int parent) {
        char missing[STACK_NAME_SIZE];
        int fd = -1, r;

        if (watch(f, parent, WATCH_PARENT) < 0) {
                report_refused(f, NULL, "nobody is notified when it is made");
                return 0;
        }
        r = open_folder(f->host, f->path, &fd, missing, sizeof(missing));
        (void) close_fd(fd);
        f->again = r != -ENOENT; /* it was made before it was waited for */
        return r == 0;
}

/* NULL: the folder that fd is may be watched, and is. */
static const char *begin_watch(struct stack_folder *f, int fd) {
        struct stat st;

        if (f->host->real_root && !folder_is_local(f->host, f->path))
                return "it is of a file system that may hang (a server's, or a program's)";
        if (fstat(fd, &st) < 0 || watch(f, fd, WATCH_FOLDER) < 0)
                return "it cannot be watched";
        f->attached = true;
        f->again = false;
        f->refused = NULL;
        f->owner = st.st_uid;
        f->dev = st.st_dev;
        f->ino = st.st_ino;
        return NULL;
}

/* Finds the folder and watches it, or what is there of its path; then f->fd is the folder, or -1. */
static void attach(struct stack_folder *f) {
        _cleanup_close_ int fd = -1;
        char missing[STACK_NAME_SIZE];
        const char *why = NULL;
        int r;

        f->attached = false;
        f->again = true; /* what is refused is tried again with each tick */
        if (fresh_inotify(f) < 0)
                return report_refused(f, NULL, "it cannot be watched");
        r = open_folder(f->host, f->path, &fd, missing, sizeof(missing));
        if (r == -ENOENT) {
                f->refused = NULL;
                (void) wait_for(f, fd);
                return;
        }
        if (r == -ELOOP || r == -ENOTDIR)
                why = "a part of its path is a symbolic link or no folder";
        else if (r < 0)
                why = r == -EACCES ? "we may not read it" : "it cannot be opened";
        else
                why = begin_watch(f, fd);
        if (why)
                return report_refused(f, NULL, why);
        f->fd = TAKE_FD(fd);
}

/* The folder that is watched, as long as it has its name: f->fd is set, true. */
static bool still_there(struct stack_folder *f) {
        _cleanup_close_ int fd = -1;
        char missing[STACK_NAME_SIZE];
        struct stat st;

        if (!f->attached || open_folder(f->host, f->path, &fd, missing, sizeof(missing)) < 0 ||
            fstat(fd, &st) < 0 || st.st_dev != f->dev || st.st_ino != f->ino)
                return false;
        f->fd = TAKE_FD(fd);
        return true;
}

/* Takes what inotify has to say; true: the folder is gone or moved. What changed is looked at by its name,
 * for it may stand behind all that is listed. */
static bool drain(struct stack_folder *f) {
        char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
        bool moved = false;
        ssize_t n;

        while ((n = read(f->inotify, buf, sizeof(buf))) > 0)
                for (const char *p = buf; p < buf + n;) {
                        const struct inotify_event *e = (const void *) p;

                        moved |= (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0;
                        if (e->len > 0 && f->fd >= 0)
                                look_at_entry(f, e->name);
                        p += sizeof(*e) + e->len;
                }
        return moved;
}

static void arm_settled(struct stack_folder *f) {
        (void) loop_timer_in(f->settled, f->settle); /* fails only when the loop ends */
        (void) sd_event_source_set_enabled(f->io, SD_EVENT_OFF);
}

static int on_changed(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source, (void) fd, (void) revents;
        arm_settled(userdata);
        return 0;
}

static int on_settled(sd_event_source *source, uint64_t usec, void *userdata) {
        struct stack_folder *f = userdata;
        bool there;

        (void) source, (void) usec;
        there = still_there(f);
        if (drain(f) || !there) {
                f->fd = close_fd(f->fd);
                attach(f);
        }
        if (f->fd >= 0)
                look_at_folder(f);
        f->fd = close_fd(f->fd); /* held open, it would not be reported as deleted */
        return 0;
}

static int fresh_inotify(struct stack_folder *f) {
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        sd_event_source *io = NULL;
        int r;

        if (fd < 0)
                return -errno;
        r = sd_event_add_io(sd_event_source_get_event(f->settled), &io, fd, EPOLLIN, on_changed, f);
        if (r >= 0)
                r = sd_event_source_set_io_fd_own(io, true);
        if (r < 0) {
                (void) sd_event_source_disable_unref(io);
                (void) close_fd(fd);
                return r;
        }
        (void) sd_event_source_set_description(io, "stack-files");
        (void) sd_event_source_set_enabled(io, SD_EVENT_OFF); /* until the next tick */
        (void) sd_event_source_disable_unref(f->io);
        f->io = io;
        f->inotify = fd;
        return 0;
}

void stack_folder_tick(struct stack_folder *f) {
        int on = 0;

        if (!f->io || sd_event_source_get_enabled(f->settled, &on) < 0 || on)
                return;
        if (f->again)
                arm_settled(f);
        else
                (void) sd_event_source_set_enabled(f->io, SD_EVENT_ON);
}

const struct stack_folder_stats *stack_folder_stats(const struct stack_folder *f) {
        return &f->stats;
}

/* --- Life -------------------------------------------------------------------------------------------- */

static int take_pattern(struct stack_folder *f, const char *pattern) {
        const char *slash = strrchr(pattern, '/');
        size_t n = slash ? (size_t) (slash - pattern) : 0;

        if (pattern[0] != '/' || n == 0 || n >= sizeof(f->path) || !slash[1] ||
            strlen(slash + 1) >= sizeof(f->pattern))
                return -EINVAL;
        (void) snprintf(f->path, sizeof(f->path), "%.*s", (int) n, pattern);
        (void) snprintf(f->pattern, sizeof(f->pattern), "%s", slash + 1);
        return 0;
}

int stack_folder_new(sd_event *e, const struct host *h, const char *pattern, usec_t settle,
                     struct stack_seen *seen, const struct stack_folder_handlers *handlers, void *userdata,
                     struct stack_folder **ret) {
        _cleanup_(stack_folder_freep) struct stack_folder *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->fd = f->inotify = -1;
        f->settle = settle;
        f->host = h;
        f->seen = seen;
        f->handlers = *handlers;
        f->userdata = userdata;
        r = take_pattern(f, pattern);
        if (r == 0)
                r = loop_timer_new(e, CLOCK_MONOTONIC, settle / 4, "stack-files-settled", on_settled, f,
                                   &f->settled);
        if (r >= 0)
                r = loop_timer_in(f->settled, 0);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f); /* what is there already is looked at with the first turn of the loop */
        return 0;
}

struct stack_folder *stack_folder_free(struct stack_folder *f) {
        if (!f)
                return NULL;
        f->io = sd_event_source_disable_unref(f->io);
        f->settled = sd_event_source_disable_unref(f->settled);
        f->fd = close_fd(f->fd);
        free(f);
        return NULL;
}
