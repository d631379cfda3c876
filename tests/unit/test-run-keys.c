/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a run's keys, as properties: each has its field and each field a row; each value goes from a
 * flag, a line of a file and JSON to the same protobuf and back; bounds and words of a mistake are the same
 * by every way.
 */
#include "environment.h"
#include "run_spec.h"
#include "steps.h"
#include "test.h"

/* --- The table ----------------------------------------------------------------------------------------- */

static void test_rows_are_fields(void) {
        const ProtobufCMessageDescriptor *d = &run__spec__descriptor;

        ASSERT_EQ(d->n_fields, run_keys_count());
        for (size_t i = 0; i < d->n_fields; i++)
                ASSERT_TRUE(run_key_find(d->fields[i].name) != NULL);
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);
                const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(d,
                                                                                                    k->name);

                ASSERT_TRUE(f != NULL);
                ASSERT_EQ(run_key_is_list(k), f->label == PROTOBUF_C_LABEL_REPEATED);
                ASSERT_EQ(k->kind == RUN_KEY_FLAG, f->type == PROTOBUF_C_TYPE_BOOL);
                if (f->type == PROTOBUF_C_TYPE_UINT32)
                        ASSERT_TRUE(k->most > 0 && k->most <= UINT32_MAX);
                ASSERT_TRUE(k->least <= k->most || k->most == 0);
                ASSERT_TRUE(!k->unit || !k->slice);
                ASSERT_TRUE((k->who & (RUN_HERE | RUN_SLICES)) != 0);
        }
}

/* A default is a value that one could give. */
static void test_defaults_are_in_bounds(void) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);
                Run__Spec *s = run_spec_new();
                char why[RUN_WHY_MAX];

                if (!run_key_has_default(k) || run_key_is_list(k) ||
                    (run_key_is_text(k) && !run_key_text(k, s)[0])) {
                        (void) run_spec_free(s);
                        continue;
                }
                if (run_key_is_text(k))
                        ASSERT_OK(run_key_set_text(k, s, run_key_text(k, s)));
                else
                        run_key_set_number(k, s, run_key_number(k, s));
                ASSERT_OK(run_key_check(k, s, why));
                (void) run_spec_free(s);
        }
}

/* What other tables say, too. */
static void test_words_of_others(void) {
        const struct run_key *k = run_key_find("framework");
        char words[128] = "";

        for (enum framework f = 0; f < _FRAMEWORK_MAX; f++) {
                size_t n = strlen(words);

                (void) snprintf(words + n, sizeof(words) - n, "%s%s", n > 0 ? " " : "", framework_name(f));
        }
        ASSERT_STREQ(k->words, words);
        ASSERT_STREQ(run_key_find("step_regex")->variable, STEP_EXPRESSION_VARIABLE);
        ASSERT_EQ(run_key_find("step_regex")->most, STEP_EXPRESSION_MAX);
}

static void test_names(void) {
        char buf[RUN_KEY_TEXT_MAX], help[200];

        ASSERT_STREQ(run_key_flag(run_key_find("memory_total"), buf), "memory-total");
        ASSERT_STREQ(run_key_ini(run_key_find("memory_total"), buf), "MemoryTotal");
        ASSERT_STREQ(run_key_flag(run_key_find("slices"), buf), "on");
        ASSERT_STREQ(run_key_ini(run_key_find("min"), buf), "Slices");
        ASSERT_TRUE(!run_key_flag(run_key_find("max"), buf) && !run_key_ini(run_key_find("argv"), buf));
        ASSERT_STREQ(run_key_help(run_key_find("core"), help, sizeof(help)),
                     "core dumps; one of: none, keep; default none");
        ASSERT_STREQ(run_key_help(run_key_find("restarts"), help, sizeof(help)),
                     "restart it at most so often when it fails; default 0");
        ASSERT_TRUE(strstr(run_key_help(run_key_find("grace"), help, sizeof(help)),
                           "; default 90s") != NULL);
        ASSERT_TRUE(strstr(run_key_help(run_key_find("wait"), help, sizeof(help)),
                           "; default 10min") != NULL);
        ASSERT_TRUE(strstr(run_key_help(run_key_find("memlock"), help, sizeof(help)),
                           "; default infinity") != NULL);
        for (size_t i = 0; i < run_keys_count(); i++)
                ASSERT_TRUE(strlen(run_key_help(run_key_at(i), help, sizeof(help))) < sizeof(help) - 1);
}

/* --- Round trips --------------------------------------------------------------------------------------- */

