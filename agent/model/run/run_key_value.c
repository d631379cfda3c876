/* SPDX-License-Identifier: Apache-2.0 */
/* What the values of each kind of key are: in words, as people write them, and their bounds. */
#include <ctype.h>
#include <signal.h>

#include "config.h"
#include "environment_list.h"
#include "texts.h"
#include "run_key.h"
#include "steps.h"
#include "utf8.h"

/* --- In words ----------------------------------------------------------------------------------------- */

/* "none, keep" of "none keep". */
static const char *words_of(const struct run_key *k, char *buf, size_t size) {
        size_t n = 0;

        for (const char *c = k->words; *c && n + 3 < size; c++) {
                if (*c == ' ')
                        buf[n++] = ',';
                buf[n++] = *c;
        }
        buf[n] = '\0';
        return buf;
}

/* As people write it: the largest unit that it is whole in. */
static const char *span_of(uint64_t usec, char buf[static 32]) {
        static const struct {
                const char *unit;
                uint64_t usec;
        } units[] = { { "h", 3600 * USEC_PER_SEC }, { "min", 60 * USEC_PER_SEC }, { "s", USEC_PER_SEC } };

        (void) snprintf(buf, 32, "%" PRIu64 "%s", usec, usec > 0 ? "us" : "");
        for (size_t i = ELEMENTSOF(units); i > 0; i--)
                if (usec > 0 && usec % units[i - 1].usec == 0)
                        (void) snprintf(buf, 32, "%" PRIu64 "%s", usec / units[i - 1].usec,
                                        units[i - 1].unit);
        return buf;
}

static const char *const descriptions[] = {
        [RUN_KEY_NAME] = "a name of a-z, 0-9 and '-', at most MOST characters, no '-' first",
        [RUN_KEY_TEXT] = "a text of at most MOST bytes",
        [RUN_KEY_WORD] = "one of WORDS",
        [RUN_KEY_PATH] = "an absolute path",
        [RUN_KEY_IMAGE] = "an image's name, as registry/name:tag, of at most MOST bytes",
        [RUN_KEY_NUMBER] = "a whole number from LEAST to MOST",
        [RUN_KEY_SPAN] = "a span of time from SHORTEST to LONGEST, as 30s or 10min",
        [RUN_KEY_BYTES] = "a number of bytes above 0, as 512M, 8G, or infinity",
        [RUN_KEY_FLAG] = "true or false",
        [RUN_KEY_NUMBERS] = "a list of numbers from 0 to MOST, as 0-3,8",
        [RUN_KEY_DEVICES] = "tpu, any, or at most MOST nodes, as /dev/net/tun,char-nvidia",
        [RUN_KEY_PREEMPT] = "one of WORDS, or a command that begins with /",
        [RUN_KEY_EXPRESSION] = "an extended regular expression with a group, of at most MOST bytes",
        [RUN_KEY_RANGE] = "MIN:MAX or one number, each from LEAST to MOST",
        [RUN_KEY_VARIABLES] = "a list of at most MOST texts NAME=VALUE",
        [RUN_KEY_COMMAND] = "a list of LEAST to MOST texts, the first not empty",
        [RUN_KEY_NAMES] = "a list of at most MOST names of slices, each once",
};

/* What its values are, in words: "a whole number from 0 to 1000000". */
static const char *run_key_describe(const struct run_key *k, char *buf, size_t size) {
        char words[128], number[32];

        (void) snprintf(buf, size, "%s", descriptions[k->kind]);
        placeholder_fill(buf, size, "SHORTEST", span_of(k->least, number));
        placeholder_fill(buf, size, "LONGEST", span_of(k->most, number));
        (void) snprintf(number, sizeof(number), "%" PRIu64, k->least);
        placeholder_fill(buf, size, "LEAST", number);
        (void) snprintf(number, sizeof(number), "%" PRIu64, k->most);
        placeholder_fill(buf, size, "MOST", number);
        if (k->words)
                placeholder_fill(buf, size, "WORDS", words_of(k, words, sizeof(words)));
        return buf;
}

