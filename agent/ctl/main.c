/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl: the command line of a host, and of the fleet. */
#include <curl/curl.h>

#include "ctl.h"
#include "known_names.h"
#include "log.h"

struct verb {
        const char *name, *words, *summary;
        int (*run)(const struct ctl *c, int argc, char *argv[]);
};

static const struct verb verbs[] = {
#define VERB(name, words, summary) { #name, words, summary, verb_##name },
#include "verbs.def"
#undef VERB
};

/* The text of --help: the summary and one line a verb. */
static char *summary_text(void) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        fputs("Shows and drives a TPU host and its fleet. 'tpuctl help VERB' says more.\n\nVerbs:", f);
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
                char left[64];

                (void) snprintf(left, sizeof(left), "%s %s", verbs[i].name, verbs[i].words);
                /* The ellipsis is three bytes for one column. */
                fprintf(f, "\n  %-*s %s", strstr(left, "…") ? 28 : 26, left, verbs[i].summary);
        }
        fputs("\n\nExit codes: 0 OK, 1 WARN or refused, 2 FAIL, 3 UNKNOWN or no answer, 64 usage error.", f);
        return memstream_close(f, &text);
}

static int report_misuse(const char *word) {
        struct known_names k = known_names(word ? word : "");
        char buf[KNOWN_TEXT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                known_names_add(&k, verbs[i].name);
        if (word)
                fprintf(stderr, "tpuctl: there is no verb '%s'%s\n", word, known_names_meant(&k, buf));
        else
                fprintf(stderr, "tpuctl: a verb is missing\n");
        fprintf(stderr, "Try 'tpuctl --help'.\n");
        return EXIT_USAGE;
}

/* "help VERB …" as "VERB … --help". */
static void turn_help(int n, char *words[]) {
        static char option[] = "--help";

        if (n < 2 || !streq(words[0], "help"))
                return;
        memmove(words, words + 1, (size_t) (n - 1) * sizeof(words[0]));
        words[n - 1] = option;
}

int main(int argc, char *argv[]) {
        _cleanup_free_ char *summary = summary_text();
        struct options o = { .program = "tpuctl",
                             .synopsis = "[OPTION…] VERB …",
                             .summary = summary ? summary : "" };
        struct ctl c;
        int r;

        log_open("tpuctl");
        r = options_parse(&o, argc, argv);
        if (r < 0)
                return options_exit(r);
        if (r == argc)
                return report_misuse(NULL);
        if (argc - r == 1 && streq(argv[r], "help"))
                return options_exit(options_parse(&o, 2, argv + r - 1));
        turn_help(argc - r, argv + r);
        c = (struct ctl) { o.root, o.config };
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (streq(argv[r], verbs[i].name)) {
                        int code;

                        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                                return EXIT_NO_ANSWER;
                        code = verbs[i].run(&c, argc - r, argv + r);
                        curl_global_cleanup();
                        return code;
                }
        return report_misuse(argv[r]);
}
