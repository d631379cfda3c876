/* SPDX-License-Identifier: Apache-2.0 */
/* The probe "daemon": what it makes of each thing that systemd, the kernel and a daemon itself may say. */
#include "daemon_states.h"
#include "probe-support.h"

static const struct daemon_state good = {
        .load = "loaded", .active = "active", .sub = "running", .result = "success", .enabled = "enabled",
        .pid = 7, .up = 3600 * USEC_PER_SEC, .process = 'S', .asked = true,
};

static void judge(const struct daemon_state *netcfg, bool systemd, struct collected *ret) {
        static struct daemon_states all;
        const struct probe_context c = { .daemons = &all };

        all.systemd = systemd;
        all.since_boot = 1200 * USEC_PER_SEC;
        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++)
                all.of[i] = good;
        all.of[DAEMON_NETCFG] = *netcfg;
        ASSERT_OK(probe(GOOD, "daemon", &c, ret));
}

static void nothing_to_say(void) {
        _cleanup_collected_ struct collected here, unasked;
        const struct probe_context c = { .daemons = NULL };

        judge(&good, false, &here);
        ASSERT_OK(probe(GOOD, "daemon", &c, &unasked));
        ASSERT_EQ(here.findings.n, 0);
        ASSERT_EQ(finding_list_worst(&unasked.findings), VERDICT_UNKNOWN);
}

