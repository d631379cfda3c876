/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_orders.h"

#include <ctype.h>

#include "answer.h"
#include "order.h"
#include "table.h"
#include "verb_words.h"

#define PATH_SIZE 2048
#define REASON_MAX 200 /* bytes; the collector's limit */

struct fleet_order {
        const char *name, *words, *summary;
        size_t named;         /* words that name what it is about */
        const char *question; /* asked before it is done, behind the names; NULL: none */
        bool reason, until, host;
        const char *end; /* what takes it back; NULL: nothing does */
};

static const struct fleet_order orders[] = {
        { .name = "cordon",
          .words = "HOST REASON",
          .summary = "no run over slices starts on the host; those there go on",
          .named = 1,
          .reason = true,
          .until = true,
          .end = "uncordon" },
        { .name = "drain",
          .words = "HOST REASON",
          .summary = "as cordon, and the host says when its last run has ended",
          .named = 1,
          .question = "no new run starts there, and its runs are its last",
          .reason = true,
          .until = true,
          .end = "uncordon" },
        { .name = "uncordon", .words = "HOST", .summary = "ends cordon and drain", .named = 1 },
        { .name = "observe",
          .words = "[--host NAME] REASON",
          .summary = "the stop switch: hosts change nothing, no run over slices starts",
          .question = "no host changes anything, and no run over slices starts",
          .reason = true,
          .until = true,
          .host = true,
          .end = "repair" },
        { .name = "repair", .words = "[--host NAME]", .summary = "ends observe", .host = true },
        { .name = "release",
          .words = "SLICE WORKER REASON",
          .summary = "gives up the worker id of a machine that is gone for good",
          .named = 2,
          .question = "the next machine that says it is this worker gets its id",
          .reason = true },
};

const struct fleet_order *fleet_order_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(orders); i++)
                if (streq(orders[i].name, name))
                        return &orders[i];
        return NULL;
}

const char *fleet_order_name(size_t i) {
        return i < ELEMENTSOF(orders) ? orders[i].name : NULL;
}

void fleet_orders_list(FILE *out) {
        for (size_t i = 0; i < ELEMENTSOF(orders); i++) {
                char left[64];

                (void) snprintf(left, sizeof(left), "%s %s", orders[i].name, orders[i].words);
                fprintf(out, "\n  %-28s %s", left, orders[i].summary);
        }
}

/* --- One order ----------------------------------------------------------------------------------------- */

struct given {
        const struct fleet_order *which;
        const struct options *options;
        struct words words;
        const char *url, *until, *host;
        bool yes;
        char end[CLOCK_TEXT_MAX];
        char reason[REASON_MAX];
        char about[160]; /* as people read it: "h0", "worker 1 of slice s0", "the whole fleet" */
};

bool fleet_name_is_plain(const char *word) {
        return *word &&
               strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
                       strlen(word) &&
               strlen(word) < 64;
}

static int check_names(struct given *g) {
        const char *const *w = g->words.items;

        for (size_t i = 0; i < g->which->named; i++)
                if (!fleet_name_is_plain(w[i]))
                        return words_misuse(g->options, "this is no name:", w[i]);
        if (g->host && !fleet_name_is_plain(g->host))
                return words_misuse(g->options, "this is no name:", g->host);
        if (g->which->named == 2 && w[1][strspn(w[1], "0123456789")])
                return words_misuse(g->options, "WORKER is a number, not", w[1]);
        if (g->which->named == 2)
                (void) snprintf(g->about, sizeof(g->about), "worker %s of slice %s", w[1], w[0]);
        else
                (void) snprintf(g->about, sizeof(g->about), "%s",
                                g->which->named == 1 ? w[0]
                                : g->host            ? g->host
                                                     : "the whole fleet");
        return 0;
}

/* The words behind the names; else who sits at the terminal is asked. */
static int take_reason(struct given *g) {
        _cleanup_free_ char *text = words_join(&g->words, MIN(g->which->named, g->words.n));
        int r;

        if (!g->which->reason)
                return *text ? words_misuse(g->options, "one word too many:", text) : 0;
        if (!text)
                return -ENOMEM;
        r = *text ? 0 : order_ask("Why? Others will read it: ", g->reason, sizeof(g->reason));
        if (r == -E2BIG || strlen(text) >= sizeof(g->reason))
                return words_misuse(g->options, "the reason is at most 199 bytes", NULL);
        if (*text)
                (void) snprintf(g->reason, sizeof(g->reason), "%s", text);
        if (r < 0 || !*g->reason)
                return words_misuse(g->options, "a reason is missing; usage:", g->options->synopsis);
        return 0;
}

