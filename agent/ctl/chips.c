/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl chips: who holds the TPU devices of this host (tpu-launchd), and what libtpu says of the chips
 * (tpu-hostd). */
#include <pwd.h>

#include "answer.h"
#include "ask_daemons.h"
#include "chips.h"
#include "json_text.h"
#include "live.h"
#include "screens.h"
#include "show.h"
#include "tpu_sysfs.h"
#include "verb_words.h"

/* --- Who holds them ------------------------------------------------------------------------------------ */

struct walk {
        const struct device_owners *owners;
        json_t *list;
};

static json_t *holder_json(const char *node, const struct device_owner *o) {
        const struct passwd *user = getpwuid(o->uid);
        char uid[24];

        (void) snprintf(uid, sizeof(uid), "uid %u", (unsigned) o->uid);
        return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "device", node, "state", "held", "pid",
                         (int) o->pid, "user", user ? user->pw_name : uid, "unit", o->unit, "command",
                         o->command);
}

/* A line for each holder. A device is free only where all processes could be looked at. */
static int on_node(const char *node, void *userdata) {
        struct walk *w = userdata;
        const char *not_held = w->owners->error < 0 || w->owners->incomplete ? "not known" : "free";
        bool held = false;
        int r = 0;

        for (size_t i = 0; r == 0 && i < w->owners->n; i++)
                if (streq(w->owners->owners[i].device, node)) {
                        held = true;
                        r = json_array_append_new(w->list, holder_json(node, &w->owners->owners[i]));
                }
        if (r == 0 && !held)
                r = json_array_append_new(w->list,
                                          json_pack("{s:s, s:s}", "device", node, "state", not_held));
        return r < 0 ? -ENOMEM : 0;
}

static const struct column device_columns[] = {
        { .title = "DEVICE", .cell = "{device}" },
        { .title = "PID", .cell = "[{pid}|{state}]" },
        { .title = "USER", .cell = "{user}" },
        { .title = "UNIT", .cell = "{unit}" },
        { .title = "COMMAND", .cell = "{command}", .shrinks = true },
};
static const struct column chip_columns[] = {
        { .title = "PROCESS", .cell = "{process}" },
        { .title = "CHIP", .cell = "{chip}" },
        { .title = "HBM USED", .cell = "{hbm_used_bytes:bytes}" },
        { .title = "OF", .cell = "{hbm_total_bytes:bytes}" },
        { .title = "DUTY CYCLE", .cell = "{duty_cycle:percent}" },
        { .title = "IDLE", .cell = "{idle_seconds:long}" },
};

/* GET /v1/chips, or with "devices" those of tpu-launchd. */
static int screen_chips(json_t *answer, usec_t now, FILE *out) {
        const json_t *devices = json_object_get(answer, "devices"),
                     *chips = json_object_get(answer, "chips");
        int r = show_list(out, devices, now, device_columns, ELEMENTSOF(device_columns),
                          "no TPU device on this host\n");

        if (r == 0 && json_array_size(chips) > 0) {
                show(out, answer, now,
                     "\nas libtpu reported[ for run {run}], {looked:age} ago"
                     "[; it reports an error: {error}]:\n");
                r = show_table(out, chips, now, chip_columns, ELEMENTSOF(chip_columns));
        }
        return r;
}

/* --- The verb ------------------------------------------------------------------------------------------ */

int chips_print(const struct options *o, bool json) {
        _cleanup_host_ struct host h = HOST_NULL;
        struct device_owners owners;
        struct walk w = { &owners, NULL };
        struct problem problem;
        json_t *answer = NULL;
        int hostd, r;

        r = host_open(o->root, &h);
        if (r < 0)
                return options_fail("tpuctl chips", EXIT_NO_ANSWER, "%s: %s", o->root ? o->root : "/",
                                    strerror(-r));
        ask_owners(&h, &owners);
        hostd = hostd_call(o->root, NULL, "/v1/chips", HOSTD_TIMEOUT, &answer, &problem);
        w.list = json_array();
        r = w.list ? tpu_visit_nodes(&h, on_node, &w) : -ENOMEM;
        if (owners.error < 0)
                fprintf(stderr, "tpuctl chips: who holds them is not known: %s\n", owners.why);
        if (hostd < 0) {
                (void) problem_complain(&problem);
                answer = json_object();
        }
        if (!answer || (r < 0 && r != -ENOENT)) { /* -ENOENT: a machine without a PCI bus has no chip */
                fprintf(stderr, "tpuctl chips: the devices cannot be looked at: %s; tpuctl check tpu\n",
                        strerror(r < 0 ? -r : ENOMEM));
                json_decref(answer);
                json_decref(w.list);
                return EXIT_NO_ANSWER;
        }
        (void) json_object_set_new(answer, "devices", w.list);
        r = answer_print(o, answer, &(struct answer_as){ json, screen_chips, NULL });
        return hostd < 0 && owners.error < 0 ? EXIT_NO_ANSWER : r;
}

struct view {
        const struct options *o;
        const bool *json;
};

static int draw_chips(void *userdata) {
        const struct view *v = userdata;

        return chips_print(v->o, *v->json);
}

int verb_chips(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, watch = false;
        const struct option_def defs[] = {
                { "watch", NULL, "show it again every 2 s until it is interrupted", NULL, &watch },
                OPTION_JSON(&json),
        };
        struct options o = VERB_OPTIONS(
                "chips", "[--watch] [--json]", defs,
                "Shows who holds each TPU device of this host, and how full and busy each chip is.");
        struct view v = { &o, &json };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        return watch ? live_show(draw_chips, &v) : draw_chips(&v);
}
