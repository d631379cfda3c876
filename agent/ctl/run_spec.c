/* SPDX-License-Identifier: Apache-2.0 */
#include "run_spec.h"

#include <fcntl.h>
#include <stdarg.h>

#include "config.h"
#include "environment.h"
#include "io.h"

#define FILE_MAX (256 * 1024)
#define POOL_MAX (RUN_SPEC_ENV_MAX + RUN_SPEC_ARGV_MAX + 16)

__attribute__((format(printf, 2, 3))) static int bad(char why[static RUN_SPEC_WHY_MAX], const char *fmt,
                                                     ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, RUN_SPEC_WHY_MAX, fmt, ap);
        va_end(ap);
        return -EINVAL;
}

void run_spec_clear(struct run_spec *s) {
        for (size_t i = 0; i < s->n_pool; i++)
                free(s->pool[i]);
        free(s->pool);
        *s = (struct run_spec){ 0 };
}

/* --- The file ------------------------------------------------------------------------------------------ */

struct reading {
        struct run_spec *spec;
        const char *path;
        bool own_argv; /* the command line has the command */
        const char *given[32]; /* what the command line gave: never replaced */
        int error;
        char *why;
};

static char *hold(struct run_spec *s, const char *text, size_t len) {
        char *copy;

        if (!s->pool)
                s->pool = calloc(POOL_MAX, sizeof(*s->pool));
        if (!s->pool || s->n_pool == POOL_MAX)
                return NULL;
        copy = strndup(text, len);
        if (copy)
                s->pool[s->n_pool++] = copy;
        return copy;
}

static int add_word(struct run_spec *s, const char *text, size_t len) {
        char *copy;

        if (s->n_argv == RUN_SPEC_ARGV_MAX)
                return -E2BIG;
        copy = hold(s, text, len);
        if (!copy)
                return -ENOMEM;
        s->argv[s->n_argv++] = copy;
        return 0;
}

/* Words as a shell has them, without its substitutions. */
static int add_command(struct run_spec *s, const char *value) {
        char word[CONFIG_LINE_MAX + 1];
        int r = 0;

        while (r == 0 && *(value += strspn(value, " \t"))) {
                char quote = '\0';
                size_t n = 0;

                for (; *value && (quote || (*value != ' ' && *value != '\t')); value++) {
                        if (quote ? *value == quote : *value == '"' || *value == '\'')
                                quote = quote ? '\0' : *value;
                        else
                                word[n++] = *value;
                }
                r = quote ? -EBADMSG : add_word(s, word, n);
        }
        return r;
}

static const struct {
        const char *key;
        size_t at;
} keys[] = {
        { "Name", offsetof(struct run_spec, name) },
        { "Framework", offsetof(struct run_spec, framework) },
        { "Malloc", offsetof(struct run_spec, malloc) },
        { "User", offsetof(struct run_spec, user) },
        { "Directory", offsetof(struct run_spec, directory) },
        { "Slices", offsetof(struct run_spec, slices) },
        { "On", offsetof(struct run_spec, on) },
        { "Restarts", offsetof(struct run_spec, restarts) },
        { "Grace", offsetof(struct run_spec, grace) },
        { "Wait", offsetof(struct run_spec, wait) },
        { "Late", offsetof(struct run_spec, late) },
        { "Port", offsetof(struct run_spec, port) },
        { "Preempt", offsetof(struct run_spec, preempt) },
        { "Memlock", offsetof(struct run_spec, memlock) },
        { "Nofile", offsetof(struct run_spec, nofile) },
        { "Memory", offsetof(struct run_spec, memory) },
        { "MemoryTotal", offsetof(struct run_spec, memory_total) },
        { "MemoryHigh", offsetof(struct run_spec, memory_high) },
        { "Cpus", offsetof(struct run_spec, cpus) },
        { "Numa", offsetof(struct run_spec, numa) },
        { "Core", offsetof(struct run_spec, core) },
        { "Devices", offsetof(struct run_spec, devices) },
        { "LastCall", offsetof(struct run_spec, last_call) },
        { "ShrinkAfter", offsetof(struct run_spec, shrink_after) },
        { "GrowAfter", offsetof(struct run_spec, grow_after) },
};
_Static_assert(ELEMENTSOF(keys) <= ELEMENTSOF(((struct reading *) 0)->given), "each key has its place");

