/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_files_part.h"

#include "clock.h"
#include "log.h"
#include "stack_folder.h"
#include "utf8.h"

#define STATE_FILE "stack-files"

struct stack_files_state {
        struct bus *bus;
        struct stack_folder *folders[SETTINGS_STACK_PATHS_MAX];
        size_t n;
        struct stack_seen seen;
        char state[sizeof(((struct settings *) NULL)->spool_directory) + sizeof(STATE_FILE) + 1];
        bool dirty, save_failed; /* dirty: there is more in seen than in the file */
};

/*
 * Files of root, of the folder's owner, or in a folder that root made for all. Never our own: whoever may
 * write there must not have us tell what only we may read.
 */
static bool accepts_owner(uid_t owner, uid_t folder_owner, void *userdata) {
        (void) userdata;
        if (owner == geteuid() && owner != 0)
                return false;
        return owner == 0 || owner == folder_owner || folder_owner == 0;
}

static enum severity severity_of(enum stack_text_kind k) {
        switch (k) {
        case STACK_TEXT_CRASH:
                return SEVERITY_ERROR;
        case STACK_TEXT_TIMEOUT:
                return SEVERITY_WARN;
        case STACK_TEXT_SNAPSHOT:
        case _STACK_TEXT_KIND_MAX:
                break;
        }
        return SEVERITY_INFO;
}

static const char *or_empty(const char *s) {
        return s ? s : "";
}

static void on_snapshot(const struct stack_text *t, const struct stack_source *s, void *userdata) {
        struct stack_files_state *p = userdata;
        const struct identity *i = &p->bus->identity;
        char written[CLOCK_TEXT_MAX], path[SETTINGS_STACK_PATH_MAX + 160];

        (void) snprintf(path, sizeof(path), "%s", s->path);
        (void) utf8_scrub(path, strlen(path));
        (void) bus_emit(p->bus,
                          EVENT_AS(STACK_FILE, severity_of(t->kind), .verb = "stacktraceanalyzer",
                                   .node = p->bus->name,
                                   .slice = or_empty(identity_get(i, IDENTITY_SLICE_NAME)),
                                   .worker = or_empty(identity_get(i, IDENTITY_WORKER_ID)),
                                   .zone = or_empty(identity_get(i, IDENTITY_ZONE)),
                                   .run = host_runs_only(p->bus->runs), .file = path, .uid = s->owner,
                                   .kind = stack_text_kind_name(t->kind), .reason = t->reason,
                                   .threads = t->threads, .written = clock_text(s->written_real, written),
                                   .text = t->text),
                          NULL);
        p->dirty = true;
}

static void on_refused(const char *path, const char *why, void *userdata) {
        char shown[SETTINGS_STACK_PATH_MAX + 160];

        (void) userdata;
        (void) snprintf(shown, sizeof(shown), "%s", path);
        (void) utf8_scrub(shown, strlen(shown));
        log_warning(
                "stacks in %s are not taken: %s (ls -ld shows it; [StackFiles] Path= says what is watched)",
                shown, why);
}

static void save_seen(struct stack_files_state *p) {
        int r;

        if (!p->dirty)
                return;
        r = stack_seen_save(p->state, &p->seen);
        if (r < 0 && !p->save_failed)
                (void) log_warning_errno(
                        r, "%s cannot be written, a restart reports stacks of files again: %m", p->state);
        p->save_failed = r < 0;
        p->dirty = r < 0;
}

/* The numbers; folders are listened to again. */
static void sample_stack_files(void *self, struct bus_sink *s) {
        struct stack_files_state *p = self;
        struct stack_folder_stats sum = { .snapshots = 0 };

        for (size_t i = 0; i < p->n; i++) {
                const struct stack_folder_stats *f = stack_folder_stats(p->folders[i]);

                sum.snapshots += f->snapshots;
                sum.repeated += f->repeated;
                sum.passed_over += f->passed_over;
                stack_folder_tick(p->folders[i]);
        }
        if (p->n == 0)
                return;
        save_seen(p);
        put_uint(&s->sink, METRIC_STACK_FILES, sum.snapshots, "told", NULL, NULL);
        put_uint(&s->sink, METRIC_STACK_FILES, sum.repeated, "repeated", NULL, NULL);
        put_uint(&s->sink, METRIC_STACK_FILES, sum.passed_over, "passed_over", NULL, NULL);
}

static int start_stack_files(void *self) {
        static const struct stack_folder_handlers handlers = { accepts_owner, on_snapshot, on_refused };
        struct stack_files_state *p = self;
        const struct bus *b = p->bus;
        char paths[SETTINGS_STACK_PATHS_MAX][SETTINGS_STACK_PATH_MAX];
        size_t n;
        int r;

        (void) snprintf(p->state, sizeof(p->state), "%s/" STATE_FILE, b->settings.spool_directory);
        r = stack_seen_load(p->state, &p->seen);
        if (r < 0 && r != -ENOENT)
                (void) log_warning_errno(r, "%s cannot be read, stacks of files may be reported again: %m",
                                         p->state);
        n = settings_stack_paths(b->settings.stack_paths, paths);
        for (size_t i = 0; i < n; i++) {
                r = stack_folder_new(b->event, b->host, paths[i], STACK_SETTLE, &p->seen, &handlers, p,
                                     &p->folders[p->n]);
                if (r < 0)
                        (void) log_warning_errno(r, "stacks in %s cannot be watched: %m", paths[i]);
                else
                        p->n++;
        }
        return 0;
}

static void stop_stack_files(void *self) {
        struct stack_files_state *p = self;

        for (size_t i = 0; i < p->n; i++)
                (void) stack_folder_free(p->folders[i]);
        save_seen(p);
}

const struct part stack_files_part = {
        .name = "stack-files",
        .size = sizeof(struct stack_files_state),
        .start = start_stack_files,
        .sample = sample_stack_files,
        .stop = stop_stack_files,
};
