/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "texts.h"
#include "topology.h"

static int refuse_world(char why[static ENVIRONMENT_WHY_MAX], const char *text) {
        return text_fail(why, ENVIRONMENT_WHY_MAX, -EINVAL, "the run's hosts do not fit together: %s", text);
}

/* The registry's word is checked as anybody's: what is in here goes into variables. */
static int check_gang(const struct environment_gang *g, char why[static ENVIRONMENT_WHY_MAX]) {
        if (g->n_slices == 0 || g->slice >= g->n_slices)
                return refuse_world(why, "this slice is none of its slices");
        for (size_t s = 0; s < g->n_slices; s++) {
                if (!slice_name_is_valid(g->slices[s]))
                        return refuse_world(why, "a slice without a good name");
                if (g->sizes[s] == 0 || g->sizes[s] > IDENTITY_HOSTS_MAX)
                        return refuse_world(why,
                                            "a slice without hosts, or with more than a slice can have");
                if (g->sizes[s] != g->sizes[0])
                        return refuse_world(why, "its slices have different numbers of hosts");
        }
        for (size_t h = 0; h < g->sizes[g->slice]; h++)
                if (!worker_name_is_valid(g->hosts[h], strlen(g->hosts[h])))
                        return refuse_world(why, "a host without a good name or address");
        if (!g->coordinator && g->slice > 0)
                return refuse_world(why, "nobody names the coordinator");
        if (g->worker >= g->sizes[g->slice])
                return refuse_world(why, "this host is none of its slice's hosts");
        if (g->coordinator && !worker_name_is_valid(g->coordinator, strlen(g->coordinator)))
                return refuse_world(why, "the coordinator has no good name or address");
        return 0;
}

static int join_hosts(const char *const *hosts, size_t n, char **ret) {
        size_t size = 1;
        char *text, *at;

        for (size_t h = 0; h < n; h++)
                size += strlen(hosts[h]) + 1;
        text = at = malloc(size);
        if (!text)
                return -ENOMEM;
        for (size_t h = 0; h < n; h++)
                at = stpcpy(stpcpy(at, h > 0 ? "," : ""), hosts[h]);
        *ret = text;
        return 0;
}

static int from_gang(const struct environment_gang *g, struct world *w) {
        const char *mine = g->slices[g->slice];
        char from[WORLD_REASON_MAX];

        w->size = 0;
        w->n_slices = g->n_slices;
        w->slice = g->slice;
        w->n_hosts = g->sizes[g->slice];
        w->worker = g->worker;
        for (size_t s = 0; s < g->n_slices; s++) {
                w->rank += s < g->slice ? g->sizes[s] : 0;
                w->size += g->sizes[s];
        }
        w->rank += g->worker;
        w->known = true;
        w->slice_name = mine;
        (void) snprintf(w->coordinator, sizeof(w->coordinator), "%s",
                        g->coordinator ? g->coordinator : g->hosts[0]);
        (void) snprintf(from, sizeof(from), "run %.48s, generation %" PRIu64, g->run ? g->run : "?",
                        g->generation);
        (void) snprintf(w->name_reason, sizeof(w->name_reason), "%.120s: its slice %zu of %zu", from,
                        g->slice, g->n_slices);
        (void) snprintf(w->slice_reason, sizeof(w->slice_reason), "%.120s: slice %zu of %zu", from, g->slice,
                        g->n_slices);
        (void) snprintf(w->worker_reason, sizeof(w->worker_reason), "%.120s: worker %zu of slice %.63s",
                        from, g->worker, mine);
        (void) snprintf(w->hosts_reason, sizeof(w->hosts_reason), "%.120s: the hosts of slice %.63s", from,
                        mine);
        return join_hosts(g->hosts, w->n_hosts, &w->hosts);
}

/* --- From the identity --------------------------------------------------------------------------------- */