/* Texts that a kind takes, and some that it refuses; "" ends. */
struct samples {
        const char *good[4], *bad[12];
};

static void samples_of(const struct run_key *k, struct samples *ret) {
        static char bounds[6][32], word[32];
        static char long_text[5000];

        memset(long_text, 'a', sizeof(long_text) - 1);
        (void) snprintf(bounds[0], 32, "%" PRIu64, k->least);
        (void) snprintf(bounds[1], 32, "%" PRIu64, k->most);
        (void) snprintf(bounds[2], 32, "%" PRIu64, k->most + 1);
        (void) snprintf(bounds[3], 32, "%" PRIu64 "us", k->most);
        (void) snprintf(bounds[4], 32, "%" PRIu64 "us", k->most + 1);
        (void) snprintf(bounds[5], 32, "%" PRId64, (int64_t) k->least - 1);
        switch (k->kind) {
        case RUN_KEY_NAME:
                *ret = (struct samples){ { "a", "train-7" }, { "A", "-a", "a_b", long_text } };
                return;
        case RUN_KEY_TEXT:
                *ret = (struct samples){ { "alice" }, { long_text, "a\001" } };
                return;
        case RUN_KEY_WORD:
                (void) snprintf(word, sizeof(word), "%.*s", (int) strcspn(k->words, " "), k->words);
                *ret = (struct samples){ { word, strrchr(k->words, ' ') + 1 },
                                         { "nonsense", k->words } };
                return;
        case RUN_KEY_PATH:
                *ret = (struct samples){ { "/", "/home/alice" }, { "home", "./a" } };
                return;
        case RUN_KEY_IMAGE:
                *ret = (struct samples){ { "py", "localhost/py:1", "docker.io/library/a@sha256:0f" },
                                         { "-v", "--privileged", "dir:/etc", "docker://py", "a b", "/etc",
                                           "a/../b", "py:", "a,b", long_text } };
                return;
        case RUN_KEY_NUMBER:
        case RUN_KEY_RANGE:
                *ret = (struct samples){ { bounds[0], bounds[1] },
                                         { bounds[2], bounds[5], "5x", "", "-1", "soon" } };
                return;
        case RUN_KEY_SPAN:
                *ret = (struct samples){ { "1s", bounds[3] }, { bounds[4], "soon", "-1s" } };
                return;
        case RUN_KEY_BYTES:
                *ret = (struct samples){ { "1", "64G", "infinity" }, { "0", "much", "-1" } };
                return;
        case RUN_KEY_FLAG:
                *ret = (struct samples){ { "yes" }, { "maybe" } };
                return;
        case RUN_KEY_NUMBERS:
                *ret = (struct samples){ { "0", "0-3,8" }, { "0-", "8192", "a" } };
                return;
        case RUN_KEY_DEVICES:
                *ret = (struct samples){ { "tpu", "any", "/dev/net/tun,char-nvidia" }, { "gpu", "/etc/x" } };
                return;
        case RUN_KEY_PREEMPT:
                *ret = (struct samples){ { "TERM", "none", "/bin/true now" }, { "KILL", "true", "" } };
                return;
        case RUN_KEY_EXPRESSION:
                *ret = (struct samples){ { "^batch #([0-9]+)" }, { "(", "no group" } };
                return;
        case RUN_KEY_VARIABLES:
                *ret = (struct samples){ { "A=1 2", "B=" }, { "A", "1=2", "=x" } };
                return;
        case RUN_KEY_COMMAND:
                *ret = (struct samples){ { "python3" }, { "" } };
                return;
        case RUN_KEY_NAMES:
                *ret = (struct samples){ { "s0,s1" }, { "a b", "s0,s0", "" } };
                return;
        }
}

static bool same(const Run__Spec *a, const Run__Spec *b) {
        size_t n = run__spec__get_packed_size(a), m = run__spec__get_packed_size(b);
        uint8_t *x = malloc(n + 1), *y = malloc(m + 1);
        bool equal = run__spec__pack(a, x) == run__spec__pack(b, y) && n == m && memcmp(x, y, n) == 0;

        free(x);
        free(y);
        return equal;
}

static int by_file(const struct run_key *k, const char *text, Run__Spec *s, char why[static RUN_WHY_MAX]) {
        char name[RUN_KEY_TEXT_MAX], file[6000];

        (void) snprintf(file, sizeof(file), "[Run]\n%s=%s\n", run_key_ini(k, name), text);
        return run_spec_parse_file(s, "run.ini", file, strlen(file), why);
}

