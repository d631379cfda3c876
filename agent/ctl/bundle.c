/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl bundle: what is known of a run in one file that may be given away. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "io.h"
#include "json_text.h"
#include "logs.h"
#include "redact.h"
#include "verb_words.h"

#define BUNDLE_MAX      ((size_t) 50 * 1000)
#define BUNDLE_PATH_MAX 256

struct bundle {
        const struct options *o;
        const char *run;
        bool full;
        json_t *all, *left_out; /* left_out: of all; part → why it is not there */
        unsigned parts;
};

/* --- Its parts ----------------------------------------------------------------------------------------- */

/* v: the part, or NULL with the reason. What is asked of nobody is a reason, too. */
static void put_part(struct bundle *b, const char *name, json_t *v, const char *why) {
        b->parts += v != NULL;
        if (v)
                (void) json_object_set_new(b->all, name,
                                           v); /* fails for want of memory: see write_bundle() */
        else
                (void) json_object_set_new(b->left_out, name, json_string(why));
}

static void ask_part(struct bundle *b, struct collector *c, const char *name, const char *path) {
        struct problem problem = { 0 };
        json_t *v = NULL;

        put_part(b, name, collector_call(c, NULL, path, NULL, 0, &v, &problem) == 0 ? v : NULL,
                 problem.text);
}

/* The last stall of it, or round of captures, with its verdict. */
static void ask_stall(struct bundle *b, struct collector *c) {
        struct problem problem = { 0 };
        char path[BUNDLE_PATH_MAX] = "";
        json_t *list = NULL, *v;
        size_t i;

        if (collector_call(c, NULL, "/api/v1/episodes", NULL, 0, &list, &problem) == 0) {
                (void) snprintf(problem.text, sizeof(problem.text), "no stacks of it were asked for");
                json_array_foreach (json_object_get(list, "episodes"), i, v)
                        if (!*path && streq(json_text_of(v, "run"), b->run))
                                (void) snprintf(path, sizeof(path), "/api/v1/episodes/%.100s",
                                                json_text_of(v, "episode"));
        }
        json_decref(list);
        if (*path)
                ask_part(b, c, "stall", path);
        else
                put_part(b, "stall", NULL, problem.text);
}

static void ask_collector(struct bundle *b, struct collector *c) {
        char path[BUNDLE_PATH_MAX];

        (void) snprintf(path, sizeof(path), "/api/v1/runs/%.63s", b->run);
        ask_part(b, c, "record", path);
        (void) snprintf(path, sizeof(path), "/api/v1/runs/%.63s/why?lines=%s", b->run,
                        b->full ? "1000" : "200");
        ask_part(b, c, "why", path);
        ask_stall(b, c);
}

/* What this host has of it, if it has. */
static void ask_here(struct bundle *b) {
        struct problem problem = { 0 };
        json_t *v = NULL;

        put_part(b, "here", runs_of_launchd(b->o->root, b->run, &v, &problem) == 0 ? v : NULL, problem.text);
        if (!v)
                return;
        v = logs_take_here(b->o, b->run, b->full ? 1000 : 200, &problem);
        put_part(b, "here_lines", v, problem.text);
        v = logs_take_kept(b->o, b->run, "libtpu", &problem);
        put_part(b, "here_libtpu", v, problem.text);
        v = logs_take_kept(b->o, b->run, "core", &problem);
        put_part(b, "here_core", v, problem.text);
        v = NULL;
        put_part(b, "host",
                 hostd_call(b->o->root, NULL, "/v1/status", HOSTD_TIMEOUT, &v, &problem) == 0 ? v : NULL,
                 problem.text);
}

/* --- Its size ------------------------------------------------------------------------------------------ */

/* Halves a list; of events the first say why, of lines the last, of libtpu's files the first and the last.
 * False: nothing is there to halve. */
static bool halve(json_t *all, const char *part, const char *name) {
        json_t *of = json_object_get(all, part), *list = name ? json_object_get(of, name) : of;
        bool lines = name ? streq(name, "lines") : streq(part, "here_lines");
        size_t n = json_array_size(list), from = lines ? 0 : n / 4;

        if (!name && streq(part, "here_core")) /* the thread that crashed comes first */
                from = n - n / 2;
        for (size_t i = 0; i < n / 2; i++)
                (void) json_array_remove(list, from);
        return n > 1;
}

static bool drop(json_t *all, const char *part, const char *name) {
        return json_object_del(json_object_get(json_object_get(all, part), "diagnosis"), name) == 0;
}

static size_t size_of(const json_t *v) {
        return json_dumpb(v, NULL, 0, JSON_INDENT(1));
}

/* What says least for its size goes first: the graph behind the verdict, older lines, older events, stacks.
 */