static void states(void) {
        struct daemon_state s[17];
        static const struct {
                enum verdict verdict;
                const char *found, *reason;
        } wanted[ELEMENTSOF(s)] = {
                { VERDICT_OK, "running", "" },
                { VERDICT_WARN, "inactive", "drift" },
                { VERDICT_OK, "inactive", "disabled" },
                { VERDICT_OK, "", "masked" },
                { VERDICT_WARN, "auto-restart", "again and again (restarts: 2)" },
                { VERDICT_WARN, "running, last end: signal", "restarts: 3" },
                { VERDICT_OK, "running", "" },
                { VERDICT_WARN, "stuck", "SIGSTOP" },
                { VERDICT_WARN, "stuck", "does not answer within 2 s" },
                { VERDICT_WARN, "not reachable", "its socket is gone" },
                { VERDICT_WARN, "stuck", "watchdog" },
                { VERDICT_WARN, "not reachable", "drift" },
                { VERDICT_WARN, "activating", "drift" },
                { VERDICT_OK, "running", "started 5 s ago; restarts since a person started it last: 1" },
                { VERDICT_WARN, "running, last end: watchdog", "again and again (3 times within an hour)" },
                { VERDICT_WARN, "auto-restart, last end: signal", "again and again (4 times" },
                { VERDICT_OK, "running", "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(s); i++)
                s[i] = good;
#define SET(i, member, value) (void) snprintf(s[i].member, sizeof(s[i].member), "%s", (value))
        SET(1, active, "inactive");
        SET(2, active, "inactive");
        SET(2, enabled, "disabled");
        SET(3, load, "masked");
        SET(3, active, "");
        SET(4, active, "activating");
        SET(4, sub, "auto-restart");
        s[4].restarts = 2;
        s[4].lived = USEC_PER_SEC;
        SET(5, result, "signal");
        s[5].restarts = 3;
        s[5].up = 5 * USEC_PER_SEC;
        s[6].restarts = 3; /* an hour ago */
        s[7].process = 'T';
        s[8].answer = -ETIMEDOUT;
        s[9].answer = -ENOENT;
        SET(10, active, "deactivating");
        SET(10, sub, "stop-watchdog");
        s[11].error = -ECONNREFUSED; /* no bus */
        s[11].answer = -ENOENT;
        s[12] = s[4];
        s[12].lived = 3600 * USEC_PER_SEC; /* once again after a long time */
        s[13].restarts = 1;
        s[13].up = 5 * USEC_PER_SEC;
        s[14].restarts = 9; /* slowly */
        s[14].failures = 3;
        SET(14, result, "watchdog");
        s[15] = s[12];
        s[15].failures = s[15].restarts = 4;
        SET(15, result, "signal");
        s[16].restarts = 9;
        s[16].failures = 2;
        for (size_t i = 0; i < ELEMENTSOF(s); i++) {
                _cleanup_collected_ struct collected got;
                const struct finding *f;

                judge(&s[i], true, &got);
                ASSERT_EQ(got.findings.n, _DAEMON_MAX);
                f = find(&got, "daemon.state", "tpu-netcfg");
                if (f->verdict != wanted[i].verdict || !startswith(f->found, wanted[i].found))
                        test_fail(__FILE__, __LINE__, "%zu: %s '%s' %s", i, verdict_name(f->verdict),
                                  f->found, f->reason);
                ASSERT_HAS(f->reason, wanted[i].reason);
                ASSERT_EQ(f->verdict == VERDICT_WARN, f->remedy[0] != '\0');
        }
}

/* What one says of itself stands behind it; nothing else than daemon.… does. */
static void says(void) {
        _cleanup_collected_ struct collected got;
        struct daemon_state s = good;

        finding_init(&s.says[0], "daemon.events", "tpu-netcfg");
        s.says[0].verdict = VERDICT_WARN;
        finding_init(&s.says[1], "nic.mtu", "eth0");
        s.n_says = 2;
        judge(&s, true, &got);
        ASSERT_EQ(got.findings.n, _DAEMON_MAX + 1);
        ASSERT_EQ(find(&got, "daemon.events", "tpu-netcfg")->verdict, VERDICT_WARN);
}

/* What systemd lets all runs have, and each service. */
static void limits_of_runs(void) {
        static const struct {
                struct run_limit limit;
                const char *subject, *found, *remedy;
        } cases[] = {
                { { "tpu-run.slice", "TasksMax", 20 }, "tpu-run.slice", "TasksMax=20",
                  "sudo systemctl set-property tpu-run.slice TasksMax=infinity" },
                { { "tpu-run.slice", "TasksMax", UINT64_MAX }, "", "none that a run meets", "" },
                { { "tpu.slice", "CPUQuotaPerSecUSec", 2000000 }, "tpu.slice", "CPUQuotaPerSecUSec=2000000",
                  "set-property tpu.slice CPUQuota=" },
                { { "tpu.slice", "MemoryMax", 1 << 30 }, "tpu.slice", "MemoryMax=1073741824",
                  "MemoryMax=infinity" },
                { { "tpu.slice", "MemoryMax", (uint64_t) 700 << 30 }, "", "none that a run meets", "" },
                { { "tpu-run.slice", "MemoryHigh", 1 << 30 }, "tpu-run.slice", "MemoryHigh=1073741824",
                  "sudo systemctl set-property tpu-run.slice MemoryHigh=infinity" },
                { { NULL, "DefaultLimitCPU", 3600 }, "DefaultLimitCPU", "DefaultLimitCPU=3600",
                  "DefaultLimitCPU=infinity" },
                { { NULL, "DefaultLimitFSIZE", (uint64_t) 1 << 40 }, "DefaultLimitFSIZE",
                  "DefaultLimitFSIZE=1099511627776", "DefaultLimitFSIZE=infinity" },
                { { NULL, "DefaultLimitAS", UINT64_MAX }, "", "none that a run meets", "" },
                { { NULL, "DefaultTasksMax", 100 }, "DefaultTasksMax", "DefaultTasksMax=100",
                  "printf '[Manager]\\nDefaultTasksMax=infinity\\n' | sudo tee "
                  "/etc/systemd/system.conf.d/zz-DefaultTasksMax.conf; sudo systemctl daemon-reexec" },
                { { NULL, "DefaultLimitNPROC", 100 }, "DefaultLimitNPROC", "DefaultLimitNPROC=100",
                  "DefaultLimitNPROC=infinity" },
        };
        static struct daemon_states all = { .systemd = true, .n_limits = 1 };
        const struct probe_context c = { .daemons = &all };

        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++)
                all.of[i] = good;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_collected_ struct collected got;
                const struct finding *f;

                all.limits[0] = cases[i].limit;
                ASSERT_OK(probe(GOOD, "daemon", &c, &got));
                f = find(&got, "daemon.slice", cases[i].subject);
                ASSERT_EQ(f->verdict, cases[i].remedy[0] ? VERDICT_WARN : VERDICT_OK);
                ASSERT_STREQ(f->found, cases[i].found);
                ASSERT_HAS(f->remedy, cases[i].remedy);
        }
}

static void not_installed(void) {
        _cleanup_collected_ struct collected got;
        struct daemon_state s = { .load = "not-found", .active = "inactive" };

        judge(&s, true, &got);
        ASSERT_EQ(got.findings.n, _DAEMON_MAX - 1);
}

TEST_MAIN(nothing_to_say, states, says, limits_of_runs, not_installed)
