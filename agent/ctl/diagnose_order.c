/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose_order.h"

#include "collector.h"
#include "hostd.h"
#include "json_text.h"
#include "utf8.h"

#define PATH_BYTES 512
#define ASK_TIME   (15 * USEC_PER_SEC)
#define WAIT_MAX   (60 * USEC_PER_SEC)
#define LOOK_EVERY (500 * USEC_PER_MSEC)
#define SUFFIX     ".capture"

bool diagnose_order_is_for_hostd(const char *root) {
        struct problem problem = { 0 };
        json_t *answer = NULL;
        bool is = hostd_ask(root, "/v1/runs", false, ASK_TIME, &answer, &problem) == 0 &&
                  streq(json_text_of(answer, "registry"), "etcd");

        json_decref(answer);
        return is;
}

int diagnose_order_give(const char *root, const char *slice, struct problem *problem) {
        char path[PATH_BYTES] = "/v1/captures";
        json_t *answer = NULL;
        int r = collector_parameter(path, sizeof(path), "slice", slice);

        if (r == 0)
                r = collector_parameter(path, sizeof(path), "why", "tpuctl diagnose --capture");
        if (r < 0)
                return problem_set(problem, r, NULL, "'%s' cannot be asked for: %s", slice, strerror(-r));
        r = hostd_ask(root, path, true, ASK_TIME, &answer, problem);
        json_decref(answer);
        if (r == 0)
                fprintf(stderr,
                        "tpuctl diagnose: the hosts are asked for their stacks by the registry (etcd)\n");
        return r;
}

void diagnose_order_episode(const char *name, char ret[static DIAGNOSE_EPISODE_MAX]) {
        const char *dash = strchr(name, '-'), *from = dash ? strchr(dash + 1, '-') : NULL;
        size_t len = from ? strlen(from + 1) : 0, cut = strlen(SUFFIX);

        ret[0] = 0;
        if (len > cut && len - cut < DIAGNOSE_EPISODE_MAX && streq(from + 1 + len - cut, SUFFIX)) {
                memcpy(ret, from + 1, len - cut);
                ret[len - cut] = 0;
        }
}

int diagnose_order_kept(const char *root, struct diagnose_kept *ret, struct problem *problem) {
        json_t *answer = NULL, *list;
        int r = hostd_ask(root, "/v1/captures", false, ASK_TIME, &answer, problem);

        *ret = (struct diagnose_kept){ 0 };
        if (r < 0)
                return r;
        list = json_object_get(answer, "captures");
        for (size_t i = 0; i < MIN(json_array_size(list), (size_t) 2); i++)
                diagnose_order_episode(json_text_of(json_array_get(list, i), "name"), ret->episodes[i]);
        json_decref(answer);
        return 0;
}

static bool is_new(const struct diagnose_kept *before, const struct diagnose_kept *now) {
        const char *episode = now->episodes[1];

        return *episode && streq(now->episodes[0], episode) && !streq(before->episodes[0], episode) &&
               !streq(before->episodes[1], episode);
}

int diagnose_order_wait(const char *root, const struct diagnose_kept *before,
                        char ret_episode[static DIAGNOSE_EPISODE_MAX], struct problem *problem) {
        for (usec_t waited = 0; waited < WAIT_MAX; waited += LOOK_EVERY) {
                struct diagnose_kept now;
                int r = diagnose_order_kept(root, &now, problem);

                if (r < 0)
                        return r;
                if (is_new(before, &now)) {
                        (void) snprintf(ret_episode, DIAGNOSE_EPISODE_MAX, "%s", now.episodes[1]);
                        return 0;
                }
                (void) usleep(LOOK_EVERY);
        }
        return problem_set(problem, -ETIMEDOUT, "journalctl -u tpu-hostd; tpuctl check enroll.registry",
                           "this host has taken no captures by the record within %u s",
                           (unsigned) (WAIT_MAX / USEC_PER_SEC));
}
