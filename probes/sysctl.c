/* SPDX-License-Identifier: Apache-2.0 */
/* Every sysctl that the profile wants: its value as the kernel has it. */
#include "intent.h"
#include "words.h"

static void check(const struct host *h, const struct intent_sysctl *w, struct sink *s) {
        char value[256] = "";
        struct finding f;
        int r;

        r = intent_read_sysctl(h, w->name, value, sizeof(value));
        intent_judge_sysctl(w, value, r, &f); /* the same words as tpu-netcfg's */
        (void) make_printable(f.found);
        if (f.verdict == VERDICT_FAIL)
                check_say(&f, WORDS_SYSCTL_BY_HAND, w->value);
        s->finding(s, &f);
}

static void check_parameter(const struct host *h, const struct intent_sysctl *w, struct sink *s) {
        char value[256] = "";
        struct finding f;
        int r;

        r = intent_read_parameter(h, w->name, value, sizeof(value));
        intent_judge_parameter(w, value, r, intent_in_container(h), &f);
        (void) make_printable(f.found);
        s->finding(s, &f);
}

int probe_sysctl(const struct host *h, const struct probe_context *c, struct sink *s) {
        if (!c->intent)
                probe_tell(s, WORDS_SYSCTL_NO_PROFILE, NULL, NULL, "%s", "");
        else if (c->intent->n_sysctls == 0)
                probe_tell(s, WORDS_SYSCTL_UNWANTED, NULL, NULL, "profile %s wants none",
                           c->intent->profile);
        else {
                for (size_t i = 0; i < c->intent->n_sysctls; i++)
                        check(h, &c->intent->sysctls[i], s);
                for (size_t i = 0; i < c->intent->n_parameters; i++)
                        check_parameter(h, &c->intent->parameters[i], s);
        }
        return 0;
}