static bool make_smaller(json_t *all) {
        if (drop(all, "stall", "graph"))
                return true;
        if (json_array_size(json_object_get(json_object_get(all, "why"), "lines")) > 20 ||
            json_array_size(json_object_get(all, "here_lines")) > 20) {
                bool lines = halve(all, "why", "lines"), here = halve(all, "here_lines", NULL);

                return lines || here;
        }
        if (json_array_size(json_object_get(all, "here_libtpu")) > 40)
                return halve(all, "here_libtpu", NULL);
        if (json_array_size(json_object_get(all, "here_core")) > 80)
                return halve(all, "here_core", NULL);
        return (json_array_size(json_object_get(json_object_get(all, "why"), "events")) > 20 &&
                halve(all, "why", "events")) ||
               drop(all, "stall", "tree") || halve(all, "why", "lines") || halve(all, "here_lines", NULL) ||
               halve(all, "why", "events") || json_object_del(all, "record") == 0 ||
               json_object_del(all, "host") == 0 || json_object_del(all, "here_libtpu") == 0 ||
               json_object_del(all, "here_core") == 0 ||
               json_object_del(all, "stall") == 0;
}

static void fit(struct bundle *b) {
        bool cut = false;

        while (!b->full && size_of(b->all) > BUNDLE_MAX && make_smaller(b->all))
                cut = true;
        (void) json_object_set_new(b->all, "cut", json_boolean(cut));
}

/* --- The verb ------------------------------------------------------------------------------------------ */

/* A new file in place of what had the name: root may stand in a folder where others have made one, or a
 * link. A device stays what it is. */
static int write_file(const char *path, const char *text) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        _cleanup_free_ char *folder = slash ? strndup(path, (size_t) (name - path)) : strdup(".");
        _cleanup_close_ int dir_fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct stat st;

        if (dir_fd < 0)
                return folder ? -errno : -ENOMEM;
        if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
                return -EEXIST;
        return durable_write(dir_fd, name, text, strlen(text), 0600);
}

/* Only its owner reads it: who makes it decides who gets it. */
static int write_bundle(const struct bundle *b, const char *path) {
        _cleanup_free_ char *text = json_dumps(b->all, JSON_INDENT(1));
        int r;

        if (text && streq(path, "-"))
                return puts(text) == EOF || fflush(stdout) == EOF ? EXIT_REFUSED : 0;
        r = text ? write_file(path, text) : -ENOMEM;
        if (r < 0)
                return options_fail("tpuctl bundle", EXIT_REFUSED, "%s: %s", path, strerror(-r));
        printf("%s: %zu bytes%s; secrets are taken out, but read it before you give it away\n", path,
               strlen(text),
               json_is_true(json_object_get(b->all, "cut")) ? ", cut to 50 kB: all of it with --full" : "");
        return 0;
}

static int make_bundle(struct bundle *b, struct collector *c, const char *path) {
        const char *name;
        const json_t *v;

        ask_collector(b, c);
        ask_here(b);
        if (b->parts == 0) {
                fprintf(stderr, "tpuctl bundle: nobody knows anything about run %s:\n", b->run);
                json_object_foreach (b->left_out, name, v)
                        fprintf(stderr, "  %s: %s\n", name, json_string_value(v));
                return EXIT_NO_ANSWER;
        }
        if (redact_json(b->all) < 0)
                return options_fail("tpuctl bundle", EXIT_REFUSED, "%s", strerror(ENOMEM));
        fit(b);
        return write_bundle(b, path);
}

int verb_bundle(const struct ctl *c, int argc, char *argv[]) {
        struct bundle b = { .full = false };
        const char *url = NULL, *output = NULL;
        const struct option_def defs[] = {
                { "output", "FILE", "where it is written, '-': to standard output; default: RUN.bundle.json",
                  &output, NULL },
                { "full", NULL, "with 1000 lines and all that is kept, however long", NULL, &b.full },
                OPTION_COLLECTOR(&url),
        };
        struct options o = VERB_OPTIONS(
                "bundle", "RUN [--output FILE] [--full]", defs,
                "Packs what is known of a run into one JSON file of at most 50 kB, without secrets:\n"
                "why it ended, its last stall and the verdict, its last lines, and what this host has of "
                "it,\n"
                "with the ends of libtpu's logs and the stacks of its core.");
        struct collector collector;
        char own[64 + sizeof(".bundle.json")];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0 || collector_open(&o, url, &collector) < 0)
                return EXIT_USAGE;
        (void) snprintf(own, sizeof(own), "%.63s.bundle.json", w.items[0]);
        b.o = &o;
        b.run = w.items[0];
        b.left_out = json_object();
        b.all = json_pack("{s:i, s:s, s:s, s:o}", "version", 1, "by", "tpuctl " TPU_HOSTD_VERSION, "run",
                          b.run, "left_out", b.left_out);
        r = b.all ? make_bundle(&b, &collector, output ? output : own) : EXIT_REFUSED;
        json_decref(b.all);
        return r;
}