static void expect_round_trip(const struct run_key *k, const char *text) {
        Run__Spec *flag = run_spec_new(), *file = run_spec_new(), *wire, *back = NULL;
        char why[RUN_WHY_MAX] = "", name[RUN_KEY_TEXT_MAX];
        json_t *o;

        if (run_key_parse(k, flag, text, why) != 0)
                test_fail(__FILE__, __LINE__, "%s=%s: %s", k->name, text, why);
        ASSERT_TRUE(run_key_given(k, flag));
        if (run_key_ini(k, name) && strlen(text) < 100) {
                if (by_file(k, text, file, why) != 0)
                        test_fail(__FILE__, __LINE__, "%s=%s in a file: %s", k->name, text, why);
                ASSERT_TRUE(same(flag, file));
        }
        wire = run_spec_copy(flag); /* as a frame and a file of tpu-launchd have it */
        ASSERT_TRUE(wire && same(flag, wire));
        o = run_spec_to_json(wire);
        ASSERT_EQ(json_object_size(o), k->kind == RUN_KEY_RANGE ? 2 : 1);
        if (run_spec_from_json(o, (const char *const[]){ NULL }, &back, why) != 0)
                test_fail(__FILE__, __LINE__, "%s=%s in JSON: %s", k->name, text, why);
        ASSERT_TRUE(same(flag, back));
        json_decref(o);
        run_key_unset(k, back);
        ASSERT_TRUE(!run_key_given(k, back));
        (void) run_spec_free(flag);
        (void) run_spec_free(file);
        (void) run_spec_free(wire);
        (void) run_spec_free(back);
}

static void test_round_trips(void) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                struct samples s;

                samples_of(run_key_at(i), &s);
                for (size_t g = 0; g < ELEMENTSOF(s.good) && s.good[g]; g++)
                        expect_round_trip(run_key_at(i), s.good[g]);
        }
}

/* The same text by JSON, unparsed: NULL where a text is no value of JSON's. */
static json_t *json_of(const struct run_key *k, const char *text) {
        char *end;
        long long n = strtoll(text, &end, 10);

        if (k->kind == RUN_KEY_NAMES)
                return NULL; /* lists are not written so */
        if (run_key_is_list(k))
                return json_pack("{s:[s]}", k->name, text);
        if (run_key_is_text(k))
                return json_pack("{s:s}", k->name, text);
        if (text[0] && (!*end || streq(end, "us")))
                return json_pack("{s:I}", k->name, (json_int_t) n);
        return NULL;
}

static const char *without_line(const char *why) {
        const char *at = strstr(why, "run.ini:2: ");

        return at ? at + strlen("run.ini:2: ") : why;
}

/* One mistake, one message: by flag, file, JSON, and in a frame. */
static void expect_refused(const struct run_key *k, const char *text) {
        Run__Spec *flag = run_spec_new(), *file = run_spec_new(), *back = NULL;
        char first[RUN_WHY_MAX] = "", why[RUN_WHY_MAX] = "", name[RUN_KEY_TEXT_MAX];
        json_t *o = json_of(k, text);

        if (run_key_parse(k, flag, text, first) != -EINVAL)
                test_fail(__FILE__, __LINE__, "%s takes '%.40s'", k->name, text);
        ASSERT_TRUE(first[0] != '\0');
        if (run_key_ini(k, name) && strlen(text) < 100 && text[0] != '\001' && !strchr(text, '\001')) {
                ASSERT_EQ(by_file(k, text, file, why), -EINVAL);
                ASSERT_STREQ(without_line(why), first);
        }
        if (o && run_spec_from_json(o, NULL, &back, why) != -EINVAL)
                test_fail(__FILE__, __LINE__, "%s takes '%.40s' in JSON", k->name, text);
        if (o && strtoll(text, NULL, 10) >= 0 && !strstr(text, "us"))
                ASSERT_STREQ(why, first);
        /* a frame's is bounded, and never compiled: tpu-launchd is root */
        if (k->kind == RUN_KEY_EXPRESSION) {
                ASSERT_EQ(run_key_check_written(k, flag, why), -EINVAL);
                ASSERT_STREQ(why, first);
                ASSERT_EQ(run_key_check(k, flag, why),
                          strlen(text) > k->most || strchr(text, '\001') ? -EINVAL : 0);
        } else if (run_key_is_text(k) || run_key_is_list(k)) {
                /* what a frame can hold: it was set before it was looked at */
                ASSERT_EQ(run_spec_check(flag, RUN_HERE | RUN_SLICES, why), -EINVAL);
                ASSERT_STREQ(why, first);
        }
        json_decref(o);
        (void) run_spec_free(flag);
        (void) run_spec_free(file);
}

