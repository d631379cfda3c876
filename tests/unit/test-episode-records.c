/* SPDX-License-Identifier: Apache-2.0 */
/* Episodes as records of the registry: what goes into one, how many there are, and what another collector
 * makes of them. */
#include "episode_record.h"
#include "store-support.h"
#include "test.h"

static char dir[] = "/tmp/test-episode-records-XXXXXX";
static json_t *registry; /* what registry_keep() would have */

static struct store *opened(const char *name) {
        struct store *s = NULL;
        char aside[300], why[256];

        (void) snprintf(path, sizeof(path), "%s/%s.db", dir, name);
        ASSERT_OK(store_open(path, &s, aside, why));
        return s;
}

static int keep(const char *id, const json_t *record, void *userdata) {
        (void) userdata;
        if (!record)
                return json_object_del(registry, id);
        ASSERT_TRUE(json_dumpb(record, NULL, 0, JSON_COMPACT) < 64 * 1024);
        return json_object_set(registry, id, (json_t *) (uintptr_t) record);
}

static void begin(struct store *s, const char *id, usec_t at, const char *expected) {
        const char *slice = "s0";

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_begin_episode(s,
                                      &(struct store_episode){ .episode = id,
                                                               .run = "train",
                                                               .generation = 2,
                                                               .at = at,
                                                               .suspected = true,
                                                               .by = "h0",
                                                               .why = "no step",
                                                               .hosts = 4,
                                                               .expected = expected },
                                      &slice, 1));
        ASSERT_OK(store_commit(s));
}

static void judge(struct store *s, const char *id, const char *report) {
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_set_verdict(s, &(struct store_episode){ .episode = id,
                                                                .outcome = "named",
                                                                .summary = "slice s0, worker 2",
                                                                .report = report,
                                                                .diagnosed = 9,
                                                                .confirmed = 8 }));
        ASSERT_OK(store_commit(s));
}

static int take(struct episode_records *k, struct store *s, const char *id, const json_t *record) {
        int r;

        ASSERT_OK(store_begin(s));
        r = episode_records_take(k, id, record, NULL);
        ASSERT_OK(store_commit(s));
        return r;
}

static int on_episode(const struct store_episode *e, void *userdata) {
        ASSERT_STREQ(e->run, "train");
        ASSERT_TRUE(e->generation == 2 && e->at == 5 && e->suspected && e->hosts == 4 && e->diagnosed == 9 &&
                    e->confirmed == 8);
        ASSERT_STREQ(e->outcome, "named");
        ASSERT_STREQ(e->summary, "slice s0, worker 2");
        ASSERT_TRUE(e->expected && strstr(e->expected, "\"h1\"") && e->report && strstr(e->report, "stuck"));
        *(bool *) userdata = true;
        return 0;
}

static void another_collector_answers(void) {
        struct episodes_options o = { .store = opened("a"), .keep = keep };
        struct episode_records k;
        bool seen = false;

        registry = json_object();
        ASSERT_OK(episode_records_init(&k, &o));
        begin(o.store, "e", 5, "[{\"slice\":\"s0\",\"worker\":1,\"host\":\"h1\",\"address\":\"\"}]");
        episode_records_keep(&k, "e", "s0");
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(registry, "e"), "outcome")), "");
        judge(o.store, "e", "{\"suspects\":[\"stuck\"]}");
        episode_records_keep(&k, "e", "s0");
        ASSERT_EQ(take(&k, o.store, "e", json_object_get(registry, "e")), 0); /* its own word is no news */
        o.store = store_free(o.store);
        o.store = opened("b");
        ASSERT_EQ(take(&k, o.store, "e", json_object_get(registry, "e")), 1);
        ASSERT_EQ(take(&k, o.store, "e", json_object_get(registry, "e")), 0);
        ASSERT_OK(store_list_episodes(o.store, &(struct store_episode_filter){ .slice = "s0", .limit = 5 },
                                      on_episode, &seen));
        ASSERT_TRUE(seen);
        o.store = store_free(o.store);
        episode_records_clear(&k);
        json_decref(registry);
}