static const char *default_of(const struct run_key *k, char buf[static 64]) {
        Run__Spec standard;
        uint64_t n;

        if (!run_key_has_default(k))
                return NULL;
        run__spec__init(&standard);
        if (run_key_is_text(k))
                return run_key_text(k, &standard)[0] ? run_key_text(k, &standard) : NULL;
        n = run_key_number(k, &standard);
        if (n == UINT64_MAX)
                return "infinity";
        if (k->kind == RUN_KEY_SPAN)
                return span_of(n, buf);
        (void) snprintf(buf, 64, "%" PRIu64, n);
        return buf;
}

const char *run_key_help(const struct run_key *k, char *buf, size_t size) {
        const char *more = k->kind == RUN_KEY_PREEMPT   ? "; or a command for the shell: /…"
                           : k->kind == RUN_KEY_DEVICES ? "; or nodes besides: /dev/net/tun,char-nvidia"
                                                        : "";
        char words[128], number[64];
        const char *standard = default_of(k, number);

        (void) snprintf(buf, size, "%s%s%s%s%s%s", k->help, k->words ? "; one of: " : "",
                        k->words ? words_of(k, words, sizeof(words)) : "", more,
                         standard ? "; default " : "",
                        standard ? standard : "");
        return buf;
}

int run_key_refuse(const struct run_key *k, const char *text, char why[static RUN_WHY_MAX]) {
        char what[160];

        if (text)
                (void) snprintf(why, RUN_WHY_MAX, "%s '%.64s' is not %s", k->name, text,
                                run_key_describe(k, what, sizeof(what)));
        else
                (void) snprintf(why, RUN_WHY_MAX, "%s is not %s", k->name,
                                run_key_describe(k, what, sizeof(what)));
        (void) utf8_scrub(why, strlen(why)); /* it may show what came */
        return -EINVAL;
}

/* --- Kinds -------------------------------------------------------------------------------------------- */

bool run_name_is_valid(const char *name) {
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return n >= 1 && n <= 41 && !name[n] && name[0] != '-';
}

int number_set_parse(const char *text, struct number_set *ret) {
        struct number_set s = { .bytes = 0 };
        const char *at = text;
        uint64_t first, last;
        int r;

        while ((r = range_next(&at, &first, &last)) > 0) {
                if (last >= NUMBER_SET_MAX)
                        return -ERANGE;
                for (uint64_t n = first; n <= last; n++)
                        s.bits[n / 8] |= (uint8_t) (1u << (n % 8));
                s.bytes = MAX(s.bytes, last / 8 + 1);
        }
        if (r < 0 || *at || endswith(text, ","))
                return -EINVAL;
        *ret = s;
        return 0;
}

int run_signal_number(const char *name) {
        static const struct {
                const char *name;
                int number;
        } signals[] = { { "none", 0 },
                        { "TERM", SIGTERM },
                        { "INT", SIGINT },
                        { "USR1", SIGUSR1 },
                        { "USR2", SIGUSR2 } };

        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (streq(signals[i].name, name))
                        return signals[i].number;
        return name[0] == '/' ? 0 : -EINVAL;
}

static bool is_word(const struct run_key *k, const char *text) {
        size_t n = strlen(text);

        for (const char *w = k->words; *w; w += strspn(w, " ")) {
                size_t len = strcspn(w, " ");

                if (len == n && memcmp(w, text, n) == 0)
                        return true;
                w += len;
        }
        return false;
}

static bool is_device_list(const char *text) {
        char bad[DEVICE_NODE_MAX], **list = NULL;
        int r = streq(text, "any") ? 0 : device_list_add(text, &list, bad);

        (void) strings_free(list);
        return r >= 0;
}

/* An engine that runs as root is given it as a word: nothing that it takes for an option, or for a transport
 * with a path behind it (dir:/etc), and no text that people read as another. */
static bool is_image(const char *text) {
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@");

        return n >= 1 && !text[n] && isalnum((unsigned char) text[0]) &&
               isalnum((unsigned char) text[n - 1]) && !strstr(text, "..") && !strstr(text, "//") &&
               !strstr(text, ":/");
}

