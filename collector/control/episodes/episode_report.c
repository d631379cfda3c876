/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_report.h"

#include "capture_read.h"
#include "diagnosis_print.h"
#include "json_text.h"
#include "log.h"
#include "store_episodes.h"

struct reading {
        struct scene *scene;
        json_t *expected; /* host -> its entry; NULL: whoever answers is one */
        uint64_t captures, unusable;
        uint64_t slice_hosts; /* as the hosts know; when there is one slice */
        char slice[64];
        bool slices;
};

/* Who it is, the sender's resource and the registry say; what the bytes say of that counts for nothing. */
static int name_capture(struct reading *r, const struct store_capture *s, struct host_capture *c) {
        const json_t *e = r->expected ? json_object_get(r->expected, s->host) : NULL;
        const char *slice = json_string_value(json_object_get(e, "slice"));

        if (r->expected && (!e || !slice || !streq(slice, s->slice) ||
                            json_integer_value(json_object_get(e, "worker")) != s->worker_id))
                return -ENOENT;
        (void) snprintf(c->slice, sizeof(c->slice), "%s", s->slice);
        (void) snprintf(c->host, sizeof(c->host), "%s", s->host);
        c->worker = s->worker_id >= 0 && s->worker_id < CAPTURE_WORKER_NONE ? (uint32_t) s->worker_id
                                                                            : CAPTURE_WORKER_NONE;
        c->round = s->round;
        c->silent = false;
        if (json_string_value(json_object_get(e, "address")))
                (void) snprintf(c->address, sizeof(c->address), "%s",
                                json_string_value(json_object_get(e, "address")));
        return 0;
}

static int on_capture(const struct store_capture *s, void *userdata) {
        _cleanup_host_capture_ struct host_capture c;
        struct reading *r = userdata;
        char why[CAPTURE_WHY_MAX];
        int k = capture_read(s->data, s->len, CAPTURE_DIAGNOSED, &c, &r->scene->table, why);

        if (k < 0 && k != -ENOMEM)
                log_warning("the capture of host %s, episode %s, is of no use: %s", s->host, s->episode,
                            why);
        if (k == 0)
                k = name_capture(r, s, &c);
        if (k == -ENOMEM)
                return k;
        if (k < 0) { /* one host's damage is not the others' */
                r->unusable++;
                return 0;
        }
        r->slices = r->slices || (r->slice[0] && !streq(r->slice, s->slice));
        (void) snprintf(r->slice, sizeof(r->slice), "%s", s->slice);
        r->slice_hosts = MAX(r->slice_hosts, s->slice_hosts);
        r->captures++;
        return scene_add(r->scene, &c);
}

/* All who were asked: that they did not answer counts where there is no capture of theirs. */
static int add_silent(struct reading *r) {
        const char *host;
        json_t *e;
        int k = 0;

        json_object_foreach (r->expected, host, e) {
                _cleanup_host_capture_ struct host_capture c;

                host_capture_init(&c);
                if (k < 0)
                        continue;
                (void) snprintf(c.slice, sizeof(c.slice), "%s", json_text_of(e, "slice"));
                (void) snprintf(c.host, sizeof(c.host), "%s", host);
                (void) snprintf(c.address, sizeof(c.address), "%s", json_text_of(e, "address"));
                c.worker = (uint32_t) json_integer_value(json_object_get(e, "worker"));
                c.silent = true;
                k = scene_add(r->scene, &c);
        }
        return k;
}

static int on_episode(const struct store_episode *e, void *userdata) {
        struct reading *r = userdata;
        json_t *list = e->expected ? json_loads(e->expected, 0, NULL) : NULL, *v;
        size_t i;

        r->expected = list ? json_object() : NULL;
        json_array_foreach (list, i, v) {
                const char *host = json_string_value(json_object_get(v, "host"));

                if (host)
                        (void) json_object_set(r->expected, host, v); /* out of memory: not believed */
        }
        json_decref(list);
        return 1;
}

static int print_report(const struct reading *r, const struct diagnosis *d, FILE *f) {
        json_auto_t *v = diagnosis_to_json(d, false);
        _cleanup_free_ char *text = NULL;
        int k = 0;

        if (v && (json_object_set_new(v, "captures", json_integer((json_int_t) r->captures)) < 0 ||
                  json_object_set_new(v, "unusable", json_integer((json_int_t) r->unusable)) < 0))
                k = -ENOMEM;
        if (v && k == 0)
                text = json_dumps(v, JSON_COMPACT);
        if (text && strlen(text) > REPORT_MAX && json_object_del(v, "tree") == 0) {
                free(text);
                text = json_dumps(v, JSON_COMPACT);
        }
        if (!text)
                k = -ENOMEM;
        else if (fputs(text, f) < 0 || fflush(f) != 0)
                k = -EIO;
        return k;
}

static int diagnose_episode(struct store *s, const char *episode, struct reading *r, FILE *f) {
        _cleanup_(diagnosis_freep) struct diagnosis *d = NULL;
        struct diagnose_options o = { 0 };
        int k = store_list_captures(s, episode, 0, on_capture, r);

        if (k == 0)
                k = add_silent(r);
        if (k < 0)
                return k;
        if (!r->expected && !r->slices && r->slice_hosts <= SCENE_HOSTS_MAX)
                o.hosts = (uint32_t) r->slice_hosts;
        k = diagnose(r->scene, &o, &d);
        return k < 0 ? k : print_report(r, d, f);
}

int episode_report(const char *database, const char *episode, FILE *f, char why[static 256]) {
        const struct store_episode_filter filter = { .episode = episode, .limit = 1 };
        _cleanup_(store_freep) struct store *s = NULL;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct reading r = { .scene = &scene };
        int k = store_open_reading(database, &s, why);

        if (k < 0)
                return k;
        k = store_list_episodes(s, &filter, on_episode, &r);
        if (k > 0)
                k = diagnose_episode(s, episode, &r, f);
        else if (k == 0)
                k = -ENOENT;
        if (k < 0)
                (void) snprintf(why, 256, "%.120s: episode %.64s: %s", database, episode, strerror(-k));
        json_decref(r.expected);
        return k;
}
