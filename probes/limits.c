/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that a run gets. Ours come from its unit (memlock unlimited, RUN_NOFILE files), within what the
 * kernel allows; a training started as any other service gets the manager's defaults, which are told beside.
 */
#include "probe.h"
#include "host_stat.h"
#include "paths.h"
#include "system_conf.h"

#define SOURCE "MaxText multihost_job.py (ulimit -n 100000); GKE OS certification, tpu_v7x.go"

struct value {
        char text[64];
};

static void keep(const char *value, const char *file, void *userdata) {
        struct value *v = userdata;

        (void) file;
        (void) snprintf(v->text, sizeof(v->text), "%s", value);
        (void) make_printable(v->text);
}

/* What other services get, for a person. */
static int other_services(const struct host *h, const char *key, struct value *ret) {
        struct host_stat st;
        int r;

        *ret = (struct value){ "" };
        r = host_stat(h, "/etc/systemd", &st);
        if (r == 0)
                r = system_conf_visit(h, key, keep, ret);
        if (r == 0 && !ret->text[0])
                (void) snprintf(ret->text, sizeof(ret->text), "systemd's built-in default");
        return r;
}

static void check_nofile(const struct host *h, struct sink *s) {
        struct value others;
        struct finding f;
        uint64_t most;
        int r;

        finding_init(&f, "limits.nofile", NULL);
        r = host_read_u64(h, "/proc/sys/fs/nr_open", &most);
        if (r < 0) {
                finding_set(f.reason, "/proc/sys/fs/nr_open cannot be read: %s", strerror(-r));
                s->finding(s, &f);
                return;
        }
        f.verdict = most >= RUN_NOFILE ? VERDICT_OK : VERDICT_WARN;
        finding_set(f.source, SOURCE);
        finding_set(f.found, "%" PRIu64, MIN(most, (uint64_t) RUN_NOFILE));
        if (f.verdict == VERDICT_OK) {
                if (other_services(h, "DefaultLimitNOFILE", &others) == 0)
                        finding_set(f.found, "%d in a run (other services: %s)", RUN_NOFILE, others.text);
        } else {
                finding_set(f.wanted, "at least %d", RUN_NOFILE);
                finding_set(f.reason, "fs.nr_open is below what a run's unit asks for");
                finding_set(f.remedy, "sysctl -w fs.nr_open=1048576");
        }
        s->finding(s, &f);
}

static void check_memlock(const struct host *h, struct sink *s) {
        struct value others;
        struct finding f;
        int r;

        finding_init(&f, "limits.memlock", NULL);
        finding_set(f.source, SOURCE);
        r = other_services(h, "DefaultLimitMEMLOCK", &others);
        if (r < 0)
                finding_set(f.reason, "systemd's settings in /etc/systemd cannot be read: %s", strerror(-r));
        else {
                f.verdict = VERDICT_OK;
                finding_set(f.found, "unlimited in a run (other services: %s)", others.text);
        }
        s->finding(s, &f);
}

int probe_limits(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        check_nofile(h, s);
        check_memlock(h, s);
        return 0;
}