/* The tree goes first, then who was asked, then the report; the verdict's words stay. */
static void what_is_too_large_is_left_out(void) {
        struct episodes_options o = { .store = opened("large"), .keep = keep };
        json_t *report = json_object(), *expected = json_array(), *record;
        _cleanup_free_ char *long_text = calloc(1, 61 * 1024), *text = NULL, *hosts = NULL;
        struct episode_records k;

        registry = json_object();
        ASSERT_OK(episode_records_init(&k, &o));
        memset(long_text, 'x', 61 * 1024 - 1);
        for (unsigned i = 0; i < 2000; i++)
                ASSERT_OK(json_array_append_new(expected, json_pack("{s:s, s:i, s:s, s:s}", "slice",
                                                                    i < 1000 ? "s0" : "s1", "worker",
                                                                    (int) i, "host", "hhh", "address", "")));
        hosts = json_dumps(expected, JSON_COMPACT);
        begin(o.store, "e", 5, hosts);
        ASSERT_OK(json_object_set_new(report, "tree", json_string(long_text)));
        ASSERT_OK(json_object_set_new(report, "hosts", json_integer(2000)));
        text = json_dumps(report, JSON_COMPACT);
        judge(o.store, "e", text);
        episode_records_keep(&k, "e", "s0");
        record = json_object_get(registry, "e");
        ASSERT_TRUE(json_object_get(json_object_get(record, "report"), "hosts") &&
                    !json_object_get(json_object_get(record, "report"), "tree"));
        ASSERT_TRUE(!json_object_get(record, "expected"));
        ASSERT_EQ(json_array_size(json_object_get(record, "slices")), 2);
        free(text);
        ASSERT_OK(json_object_set_new(report, "hosts", json_string(long_text)));
        text = json_dumps(report, JSON_COMPACT);
        judge(o.store, "e", text);
        episode_records_keep(&k, "e", "s0");
        record = json_object_get(registry, "e");
        ASSERT_TRUE(!json_object_get(record, "report"));
        ASSERT_STREQ(json_string_value(json_object_get(record, "summary")), "slice s0, worker 2");
        json_decref(report);
        json_decref(expected);
        o.store = store_free(o.store);
        episode_records_clear(&k);
        json_decref(registry);
}

static void the_oldest_are_forgotten(void) {
        struct episodes_options o = { .store = opened("many"), .keep = keep };
        struct episode_records k;
        char id[32];

        registry = json_object();
        ASSERT_OK(episode_records_init(&k, &o));
        for (unsigned i = 0; i < EPISODES_KEPT_MAX + 10; i++) {
                (void) snprintf(id, sizeof(id), "e%u", i);
                begin(o.store, id, 100 + i, NULL);
                episode_records_keep(&k, id, "s0");
        }
        ASSERT_EQ(json_object_size(registry), EPISODES_KEPT_MAX);
        ASSERT_TRUE(!json_object_get(registry, "e9") && json_object_get(registry, "e10"));
        for (unsigned i = 0; i < 2 * EPISODES_KEPT_MAX; i++) { /* that hosts began: of those the oldest */
                (void) snprintf(id, sizeof(id), "own.x-1-%u", i);
                begin(o.store, id, 1000 + i, NULL);
                episode_records_keep(&k, id, "s0");
        }
        ASSERT_EQ(json_object_size(registry), EPISODES_KEPT_MAX);
        ASSERT_TRUE(json_object_get(registry, "e73") && json_object_get(registry, "own.x-1-127"));
        ASSERT_TRUE(json_object_get(registry, "e42") && !json_object_get(registry, "own.x-1-0"));
        o.store = store_free(o.store);
        episode_records_clear(&k);
        json_decref(registry);
}

/* Whoever may write to the registry's store. */
static void records_that_make_no_sense(void) {
        static const char *const texts[] = {
                "{}",
                "[]",
                "7",
                "{\"at\":\"x\"}",
                "{\"at\":1,\"expected\":7,\"slices\":[7],\"generation\":\"x\",\"report\":[]}",
                "{\"at\":-5,\"outcome\":\"named\",\"diagnosed\":-1,\"hosts\":-1}"
        };
        struct episodes_options o = { .store = opened("bad"), .keep = keep };
        struct episode_records k;
        char id[80];

        memset(id, 'x', sizeof(id) - 1);
        id[sizeof(id) - 1] = '\0';
        ASSERT_OK(episode_records_init(&k, &o));
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                json_t *v = json_loads(texts[i], JSON_DECODE_ANY, NULL);

                ASSERT_EQ(take(&k, o.store, "e", v), i == 4);
                ASSERT_EQ(take(&k, o.store, id, v), 0);
                ASSERT_EQ(take(&k, o.store, "", v), 0);
                json_decref(v);
        }
        ASSERT_EQ(take(&k, o.store, "e", NULL), 0);
        o.store = store_free(o.store);
        episode_records_clear(&k);
}

static void remove_directory(void) {
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf %s", dir);
        ASSERT_EQ(system(command), 0);
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir) != NULL);
}

TEST_MAIN(make_directory, another_collector_answers, what_is_too_large_is_left_out, the_oldest_are_forgotten,
          records_that_make_no_sense, remove_directory)
