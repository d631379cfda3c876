/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "state.h"

#define STEP_TIME_MAX ((int64_t) 24 * 3600 * (int64_t) USEC_PER_SEC)

struct gang_host_run *host_runs_free(struct gang_host_run *runs, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(runs[i].detail), free(runs[i].suspicion);
        free(runs);
        return NULL;
}

void said_clear(struct said *s) {
        s->runs = host_runs_free(s->runs, s->n_runs);
        s->local = host_runs_free(s->local, s->n_local);
        s->n_runs = s->n_local = 0;
}

static int check_address(const json_t *list, char why[static GANG_WHY_MAX]) {
        uint8_t bytes[sizeof(struct in6_addr)];
        size_t i;
        json_t *v;

        if (!json_is_array(list) || json_array_size(list) > MEMBER_ADDRESS_MAX)
                return why_fail(why, -EBADMSG, "\"address\" is no list of at most %d addresses",
                                MEMBER_ADDRESS_MAX);
        json_array_foreach (list, i, v) {
                const char *text = json_string_value(v);

                if (text && strlen(text) == json_string_length(v) &&
                    (inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1))
                        continue;
                return why_fail(why, -EBADMSG,
                                "\"address\" has an entry that is no IPv4 or IPv6 address: \"%.60s\"",
                                text ? text : "");
        }
        return 0;
}

int host_run_parse(const json_t *v, struct gang_host_run *ret, char why[static GANG_WHY_MAX]) {
        const char *name, *state, *cause, *code, *status, *image, *detail, *suspicion;
        int64_t generation, step, step_time, asked, suspected, since;

        if (get_text(v, "name", NAME_MAX_RUN, &name, why) < 0 || get_text(v, "state", 16, &state, why) < 0 ||
            get_text(v, "cause", sizeof(ret->cause), &cause, why) < 0 ||
            get_text(v, "code", sizeof(ret->code), &code, why) < 0 ||
            get_text(v, "status", sizeof(ret->status), &status, why) < 0 ||
            get_text(v, "image", sizeof(ret->image), &image, why) < 0 ||
            get_text(v, "detail", GANG_WHY_MAX, &detail, why) < 0 ||
            get_text(v, "suspicion", GANG_WHY_MAX, &suspicion, why) < 0 ||
            get_number(v, "suspected", 0, INT64_MAX, 0, &suspected, why) < 0 ||
            get_number(v, "since", 0, INT64_MAX, 0, &since, why) < 0 ||
            get_number(v, "generation", 0, INT64_MAX, 0, &generation, why) < 0 ||
            get_number(v, "step", -1, INT64_MAX, -1, &step, why) < 0 ||
            get_number(v, "step_time", 0, STEP_TIME_MAX, 0, &step_time, why) < 0 ||
            get_number(v, "asked", 0, UINT32_MAX, 0, &asked, why) < 0)
                return -EBADMSG;
        if (!run_name_is_valid(name) || part_state_parse(state, &ret->state) < 0)
                return why_fail(why, -EBADMSG,
                                "\"runs\": \"%.50s\" in state \"%.20s\": no name of a run, or a state that "
                                "does not exist",
                                name, state);
        if (*image && (strlen(image) != 64 || strspn(image, "0123456789abcdef") != 64))
                return why_fail(why, -EBADMSG, "\"image\" of run %s is no id of an image", name);
        ret->generation = (uint64_t) generation;
        ret->step = step;
        ret->step_time = (usec_t) step_time;
        ret->asked = (unsigned) asked;
        (void) snprintf(ret->name, sizeof(ret->name), "%s", name);
        (void) snprintf(ret->cause, sizeof(ret->cause), "%s", cause);
        (void) snprintf(ret->code, sizeof(ret->code), "%s", code);
        (void) snprintf(ret->status, sizeof(ret->status), "%s", status);
        (void) snprintf(ret->image, sizeof(ret->image), "%s", image);
        ret->suspected = (usec_t) suspected;
        ret->since = (usec_t) since;
        ret->may_be_pause = json_is_true(json_object_get(v, "may_be_pause"));
        ret->detail = *detail ? strdup(detail) : NULL;
        ret->suspicion = *suspicion ? strdup(suspicion) : NULL;
        return (*detail && !ret->detail) || (*suspicion && !ret->suspicion) ? -ENOMEM : 0;
}