static void test_mistakes(void) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                struct samples s;

                samples_of(run_key_at(i), &s);
                for (size_t b = 0; b < ELEMENTSOF(s.bad) && s.bad[b]; b++)
                        expect_refused(run_key_at(i), s.bad[b]);
        }
}

/* A frame's numbers are bounded as a flag's are. */
static void test_bounds_of_frames(void) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);
                Run__Spec *s = run_spec_new();
                char why[RUN_WHY_MAX];

                if (!run_key_is_text(k) && !run_key_is_list(k) && k->most > 0 && k->most < UINT32_MAX) {
                        run_key_set_number(k, s, k->most);
                        ASSERT_OK(run_key_check(k, s, why));
                        run_key_set_number(k, s, k->most + 1);
                        ASSERT_EQ(run_spec_check(s, RUN_HERE | RUN_SLICES, why), -EINVAL);
                        ASSERT_TRUE(startswith(why, k->name));
                }
                (void) run_spec_free(s);
        }
}

/* --- A run --------------------------------------------------------------------------------------------- */

static const char file[] = "# what to run\n[Run]\nName=run1\nFramework=jax\nSlices=1:2\nOn=s0,s1\n"
                           "Wait=5min\nMemoryTotal=80G\n"
                           "Env=A=1 2\nEnv=B=\nCommand=python3 \"train it.py\" --steps=10\n"
                           "Argument=  and \"this\" \n";

static void test_flags_stand_before_the_file(void) {
        _cleanup_(run_spec_freep) Run__Spec *s = run_spec_new();
        char why[RUN_WHY_MAX] = "";

        ASSERT_OK(run_key_parse(run_key_find("name"), s, "other", why));
        ASSERT_OK(run_key_parse(run_key_find("env"), s, "A=mine", why));
        ASSERT_OK(run_key_parse(run_key_find("env"), s, "C=3", why));
        ASSERT_OK(run_spec_parse_file(s, "run.ini", file, strlen(file), why));
        ASSERT_STREQ(s->name, "other");
        ASSERT_STREQ(s->framework, "jax");
        ASSERT_EQ(s->min, 1);
        ASSERT_EQ(s->max, 2);
        ASSERT_EQ(s->n_slices, 2);
        ASSERT_EQ(s->n_argv, 4);
        ASSERT_STREQ(s->argv[1], "train it.py");
        ASSERT_STREQ(s->argv[3], "and \"this\"");
        ASSERT_EQ(s->n_env, 4);
        ASSERT_STREQ(s->env[2], "A=mine"); /* the later counts */
        ASSERT_STREQ(s->env[3], "C=3");
        ASSERT_TRUE(run_spec_is_over_slices(s));
        ASSERT_EQ(run_spec_check(s, RUN_SLICES, why), -EINVAL);
        ASSERT_STREQ(why, "user is missing: a run is started as that user");
}

static void test_a_command_of_flags_stands_for_the_files(void) {
        _cleanup_(run_spec_freep) Run__Spec *s = run_spec_new();
        char why[RUN_WHY_MAX] = "";

        ASSERT_OK(run_key_append(run_key_find("argv"), s, "sh"));
        ASSERT_OK(run_spec_parse_file(s, "run.ini", file, strlen(file), why));
        ASSERT_EQ(s->n_argv, 1);
}

static void test_bad_files(void) {
        static const struct {
                const char *text, *why;
        } files[] = {
                { "[Runs]\nName=a\n", "run.ini:2: section [Runs]: there is only [Run]" },
                { "[Run]\nNmae=a\n", "run.ini:2: there is no key Nmae=" },
                { "[Run]\nMax=2\n", "run.ini:2: there is no key Max=" },
                { "[Run]\n\nCommand=a \"b\n", "run.ini:3: a quote is not closed" },
                { "[Run]\nno sense\n", "run.ini:2: " },
        };

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_(run_spec_freep) Run__Spec *s = run_spec_new();
                char why[RUN_WHY_MAX] = "";

                ASSERT_EQ(run_spec_parse_file(s, "run.ini", files[i].text, strlen(files[i].text), why),
                          -EINVAL);
                ASSERT_TRUE(startswith(why, files[i].why));
        }
}