static bool is_in_bounds(const struct run_key *k, const char *text) {
        struct number_set set;

        if (k->most > 0 && run_key_is_text(k) && k->kind != RUN_KEY_NUMBERS && k->kind != RUN_KEY_DEVICES &&
            strlen(text) > k->most)
                return false;
        if (!utf8_is_text(text))
                return false;
        if (k->kind == RUN_KEY_NAME)
                return run_name_is_valid(text);
        if (k->kind == RUN_KEY_WORD)
                return is_word(k, text);
        if (k->kind == RUN_KEY_PATH)
                return text[0] == '/';
        if (k->kind == RUN_KEY_IMAGE)
                return is_image(text);
        if (k->kind == RUN_KEY_NUMBERS)
                return strlen(text) < NUMBER_SET_TEXT_MAX && number_set_parse(text, &set) == 0;
        if (k->kind == RUN_KEY_DEVICES)
                return is_device_list(text);
        if (k->kind == RUN_KEY_PREEMPT)
                return is_word(k, text) || text[0] == '/';
        return true;
}

static int check_list(const struct run_key *k, const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        size_t n;
        char **list = run_key_list(k, s, &n);

        if (n > k->most)
                return run_key_refuse(k, NULL, why);
        for (size_t i = 0; i < n; i++) {
                if (k->kind == RUN_KEY_VARIABLES) { /* a value may be a secret: it is never shown */
                        if (environment_check_assignment(list[i], why) < 0)
                                return -EINVAL;
                } else if (!utf8_is_text(list[i]) ||
                           (k->kind == RUN_KEY_NAMES && !name_is_for_registry(list[i])))
                        return run_key_refuse(k, list[i], why);
                for (size_t before = 0; k->kind == RUN_KEY_NAMES && before < i; before++)
                        if (streq(list[before], list[i]))
                                return run_key_refuse(k, list[i], why);
        }
        return n > 0 && k->kind == RUN_KEY_COMMAND && !list[0][0] ? run_key_refuse(k, "", why) : 0;
}

int run_key_refuse_number(const struct run_key *k, uint64_t n, char why[static RUN_WHY_MAX]) {
        char shown[24];

        (void) snprintf(shown, sizeof(shown), "%" PRIu64, n);
        return run_key_refuse(k, shown, why);
}

static int check_number(const struct run_key *k, uint64_t n, const char *text,
                        char why[static RUN_WHY_MAX]) {
        if (k->kind == RUN_KEY_FLAG || (n == UINT64_MAX && k->kind == RUN_KEY_BYTES) ||
            (n >= k->least && n <= (k->most > 0 ? k->most : (uint64_t) INT64_MAX)))
                return 0;
        return text ? run_key_refuse(k, text, why) : run_key_refuse_number(k, n, why);
}

/* Why it is none is said by who compiles it. */
static int check_expression(const struct run_key *k, const char *text, char why[static RUN_WHY_MAX]) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        char reason[96] = "out of memory";

        if (step_expression_new(text, reason, sizeof(reason), &e) >= 0)
                return 0;
        (void) snprintf(why, RUN_WHY_MAX, "%s '%.128s': %s", k->name, text, reason);
        (void) utf8_scrub(why, strlen(why));
        return -EINVAL;
}

int run_key_check(const struct run_key *k, const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        if (!run_key_given(k, s))
                return 0;
        if (run_key_is_list(k))
                return check_list(k, s, why);
        if (run_key_is_text(k) && !is_in_bounds(k, run_key_text(k, s)))
                return run_key_refuse(k, run_key_text(k, s), why);
        return run_key_is_text(k) ? 0 : check_number(k, run_key_number(k, s), NULL, why);
}

int run_key_check_written(const struct run_key *k, const Run__Spec *s, char why[static RUN_WHY_MAX]) {
        int r = run_key_check(k, s, why);

        return r == 0 && k->kind == RUN_KEY_EXPRESSION && run_key_given(k, s)
                       ? check_expression(k, run_key_text(k, s), why)
                       : r;
}

/* --- What people write -------------------------------------------------------------------------------- */