static const char **text_at(struct run_spec *s, size_t which) {
        return (const char **) (void *) ((char *) s + keys[which].at);
}

static int take_key(struct reading *r, const char *key, const char *value) {
        struct run_spec *s = r->spec;

        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(keys[i].key, key)) {
                        const char **text = text_at(s, i);

                        if (r->given[i])
                                return 0;
                        *text = hold(s, value, strlen(value));
                        return *text ? 0 : -ENOMEM;
                }
        if (streq(key, "Env")) {
                if (s->n_env == RUN_SPEC_ENV_MAX)
                        return -E2BIG;
                s->env[s->n_env] = hold(s, value, strlen(value));
                return s->env[s->n_env++] ? 0 : -ENOMEM;
        }
        if (streq(key, "Command"))
                return r->own_argv ? 0 : add_command(s, value);
        if (streq(key, "Argument"))
                return r->own_argv ? 0 : add_word(s, value, strlen(value));
        return -ENOENT;
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key,
                     const char *value) {
        struct reading *r = userdata;

        if (r->error < 0)
                return;
        if (!streq(section, "Job"))
                r->error =
                        bad(r->why, "%s:%u: section [%.40s]: there is only [Job]", r->path, line, section);
        else
                switch (take_key(r, key, value)) {
                case 0:
                        break;
                case -ENOENT:
                        r->error = bad(r->why, "%s:%u: there is no key %.40s=", r->path, line, key);
                        break;
                case -EBADMSG:
                        r->error = bad(r->why, "%s:%u: a quote is not closed", r->path, line);
                        break;
                default:
                        r->error = bad(r->why, "%s:%u: too many words, or no memory", r->path, line);
                }
}

static void on_problem(void *userdata, unsigned line, const char *text) {
        struct reading *r = userdata;

        if (r->error == 0)
                r->error = bad(r->why, "%s:%u: %.120s", r->path, line, text);
}

/* The command line's variables come after the file's: of two for one name the later counts. */
static void file_first(struct run_spec *s, const char **own, size_t n_own) {
        size_t n_file = s->n_env - n_own;

        memmove(s->env, s->env + n_own, n_file * sizeof(s->env[0]));
        memcpy(s->env + n_file, own, n_own * sizeof(s->env[0]));
}

int run_spec_parse(struct run_spec *s, const char *path, const char *text, size_t len,
                   char why[static RUN_SPEC_WHY_MAX]) {
        const char *own[RUN_SPEC_ENV_MAX];
        size_t n_own = s->n_env;
        struct reading r = { .spec = s, .path = path, .own_argv = s->n_argv > 0, .why = why };
        const struct config_reader reader = { .entry = on_entry, .problem = on_problem, .userdata = &r };
        int k;

        memcpy(own, s->env, n_own * sizeof(own[0]));
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                r.given[i] = *text_at(s, i);
        k = config_read_text(&reader, text, len);
        if (r.error == 0 && k < 0)
                r.error = bad(why, "%s: %s", path, strerror(-k));
        file_first(s, own, n_own);
        return r.error;
}

int run_spec_read(struct run_spec *s, const char *path, char why[static RUN_SPEC_WHY_MAX]) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *text = malloc(FILE_MAX + 1);
        ssize_t n;

        if (fd < 0)
                return bad(why, "%s: %s", path, strerror(errno));
        n = text ? io_read_up_to(fd, text, FILE_MAX + 1) : -ENOMEM;
        if (n < 0 || n > FILE_MAX)
                return bad(why, "%s: %s", path, n < 0 ? strerror((int) -n) : "longer than 256 KiB");
        return run_spec_parse(s, path, text, (size_t) n, why);
}

/* --- What it says -------------------------------------------------------------------------------------- */

bool run_spec_is_fleet(const struct run_spec *s) {
        return s->slices || s->on;
}

static int number(const char *flag, const char *text, unsigned long least, unsigned long most,
                  unsigned long *ret, char why[static RUN_SPEC_WHY_MAX]) {
        char *end;
        unsigned long n;

        if (text[0] < '0' || text[0] > '9')
                return bad(why, "%s '%.40s' is no number", flag, text);
        errno = 0;
        n = strtoul(text, &end, 10);
        if (errno || *end || n < least || n > most)
                return bad(why, "%s '%.40s' is no number from %lu to %lu", flag, text, least, most);
        *ret = n;
        return 0;
}