static void test_what_a_run_must_have(void) {
        static const struct {
                const char *json;
                unsigned who;
                const char *why;
        } runs[] = {
                { "{}", RUN_HERE, "argv is missing: no command was given" },
                { "{\"argv\":[\"a\"]}", RUN_SLICES, "name is missing" },
                { "{\"argv\":[\"a\"],\"name\":\"n\"}", RUN_SLICES, "user is missing" },
                { "{\"argv\":[\"a\"],\"name\":\"n\",\"user\":\"root\"}", RUN_SLICES, "user is root" },
                { "{\"argv\":[\"a\"],\"name\":\"n\",\"user\":\"00\"}", RUN_SLICES, "user is root" },
                { "{\"argv\":[\"a\"],\"wait\":1}", RUN_HERE,
                  "wait is for runs over slices (--slices, --on)" },
                { "{\"argv\":[\"a\"],\"share_devices\":true}", RUN_SLICES,
                  "share_devices is for runs of one host" },
                { "{\"argv\":[\"a\"],\"name\":\"n\",\"user\":\"u\",\"min\":2,\"max\":1}", RUN_SLICES,
                  "min 2 is above max 1" },
                { "{\"argv\":[\"a\"],\"name\":\"n\",\"user\":\"u\",\"max\":3,\"slices\":[\"a\",\"b\"]}",
                  RUN_SLICES, "max 3 is above" },
                { "{\"argv\":[\"a\"],\"name\":\"n\",\"user\":\"u\","
                  "\"env\":[\"A=b\",\"WANDB_API_KEY=1f2e\"]}",
                  RUN_SLICES, "env: WANDB_API_KEY looks like a secret" },
                { "{\"argv\":[\"a\"],\"engine\":\"docker\"}", RUN_HERE, "engine is given, and no image" },
                { "{\"argv\":[\"a\"],\"image\":\"py\",\"malloc\":\"tcmalloc\"}", RUN_HERE,
                  "malloc tcmalloc is the host's" },
                { "{\"argv\":[\"a\"],\"image\":\"py\",\"preempt\":\"/bin/true\"}", RUN_HERE,
                  "preempt is a command of the host" },
        };

        for (size_t i = 0; i < ELEMENTSOF(runs); i++) {
                _cleanup_(run_spec_freep) Run__Spec *s = NULL;
                json_t *o = json_loads(runs[i].json, 0, NULL);
                char why[RUN_WHY_MAX] = "";

                ASSERT_OK(run_spec_from_json(o, NULL, &s, why));
                ASSERT_EQ(run_spec_check(s, runs[i].who, why), -EINVAL);
                if (!startswith(why, runs[i].why))
                        test_fail(__FILE__, __LINE__, "%s: %s", runs[i].json, why);
                json_decref(o);
        }
}

/* Names with TOKEN in them are usual, and refused by their values alone. */
static void test_no_secrets(void) {
        static const char *const env[] = { "TOKENIZERS_PARALLELISM=false", "MAX_TOKENS=4096", "HF_TOKEN=",
                                           "GOOGLE_APPLICATION_CREDENTIALS=/srv/key.json", "KEY=1e",
                                           "A=b" };
        char why[RUN_WHY_MAX];

        for (size_t i = 0; i < ELEMENTSOF(env); i++) {
                _cleanup_(run_spec_freep) Run__Spec *s = NULL;
                json_t *o = json_pack("{s:s, s:s, s:[s], s:[s]}", "name", "n", "user", "u", "argv", "a",
                                      "env", env[i]);

                ASSERT_OK(run_spec_from_json(o, NULL, &s, why));
                ASSERT_EQ(run_spec_check(s, RUN_SLICES, why), streq(env[i], "KEY=1e") ? -EINVAL : 0);
                json_decref(o);
        }
}

static void test_unknown_members(void) {
        static const char *const others[] = { "v", NULL };
        _cleanup_(run_spec_freep) Run__Spec *s = NULL;
        json_t *o = json_loads("{\"v\":1,\"colour\":\"red\",\"argv\":[\"a\"]}", 0, NULL);
        char why[RUN_WHY_MAX] = "";

        ASSERT_EQ(run_spec_from_json(o, others, &s, why), -EINVAL);
        ASSERT_STREQ(why, "'colour' is no key of a run");
        ASSERT_OK(run_spec_from_json(o, NULL, &s, why)); /* of a later version's record */
        json_decref(o);
}

TEST_MAIN(test_rows_are_fields, test_defaults_are_in_bounds, test_words_of_others, test_names,
          test_round_trips, test_mistakes,
          test_bounds_of_frames, test_flags_stand_before_the_file,
          test_a_command_of_flags_stands_for_the_files, test_bad_files,
          test_what_a_run_must_have, test_no_secrets, test_unknown_members)
