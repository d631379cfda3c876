/* SPDX-License-Identifier: Apache-2.0 */
/* bench-gang MEMBERS HOSTS-OF-A-SLICE: what the planner costs: joining, a run over all, memory. */
#include <malloc.h>
#include <time.h>

#include "gang.h"

static double seconds(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void on_changed(const char *key, const json_t *value, void *userdata) {
        (void) key;
        (void) value;
        (*(size_t *) userdata)++;
}

static void say(struct gang *g, unsigned i, unsigned per_slice, unsigned n, const char *state, usec_t now) {
        char slice[16], host[16], why[GANG_WHY_MAX];
        unsigned s = i / per_slice, hosts = MIN(per_slice, n - s * per_slice);
        json_t *m;

        (void) snprintf(slice, sizeof(slice), "s%04u", s);
        (void) snprintf(host, sizeof(host), "h%u", i);
        m = json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:[s], s:i, s:s, s:{s:s}, s:[]}", "v", 1, "slice",
                      slice, "worker",
                       (int) (i % per_slice), "host", host, "id", host, "machine", host, "incarnation",
                       "1", "address",
                      "10.0.0.1", "hosts",
                      (int) hosts, "state", "ready", "fingerprint", "digest", "d", "runs");
        if (state)
                (void) json_array_append_new(json_object_get(m, "runs"),
                                             json_pack("{s:s, s:i, s:s}", "name", "train", "generation",
                                                                                  1, "state", state));
        if (gang_say(g, m, now, why) < 0)
                abort();
        json_decref(m);
}

int main(int argc, char *argv[]) {
        unsigned n = argc > 1 ? (unsigned) atoi(argv[1]) : 10000,
                per_slice = argc > 2 ? (unsigned) atoi(argv[2]) : 250;
        usec_t now = 1795237200 * USEC_PER_SEC;
        struct gang_options o = gang_default_options;
        char why[GANG_WHY_MAX];
        struct gang *g = NULL;
        size_t changes = 0;
        double t = seconds(), joined, idle;
        json_t *intent;

        if (gang_new(&o, &g) < 0)
                return EXIT_FAILURE;
        for (unsigned i = 0; i < n; i++) {
                say(g, i, per_slice, n, NULL, now);
                if (i % 100 == 99) /* as they come */
                        (void) gang_step(g, now, on_changed, &changes);
        }
        (void) gang_step(g, now, on_changed, &changes);
        joined = seconds() - t;
        t = seconds();
        for (unsigned i = 0; i < 100; i++)
                (void) gang_step(g, now, on_changed, &changes);
        idle = (seconds() - t) / 100;
        printf("%6u members, %4u a slice: joined in %.3f s CPU (%.1f us each), %zu records told, a step "
               "without news %.3f ms, %.1f MiB\n", n,
               per_slice, joined, joined / n * 1e6, changes, idle * 1e3,
               (double) mallinfo2().uordblks / 1048576);
        intent = json_pack("{s:i, s:s, s:s, s:[s], s:i, s:i}", "v", 1, "serial", "a", "user", "alice",
                           "argv", "x", "min", 1, "max",
                           (int) MIN((n + per_slice - 1) / per_slice, 256U));
        if (gang_want(g, "intent/train", intent, now, why) < 0)
                fprintf(stderr, "%s\n", why);
        json_decref(intent);
        t = seconds();
        (void) gang_step(g, now, on_changed, &changes);
        for (unsigned i = 0; i < n; i++)
                say(g, i, per_slice, n, "prepared", now);
        (void) gang_step(g, now, on_changed, &changes);
        printf("        a run over all of them: begun, prepared and running in %.3f s CPU, state %s\n",
               seconds() - t,
               json_string_value(json_object_get(gang_record(g, "run/train"), "state")));
        gang_free(g);
        return EXIT_SUCCESS;
}