static int span(const char *flag, const char *text, usec_t *ret, char why[static RUN_SPEC_WHY_MAX]) {
        char reason[96];

        if (config_parse_usec(text, ret, reason) < 0)
                return bad(why, "%s '%.40s': %s (as 30s, 10min, 2h)", flag, text, reason);
        return 0;
}

/* Bytes as config.h has them, or infinity. */
static int bytes(const char *flag, const char *text, uint64_t *ret, char why[static RUN_SPEC_WHY_MAX]) {
        char reason[96] = "0 is no limit";

        if (streq(text, "infinity")) {
                *ret = UINT64_MAX;
                return 0;
        }
        if (config_parse_bytes(text, ret, reason) < 0 || *ret == 0)
                return bad(why, "%s '%.40s': %s (as 512M, 8G, infinity)", flag, text, reason);
        return 0;
}

static int limits(const struct run_spec *s, struct run_numbers *n, char why[static RUN_SPEC_WHY_MAX]) {
        unsigned long files = 0;
        int r = 0;

        if (s->memlock)
                r = bytes("--memlock", s->memlock, &n->memlock, why);
        if (r == 0 && s->memory)
                r = bytes("--memory", s->memory, &n->memory, why);
        if (r == 0 && s->memory_total)
                r = bytes("--memory-total", s->memory_total, &n->memory_total, why);
        if (r == 0 && s->memory_high)
                r = bytes("--memory-high", s->memory_high, &n->memory_high, why);
        if (r == 0 && s->nofile)
                r = number("--nofile", s->nofile, 1, 1073741816, &files,
                           why); /* the kernel's highest fs.nr_open */
        if (r == 0 && s->core && !streq(s->core, "none") && !streq(s->core, "keep"))
                r = bad(why, "--core is none or keep, not '%.40s'", s->core);
        n->nofile = files;
        return r;
}

static unsigned count_names(const char *list) {
        unsigned n = 1;

        for (; *list; list++)
                n += *list == ',';
        return n;
}

/* MIN:MAX, or one number for both; as many as --on names when nothing is said. */
static int take_slices(const struct run_spec *s, struct run_numbers *n, char why[static RUN_SPEC_WHY_MAX]) {
        const char *colon = s->slices ? strchr(s->slices, ':') : NULL;
        unsigned long least, most;
        char first[24];
        int r;

        n->min = n->max = s->on ? count_names(s->on) : 1;
        if (!s->slices)
                return 0;
        (void) snprintf(first, sizeof(first), "%.*s", colon ? (int) MIN(colon - s->slices, 23) : 23,
                        s->slices);
        r = number("--slices", first, 1, 256, &least, why);
        if (r == 0)
                r = number("--slices", colon ? colon + 1 : first, 1, 256, &most, why);
        if (r < 0)
                return r;
        if (least > most)
                return bad(why, "--slices %.40s: the least is above the most", s->slices);
        if (s->on && most > count_names(s->on))
                return bad(why, "--slices %.40s: --on names %u slices only", s->slices, count_names(s->on));
        n->min = (unsigned) least;
        n->max = (unsigned) most;
        return 0;
}

/* Each: the flag, its text, where the number goes. */
static int spans(const struct run_spec *s, struct run_numbers *n, char why[static RUN_SPEC_WHY_MAX]) {
        const struct {
                const char *flag, *text;
                usec_t *at;
        } all[] = {
                { "--grace", s->grace, &n->grace },
                { "--wait", s->wait, &n->wait },
                { "--last-call", s->last_call, &n->last_call },
                { "--shrink-after", s->shrink_after, &n->shrink_after },
                { "--grow-after", s->grow_after, &n->grow_after },
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ELEMENTSOF(all); i++)
                if (all[i].text)
                        r = span(all[i].flag, all[i].text, all[i].at, why);
        return r;
}

int run_spec_numbers(const struct run_spec *s, struct run_numbers *ret, char why[static RUN_SPEC_WHY_MAX]) {
        struct run_numbers n = { .grace = USEC_INFINITY,
                                 .wait = USEC_INFINITY,
                                 .last_call = USEC_INFINITY,
                                 .shrink_after = USEC_INFINITY,
                                 .grow_after = USEC_INFINITY };
        unsigned long restarts = 0, port = 0;
        int r = take_slices(s, &n, why);

        if (r == 0 && s->restarts)
                r = number("--restarts", s->restarts, 0, 1000000, &restarts, why);
        if (r == 0 && s->port)
                r = number("--port", s->port, 1, 65535, &port, why);
        if (r == 0)
                r = spans(s, &n, why);
        if (r == 0)
                r = limits(s, &n, why);
        if (r == 0 && s->late && !streq(s->late, "fail") && !streq(s->late, "min"))
                r = bad(why, "--late is fail or min, not '%.40s'", s->late);
        if (r < 0)
                return r;
        n.restarts = (unsigned) restarts;
        n.port = (uint16_t) port;
        *ret = n;
        return 0;
}

