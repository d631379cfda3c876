/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_stack_files.h"

#include "clock.h"
#include "log.h"
#include "stack_folder.h"
#include "utf8.h"

#define STATE_FILE "stack-files"

struct agent_stack_files {
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
static bool accepts(uid_t owner, uid_t folder_owner, void *userdata) {
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
        struct agent_stack_files *l = userdata;
        const struct identity *i = &l->bus->identity;
        char written[CLOCK_TEXT_MAX], path[SETTINGS_STACK_PATH_MAX + 160];

        (void) snprintf(path, sizeof(path), "%s", s->path);
        (void) utf8_scrub(path, strlen(path));
        (void) bus_emit(l->bus,
                          EVENT_AS(STACK_FILE, severity_of(t->kind), .verb = "stacktraceanalyzer",
                                   .node = l->bus->name,
                                   .slice = or_empty(identity_get(i, IDENTITY_SLICE_NAME)),
                                   .worker = or_empty(identity_get(i, IDENTITY_WORKER_ID)),
                                   .zone = or_empty(identity_get(i, IDENTITY_ZONE)),
                                   .run = host_runs_only(l->bus->runs), .file = path, .uid = s->owner,
                                   .kind = stack_text_kind_name(t->kind), .reason = t->reason,
                                   .threads = t->threads, .written = clock_text(s->written_real, written),
                                   .text = t->text),
                          NULL);
        l->dirty = true;
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

static void save(struct agent_stack_files *l) {
        int r;

        if (!l->dirty)
                return;
        r = stack_seen_save(l->state, &l->seen);
        if (r < 0 && !l->save_failed)
                (void) log_warning_errno(
                        r, "%s cannot be written, a restart tells stacks of files again: %m", l->state);
        l->save_failed = r < 0;
        l->dirty = r < 0;
}

void agent_stack_files_tick(struct bus *b, struct sink *s) {
        struct agent_stack_files *l = agent_of(b)->stack_files;
        struct stack_folder_stats sum = { .snapshots = 0 };

        for (size_t i = 0; l && i < l->n; i++) {
                const struct stack_folder_stats *f = stack_folder_stats(l->folders[i]);

                sum.snapshots += f->snapshots;
                sum.repeated += f->repeated;
                sum.passed_over += f->passed_over;
                stack_folder_tick(l->folders[i]);
        }
        if (!l || l->n == 0)
                return;
        save(l);
        put_uint(s, METRIC_STACK_FILES, sum.snapshots, "told", NULL, NULL);
        put_uint(s, METRIC_STACK_FILES, sum.repeated, "repeated", NULL, NULL);
        put_uint(s, METRIC_STACK_FILES, sum.passed_over, "passed_over", NULL, NULL);
}

static void load(struct agent_stack_files *l) {
        int r;

        (void) snprintf(l->state, sizeof(l->state), "%s/" STATE_FILE, l->bus->settings.spool_directory);
        r = stack_seen_load(l->state, &l->seen);
        if (r < 0 && r != -ENOENT)
                (void) log_warning_errno(r, "%s cannot be read, stacks of files may be told again: %m",
                                         l->state);
}

int agent_stack_files_start(struct bus *b) {
        static const struct stack_folder_handlers handlers = { accepts, on_snapshot, on_refused };
        struct agent_stack_files *l = calloc(1, sizeof(*l));
        char paths[SETTINGS_STACK_PATHS_MAX][SETTINGS_STACK_PATH_MAX];
        size_t n;

        if (!l)
                return -ENOMEM;
        l->bus = b;
        agent_of(b)->stack_files = l;
        load(l);
        n = settings_stack_paths(b->settings.stack_paths, paths);
        for (size_t i = 0; i < n; i++) {
                int r = stack_folder_new(b->event, b->host, paths[i], STACK_SETTLE, &l->seen, &handlers, l,
                                         &l->folders[l->n]);

                if (r < 0)
                        (void) log_warning_errno(r, "stacks in %s cannot be watched: %m", paths[i]);
                else
                        l->n++;
        }
        return 0;
}

void agent_stack_files_stop(struct bus *b) {
        struct agent_stack_files *l = agent_of(b)->stack_files;

        if (!l)
                return;
        for (size_t i = 0; i < l->n; i++)
                (void) stack_folder_free(l->folders[i]);
        save(l);
        free(TAKE_PTR(agent_of(b)->stack_files));
}
