/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_agents.h"
#include "table.h"

#define ASKED_MAX 32 /* peers: more do not fit on a screen, and show the same */
#define PATIENCE (3 * USEC_PER_SEC)
#define SEGMENT 1000 /* bytes of TCP payload: a packet of less than 1280 */

void ctl_reports_clear(struct ctl_reports *l) {
        for (size_t i = 0; i < l->n; i++)
                path_report_clear(&l->items[i]);
        free(l->items);
}

int ctl_reports_add(struct ctl_reports *l, const char *text, size_t len,
                    char why[static PATH_REPORT_WHY_MAX]) {
        size_t at = 0, used;
        int r;

        do {
                struct path_report *items = reallocarray(l->items, l->n + 1, sizeof(*items));

                if (!items) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "%s", strerror(ENOMEM));
                        return -ENOMEM;
                }
                l->items = items;
                if (l->n == REPORTS_MAX) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "holds too many reports");
                        return -E2BIG;
                }
                r = path_report_parse(text + at, len - at, &items[l->n], &used, why);
                if (r < 0)
                        return r;
                l->n++;
                for (at += used; at < len && strchr(" \t\r\n", text[at]) && text[at]; at++)
                        ;
        } while (at < len);
        return 0;
}

void peer_agents_name(const struct path_result *r, char ret[static PATH_NAME_MAX]) {
        size_t name = strlen(r->peer), nic = strlen(r->nic);

        (void) snprintf(ret, PATH_NAME_MAX, "%s", r->peer);
        if (name > nic + 1 && nic > 0 && ret[name - nic - 1] == '-' && streq(ret + name - nic, r->nic))
                ret[name - nic - 1] = '\0';
}

/* Of whom no packet comes, no answer comes. */
static bool wants_the_peers_word(const struct path_result *r) {
        return r->proof.answer == PROOF_SMALLER || r->proof.answer == PROOF_PIECES;
}

/* What another host says is a stranger's text. */
static void complain(const char *name, const char *what, const char *why) {
        fprintf(stderr, "tpuctl check: the agent of %s %s: ", name, what);
        print_clean(stderr, why, false);
        fputc('\n', stderr);
}

static int ask(const struct ctl_certificates *c, const char *name, struct ctl_reports *ret) {
        struct http_request q = { .timeout = PATIENCE, .segment = SEGMENT };
        char url[AGENT_URL_MAX], why[PATH_REPORT_WHY_MAX];
        struct problem problem;
        json_t *answer = NULL;
        char *text;
        int r;

        agent_request(c, name, "/v1/path", url, &q);
        r = http_json(&q, &answer, &problem);
        if (r < 0) {
                complain(name, "gives no report", problem.text);
                return r;
        }
        text = json_dumps(answer, JSON_COMPACT);
        json_decref(answer);
        r = text ? ctl_reports_add(ret, text, strlen(text), why) : -ENOMEM;
        if (r < 0)
                complain(name, "gives a report that is none", text ? why : strerror(ENOMEM));
        free(text);
        return r;
}

int peer_agents_ask(const struct options *o, const struct path_report *own, struct ctl_reports *ret) {
        char asked[ASKED_MAX][PATH_NAME_MAX], name[PATH_NAME_MAX];
        struct ctl_settings s;
        size_t n = 0;
        int r;

        r = ctl_settings_load(o, &s);
        if (r < 0 || !s.agents.certificate[0])
                return r;
        for (size_t i = 0; i < own->n_results && n < ASKED_MAX; i++) {
                size_t k = 0;

                if (!wants_the_peers_word(&own->results[i]))
                        continue;
                peer_agents_name(&own->results[i], name);
                while (k < n && !streq(asked[k], name))
                        k++;
                if (k < n)
                        continue;
                memcpy(asked[n++], name, sizeof(name));
                (void) ask(&s.agents, name, ret); /* it has said why */
        }
        return 0;
}
