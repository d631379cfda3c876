/* SPDX-License-Identifier: Apache-2.0 */
#include "check_agent.h"

#include "hostd.h"
#include "screen.h"
#include "utf8.h"

#define ANSWER_TIME (3 * USEC_PER_SEC)
#define PREFIX CHECK_AGENT "_"

bool check_agent_is(const char *name) {
        return streq(name, CHECK_AGENT) || startswith(name, PREFIX);
}

static void take_text(const json_t *o, const char *key, char *field, size_t size) {
        char text[FIELD_TEXT_MAX];

        finding_format(field, size, "%s", field_text(o, key, text));
        (void) utf8_scrub(field, strlen(field));
}

static void take(const json_t *o, const char *only, struct seen *ret) {
        const char *check = json_string_value(json_object_get(o, "check")),
                   *verdict = json_string_value(json_object_get(o, "verdict"));
        struct finding f;

        if (!check || !startswith(check, PREFIX) || (only && !streq(only, check)))
                return;
        finding_init(&f, check, "");
        (void) utf8_scrub(f.check, strlen(f.check));
        if (verdict)
                (void) verdict_parse(verdict, &f.verdict); /* a word of a later version is UNKNOWN */
        take_text(o, "subject", f.subject, sizeof(f.subject));
        take_text(o, "found", f.found, sizeof(f.found));
        take_text(o, "wanted", f.wanted, sizeof(f.wanted));
        take_text(o, "source", f.source, sizeof(f.source));
        take_text(o, "reason", f.reason, sizeof(f.reason));
        take_text(o, "remedy", f.remedy, sizeof(f.remedy));
        seen_add(ret, GROUP_BPF, NULL, &f);
}

static void say_nothing_known(const struct problem *p, struct seen *ret) {
        struct finding f;

        finding_init(&f, CHECK_AGENT, "");
        finding_set(f.found, "nothing");
        finding_set(f.reason, "only tpu-hostd knows: %s", p->text);
        finding_set(f.remedy, "%s", p->remedy);
        seen_add(ret, GROUP_BPF, NULL, &f);
}

void check_agent(const char *root, const char *only, bool asked, struct seen *ret) {
        struct problem problem = { 0 };
        json_t *answer = NULL;
        const json_t *o;
        int r = hostd_ask(root, "/v1/checks", false, ANSWER_TIME, &answer, &problem);
        size_t i;

        json_array_foreach(json_object_get(answer, "checks"), i, o)
                take(o, only, ret);
        if (r < 0 && asked)
                say_nothing_known(&problem, ret);
        json_decref(answer);
}

enum verdict check_agent_worst(const struct finding_list *l) {
        enum verdict worst = VERDICT_OK;

        for (size_t i = 0; i < l->n; i++)
                if (!check_agent_is(l->items[i].check))
                        worst = verdict_worse(worst, l->items[i].verdict);
        return worst;
}
