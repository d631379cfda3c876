/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl status: what tpu-hostd knows of this host. */
#include "answer.h"
#include "screens.h"
#include "show.h"
#include "table.h"
#include "verb_words.h"

enum verdict status_verdict(const json_t *s) {
        static const struct {
                const char *state;
                enum verdict verdict;
        } states[] = { { "ready", VERDICT_OK }, { "degraded", VERDICT_WARN }, { "unfit", VERDICT_FAIL } };
        char n[FIELD_TEXT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(states); i++)
                if (streq(field_text(s, "state", n), states[i].state))
                        return states[i].verdict;
        return VERDICT_UNKNOWN;
}

static void print_uplink(const json_t *u, usec_t now, FILE *out) {
        json_auto_t *classes = show_named(json_object_get(u, "classes"));

        show(out, u, now,
             "uplink   [{endpoint!}no endpoint is configured: records are kept on this host only"
             "|{endpoint}, last good answer {last_ok:age} ago[{parked?}; it refuses: one try a minute]"
             "|{endpoint} [{parked?}refuses our records; one try a minute|has not answered yet]]\n"
             "[         last error: {last_error}\n]"
             "[{durable=false}         the spool cannot be written: tpuctl check daemon.disk\n]");
        /* What is not yet delivered, and what never will be. */
        show_each(out, classes, now,
                  "         {name}: {kept} waiting[{dropped>0}, {dropped} dropped]"
                  "[{refused>0}, {refused} refused][{damaged>0}, {damaged} damaged]\n");
}

int screen_status(json_t *s, usec_t now, FILE *out) {
        const json_t *reasons = json_object_get(s, "reasons");

        show(out, s, now, "state    [{state}|unknown]\n");
        screen_orders(s, "ordered", out);
        show(out, s, now,
             "host     {host}\n"
             "slice    [{identity.slice}|not known], worker [{identity.worker_id}|not known], "
             "[{identity.accelerator_type}|accelerator type not known]\n"
             "agent    tpu-hostd {version}, up {started:age}\n"
             "runs     [{live_runs} running|not known: tpu-launchd does not answer (systemctl status "
             "tpu-launchd)]\n");
        show_each(out, json_object_get(s, "notices"), now,
                  "notice   {notice} is ahead: the metadata server says '{text}'\n");
        print_uplink(json_object_get(s, "uplink"), now, out);
        if (json_array_size(reasons) > 0)
                fputc('\n', out);
        show_each(out, reasons, now,
                  "{verdict:7}  {check}[ {subject}]: {reason}\n"
                  "[         since:  {since:age}[{worsened>1}, got worse {worsened} times][{flapping?}, "
                  "flapping][, last good {last_good:age} ago|, never seen good]\n]"
                  "[         to do:  {remedy}\n]");
        return 0;
}

int verb_status(const struct ctl *c, int argc, char *argv[]) {
        bool json = false;
        const struct option_def defs[] = { OPTION_JSON(&json) };
        struct options o = VERB_OPTIONS(
                "status", "[--json]", defs,
                "Asks tpu-hostd how this host is. Exit code: 0 ready, 1 degraded, 2 unfit, 3 unknown or "
                "no answer.");
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        return answer_of_hostd(&o, "/v1/status", HOSTD_TIMEOUT,
                               &(struct answer_as){ json, screen_status, status_verdict });
}