static void reason_of(const struct identity *i, enum identity_field f, char buf[static WORLD_REASON_MAX]) {
        (void) snprintf(buf, WORLD_REASON_MAX, "%s from %s", identity_field_name(f), i->fields[f].origin);
}

/* Several slices, as the metadata server says it of queued resources: all alike. */
static void add_slices(const struct identity *i, struct world *w) {
        const char *coordinator = identity_get(i, IDENTITY_COORDINATOR), *host;
        uint32_t n, id;
        size_t len;

        if (identity_get_u32(i, IDENTITY_SLICES, &n) < 0 ||
            identity_get_u32(i, IDENTITY_SLICE_ID, &id) < 0 || n < 2 || id >= n || !coordinator)
                return;
        w->n_slices = n;
        w->slice = id;
        w->rank = id * w->n_hosts + w->worker;
        w->size = n * w->n_hosts;
        host = identity_host_of(coordinator, strlen(coordinator), &len);
        (void) snprintf(w->coordinator, sizeof(w->coordinator), "%.*s",
                        (int) MIN(len, sizeof(w->coordinator) - 1), host);
        reason_of(i, IDENTITY_SLICE_ID, w->slice_reason);
        reason_of(i, IDENTITY_COORDINATOR, w->coordinator_reason);
}

static int from_identity(const struct identity *i, struct world *w) {
        enum identity_field words = identity_workers(i);
        const char *hosts = identity_get(i, words), *bounds = identity_get(i, IDENTITY_HOST_BOUNDS);
        uint32_t worker;

        w->alone = bounds && streq(bounds, "1,1,1");
        w->slice_name = identity_get(i, IDENTITY_SLICE_NAME);
        reason_of(i, IDENTITY_SLICE_NAME, w->name_reason);
        reason_of(i, IDENTITY_WORKER_ID, w->worker_reason);
        reason_of(i, words, w->hosts_reason);
        if (hosts) {
                w->hosts = strdup(hosts);
                if (!w->hosts)
                        return -ENOMEM;
                w->n_hosts = w->size = identity_count(i, words);
                (void) snprintf(w->coordinator, sizeof(w->coordinator), "%.*s",
                                (int) MIN(strcspn(hosts, ","), sizeof(w->coordinator) - 1), hosts);
        } else if (w->alone) {
                (void) snprintf(w->coordinator, sizeof(w->coordinator), "localhost");
                (void) snprintf(w->coordinator_reason, sizeof(w->coordinator_reason), WORLD_ALONE);
        }
        if (identity_get_u32(i, IDENTITY_WORKER_ID, &worker) == 0) {
                w->worker = w->rank = worker;
                w->known = hosts != NULL;
        }
        if (w->known || (w->alone && !hosts))
                add_slices(i, w);
        return 0;
}

int world_of(const struct identity *i, const struct environment_options *o, uint16_t framework_port,
             struct world *ret, char why[static ENVIRONMENT_WHY_MAX]) {
        _cleanup_world_ struct world w = WORLD_NULL;
        int r;

        if (o->gang) {
                r = check_gang(o->gang, why);
                if (r < 0)
                        return r;
        }
        r = o->gang ? from_gang(o->gang, &w) : from_identity(i, &w);
        if (r < 0)
                return r;
        w.port = o->gang && o->gang->port > 0 ? o->gang->port : framework_port;
        if (!w.coordinator_reason[0])
                (void) snprintf(w.coordinator_reason, sizeof(w.coordinator_reason), "worker 0 of slice 0");
        *ret = w;
        w.hosts = NULL;
        return 0;
}

void world_clear(struct world *w) {
        free(w->hosts);
        *w = WORLD_NULL;
}

const char *world_endpoint(const char *host, uint16_t port, char buf[static WORLD_ENDPOINT_MAX]) {
        bool six = strchr(host, ':');

        (void) snprintf(buf, WORLD_ENDPOINT_MAX, "%s%.253s%s:%u", six ? "[" : "", host, six ? "]" : "",
                        (unsigned) port);
        return buf;
}