static int parse_runs(const json_t *list, struct gang_host_run **ret, size_t *ret_n,
                      char why[static GANG_WHY_MAX]) {
        size_t n = json_array_size(list);
        int r;

        if (list && (!json_is_array(list) || n > MEMBER_RUNS_MAX))
                return why_fail(why, -EBADMSG, "\"runs\" is no list of at most %d runs", MEMBER_RUNS_MAX);
        if (n == 0)
                return 0;
        *ret = calloc(n, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;
        for (; *ret_n < n; (*ret_n)++) {
                r = host_run_parse(json_array_get(list, *ret_n), &(*ret)[*ret_n], why);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_names(const struct said *s, char why[static GANG_WHY_MAX]) {
        if (!name_is_host(s->slice))
                why_set(why, "\"slice\" is \"%.70s\", which is no name", s->slice);
        else if (!name_is_host(s->host))
                why_set(why, "\"host\" is \"%.70s\", which is no name", s->host);
        else if (!*s->id || !*s->incarnation)
                why_set(why, "\"%s\" is missing", *s->id ? "incarnation" : "id");
        else if (s->hosts > 0 && s->worker >= s->hosts)
                why_set(why, "worker %u of a slice of %u hosts: ids begin at 0", s->worker, s->hosts);
        else if (*s->notice && !streq(s->notice, "preemption") && !streq(s->notice, "maintenance"))
                why_set(why, "\"notice\" is \"%.40s\": neither preemption nor maintenance", s->notice);
        else
                return 0;
        return -EBADMSG;
}

static int check_pairs(const json_t *v, char why[static GANG_WHY_MAX]) {
        const json_t *received = json_object_get(v, "received");
        const char *text;

        if (!v || (json_is_object(v) && get_text(v, "why", GANG_WHY_MAX, &text, why) >= 0 &&
                   (!received || json_is_array(received)) && json_array_size(received) <= MEMBER_PAIRS_MAX))
                return 0;
        return why_fail(why, -EBADMSG, "\"pairs\" has no \"why\", or no list of at most %d \"received\"",
                        MEMBER_PAIRS_MAX);
}

int said_parse(const json_t *m, struct said *ret, char why[static GANG_WHY_MAX]) {
        struct said s = { .address = json_object_get(m, "address"),
                          .next = json_object_get(m, "next"),
                          .pairs = json_object_get(m, "pairs") };
        int64_t worker, hosts;
        int r;

        if (check_version(m, "a member", why) < 0 ||
            get_text(m, "slice", NAME_MAX_HOST, &s.slice, why) < 0 ||
            get_text(m, "host", NAME_MAX_HOST, &s.host, why) < 0 || get_text(m, "id", 128, &s.id, why) < 0 ||
            get_text(m, "machine", 64, &s.machine, why) < 0 ||
            get_text(m, "incarnation", 40, &s.incarnation, why) < 0 ||
            get_text(m, "state", 32, &s.state, why) < 0 ||
            get_text(m, "reasons", 8 * 1024, &s.reasons, why) < 0 ||
            get_text(m, "orders", 1024, &s.orders, why) < 0 ||
            get_text(m, "notice", 32, &s.notice, why) < 0 ||
            get_number(m, "worker", 0, GANG_HOSTS_MAX - 1, -1, &worker, why) < 0 ||
            get_number(m, "hosts", 0, GANG_HOSTS_MAX, 0, &hosts, why) < 0 ||
            check_address(s.address, why) < 0 || check_pairs(s.pairs, why) < 0)
                return -EBADMSG;
        if (worker < 0)
                return why_fail(why, -EBADMSG, "\"worker\" is missing");
        s.worker = (unsigned) worker;
        s.hosts = (unsigned) hosts;
        s.observe = json_is_true(json_object_get(m, "observe"));
        s.proved = json_is_true(json_object_get(m, "proved"));
        s.given = json_is_true(json_object_get(m, "given"));
        s.runs_unknown = json_is_false(json_object_get(m, "runs_known"));
        r = check_names(&s, why);
        if (r >= 0)
                r = parse_runs(json_object_get(m, "runs"), &s.runs, &s.n_runs, why);
        if (r >= 0)
                r = parse_runs(json_object_get(m, "local"), &s.local, &s.n_local, why);
        if (r < 0) {
                said_clear(&s);
                return r;
        }
        *ret = s;
        return 0;
}