/* One host in observe changes little, and is taken back as easily. */
static bool needs_yes(const struct given *g) {
        return g->which->question && !g->host && !g->yes;
}

static int take_yes(const struct given *g) {
        char prompt[400];

        if (!needs_yes(g))
                return 0;
        (void) snprintf(prompt, sizeof(prompt), "%s of %s: %s. Go on? [y/N] ", g->which->name, g->about,
                        g->which->question);
        return order_ask_yes(g->options->program, prompt);
}

/* The path of the call: "/api/v1/hosts/h0/drain". */
static int call_path(const struct given *g, const char *kind, char path[static PATH_SIZE]) {
        const char *const *w = g->words.items, *host = g->which->named == 1 ? w[0] : g->host;
        int r;

        if (g->which->named == 2)
                (void) snprintf(path, PATH_SIZE, "/api/v1/slices/%s/slots/%s", w[0], w[1]);
        else
                (void) snprintf(path, PATH_SIZE, "/api/v1%s%s/%s", host ? "/hosts/" : "", host ? host : "",
                                kind);
        r = path_parameter(path, PATH_SIZE, "reason", *g->reason ? g->reason : NULL);
        return r < 0 ? r : path_parameter(path, PATH_SIZE, "until", g->until ? g->end : NULL);
}

static int call(const struct given *g, struct collector *c, const char *method, const char *kind) {
        char path[PATH_SIZE];
        struct problem problem;
        json_auto_t *answer = NULL;
        int r = call_path(g, kind, path);

        if (r < 0)
                r = problem_set(&problem, r, NULL, "what is ordered: %s", strerror(-r));
        else
                r = collector_call(c, method, path, NULL, 0, &answer, &problem);
        return r < 0 ? problem_complain(&problem) : 0;
}

static void say_done(const struct given *g) {
        const struct fleet_order *o = g->which;

        if (o->end || o->named == 2) {
                printf("%s of %s: ", o->name, g->about);
                print_clean(stdout, g->reason, false);
                putchar('\n');
        } else
                printf("%s of %s\n", o->name, g->about);
        if (o->end)
                printf("end it: tpuctl fleet %s%s%s\n", o->end,
                       g->host         ? " --host "
                       : o->named == 1 ? " "
                                       : "",
                       g->host         ? g->host
                       : o->named == 1 ? g->about
                                       : "");
}

static int carry_out(const struct given *g, struct collector *c) {
        const char *name = g->which->name;
        int code;

        if (streq(name, "uncordon")) {
                code = call(g, c, "DELETE", "cordon");
                code = code == 0 ? call(g, c, "DELETE", "drain") : code;
        } else if (streq(name, "repair") || streq(name, "release"))
                code = call(g, c, "DELETE", "mode");
        else
                code = call(g, c, "PUT", streq(name, "observe") ? "mode" : name);
        if (code == 0)
                say_done(g);
        return code;
}

int fleet_order(const struct fleet_order *which, const struct ctl *c, int argc, char *argv[]) {
        struct given g = { .which = which };
        struct option_def defs[4] = { OPTION_COLLECTOR(&g.url) };
        char program[32], summary[128];
        struct options o = { .program = program, .synopsis = which->words, .defs = defs, .n_defs = 1,
                             .summary = summary };
        struct collector collector;
        int r;

        (void) snprintf(program, sizeof(program), "tpuctl fleet %s", which->name);
        (void) snprintf(summary, sizeof(summary), "%c%s.", toupper(which->summary[0]), which->summary + 1);
        if (which->until)
                defs[o.n_defs++] = (struct option_def){
                        "until", "TIME", "it ends by itself: 2h, 3d or 2026-11-21T10:00:00Z", &g.until, NULL
                };
        if (which->host)
                defs[o.n_defs++] = (struct option_def){ "host", "NAME", "this host, not the whole fleet",
                                                        &g.host, NULL };
        if (which->question)
                defs[o.n_defs++] = (struct option_def){ "yes", NULL, "do not ask", NULL, &g.yes };
        g.options = &o;
        r = words_parse(c, &o, argc, argv, which->named, WORDS_MAX, &g.words);
        if (r < 0)
                return options_exit(r);
        if (order_until(&o, g.until, g.end) < 0 || check_names(&g) < 0 || take_reason(&g) < 0 ||
            collector_open(&o, g.url, &collector) < 0)
                return EXIT_USAGE;
        return take_yes(&g) < 0 ? EXIT_REFUSED : carry_out(&g, &collector);
}