static int parse_number(const struct run_key *k, Run__Spec *s, const char *text, const char *shown,
                        char why[static RUN_WHY_MAX]) {
        char reason[96];
        uint64_t n;
        int r;

        if (k->kind == RUN_KEY_BYTES && streq(text, "infinity")) {
                run_key_set_number(k, s, UINT64_MAX);
                return 0;
        }
        r = k->kind == RUN_KEY_SPAN    ? config_parse_usec(text, &n, reason)
            : k->kind == RUN_KEY_BYTES ? config_parse_bytes(text, &n, reason)
                                       : config_parse_u64(text, &n, reason);
        if (r < 0)
                return run_key_refuse(k, shown, why);
        r = check_number(k, n, shown, why);
        if (r == 0)
                run_key_set_number(k, s, n);
        return r;
}

static int parse_range(const struct run_key *k, Run__Spec *s, const char *text,
                       char why[static RUN_WHY_MAX]) {
        const char *colon = strchr(text, ':');
        char first[24];
        int r;

        (void) snprintf(first, sizeof(first), "%.*s", (int) MIN(strcspn(text, ":"), (size_t) 23), text);
        r = parse_number(k, s, first, text, why);
        return r < 0 ? r : parse_number(k + 1, s, colon ? colon + 1 : first, text, why);
}

static int parse_names(const struct run_key *k, Run__Spec *s, const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *word, *rest = copy;
        int r = copy ? 0 : -ENOMEM;

        while (r == 0 && (word = strsep(&rest, ",")))
                r = run_key_append(k, s, word);
        return r;
}

int run_key_parse(const struct run_key *k, Run__Spec *s, const char *text, char why[static RUN_WHY_MAX]) {
        char reason[96];
        bool yes;
        int r;

        if (k->kind == RUN_KEY_RANGE)
                return parse_range(k, s, text, why);
        if (k->kind == RUN_KEY_NUMBER || k->kind == RUN_KEY_SPAN || k->kind == RUN_KEY_BYTES)
                return parse_number(k, s, text, text, why);
        if (k->kind == RUN_KEY_FLAG) {
                if (config_parse_bool(text, &yes, reason) < 0)
                        return run_key_refuse(k, text, why);
                run_key_set_number(k, s, yes);
                return 0;
        }
        if (k->kind == RUN_KEY_NAMES)
                r = parse_names(k, s, text);
        else
                r = run_key_is_list(k) ? run_key_append(k, s, text) : run_key_set_text(k, s, text);
        if (r < 0)
                (void) snprintf(why, RUN_WHY_MAX, "out of memory");
        return r < 0 ? r : run_key_check_written(k, s, why);
}

/* --- Device nodes -------------------------------------------------------------------------------------- */

#define NODE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:+@"

/* No ".." and nothing that means something to systemd but '*', and that in names of drivers alone. */
static bool is_node(const char *text) {
        const char *driver = startswith(text, "char-")    ? text + 5
                             : startswith(text, "block-") ? text + 6
                                                          : NULL;

        if (driver)
                return driver[0] && strspn(driver, NODE_LETTERS "*") == strlen(driver);
        return startswith(text, "/dev/") && text[5] && strspn(text, NODE_LETTERS "/") == strlen(text) &&
               !strstr(text, "..") && !strstr(text, "//") && text[strlen(text) - 1] != '/';
}

static size_t count_nodes(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]) {
        const char *words[DEVICE_LIST_MAX + 1];
        char nodes[DEVICE_LIST_MAX][DEVICE_NODE_MAX], **all;
        size_t n = count_nodes(*list), more = 0;

        for (size_t i = 0; i < n && i < DEVICE_LIST_MAX; i++)
                words[i] = (*list)[i];
        while (*(text += strspn(text, " ,\t"))) {
                size_t len = strcspn(text, " ,\t");

                (void) snprintf(bad, DEVICE_NODE_MAX, "%.*s", (int) MIN(len, (size_t) DEVICE_NODE_MAX),
                                text);
                if (streq(bad, "tpu")) { /* these it may open anyhow */
                        text += len;
                        continue;
                }
                if (n + more >= DEVICE_LIST_MAX)
                        return -E2BIG;
                if (len >= DEVICE_NODE_MAX || !is_node(bad))
                        return -EINVAL;
                memcpy(nodes[more], bad, len + 1);
                words[n + more] = nodes[more];
                more++;
                text += len;
        }
        if (more == 0)
                return 0;
        all = strings_copy(words, n + more);
        if (!all)
                return -ENOMEM;
        (void) strings_free(*list);
        *list = all;
        return 0;
}