/* --- The intent ---------------------------------------------------------------------------------------- */

static json_t *list_of(const char *const *texts, size_t n) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < n; i++)
                if (json_array_append_new(list, json_string(texts[i])) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

static json_t *names_of(const char *list) {
        _cleanup_free_ char *copy = strdup(list);
        char *word, *rest = copy;
        json_t *out = json_array();

        while (copy && out && (word = strsep(&rest, ",")))
                if (json_array_append_new(out, json_string(word)) < 0) {
                        json_decref(out);
                        return NULL;
                }
        return out;
}

static int set_bytes(json_t *o, const char *key, uint64_t n) {
        if (n == 0)
                return 0;
        return json_object_set_new(o, key,
                                   n == UINT64_MAX ? json_string("infinity") : json_integer((json_int_t) n));
}

static int set_limits(json_t *intent, const struct run_spec *s, const struct run_numbers *n) {
        json_t *l = json_object();
        int r = set_bytes(l, "memlock", n->memlock) | set_bytes(l, "memory", n->memory) |
                set_bytes(l, "memory_total", n->memory_total) | set_bytes(l, "memory_high", n->memory_high) |
                set_bytes(l, "nofile", n->nofile);

        if (s->cpus)
                r |= json_object_set_new(l, "cpus", json_string(s->cpus));
        if (s->numa)
                r |= json_object_set_new(l, "numa", json_string(s->numa));
        if (s->core)
                r |= json_object_set_new(l, "core", json_string(s->core));
        if (r == 0 && json_object_size(l) > 0)
                return json_object_set_new(intent, "limits", l);
        json_decref(l);
        return r;
}

static int set_span(json_t *o, const char *key, usec_t span) {
        return span == USEC_INFINITY ? 0 : json_object_set_new(o, key, json_integer((json_int_t) span));
}

static int set_optional(json_t *o, const struct run_spec *s, const struct run_numbers *n) {
        int r = set_span(o, "grace", n->grace) | set_span(o, "wait", n->wait) |
                set_span(o, "last_call", n->last_call) | set_span(o, "shrink_after", n->shrink_after) |
                set_span(o, "grow_after", n->grow_after);

        if (n->port)
                r |= json_object_set_new(o, "port", json_integer(n->port));
        r |= set_limits(o, s, n);
        if (s->late)
                r |= json_object_set_new(o, "late", json_string(s->late));
        if (s->devices)
                r |= json_object_set_new(o, "devices", json_string(s->devices));
        return r;
}

/* Where the framework's own coordinator listens; the planner's default is JAX's of before 0.8. */
static void default_port(const struct run_spec *s, struct run_numbers *n) {
        enum framework f;

        if (!n->port && framework_parse(s->framework ? s->framework : "plain", &f) == 0)
                n->port = framework_port(f);
}

int run_spec_intent(const struct run_spec *s, const char *user, json_t **ret,
                    char why[static RUN_SPEC_WHY_MAX]) {
        struct run_numbers n;
        json_t *o;
        int r = run_spec_numbers(s, &n, why);

        if (r < 0)
                return r;
        default_port(s, &n);
        o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:i}", "v", 1, "name",
                      s->name ? s->name : "", "user", user, "framework",
                      s->framework ? s->framework : "plain", "malloc", s->malloc ? s->malloc : "auto",
                      "directory", s->directory ? s->directory : "", "preempt",
                      s->preempt ? s->preempt : "TERM", "argv", list_of(s->argv, s->n_argv), "env",
                      list_of(s->env, s->n_env), "slices", s->on ? names_of(s->on) : json_array(), "min",
                      (int) n.min, "max", (int) n.max, "restarts", (int) n.restarts);
        if (!o || set_optional(o, s, &n) != 0) {
                json_decref(o);
                return bad(why, "a word is no UTF-8 text, or memory is out");
        }
        *ret = o;
        return 0;
}
