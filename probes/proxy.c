/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxy variables that every run would inherit: gRPC obeys them, and a distributed start then hangs (JAX
 * warns of it at jax.distributed.initialize()). A proxy's address may hold a password: no value is ever
 * told.
 */
#include <strings.h>

#include "emit.h"
#include "host_stat.h"
#include "manager_environment.h"

#define ENVIRONMENT_MAX (64 * 1024)
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"
#define SOURCE "jax.distributed.initialize: *_proxy variables can make it hang"

struct seen {
        char names[128]; /* comma list */
        bool any;
};

/* "https_proxy", "HTTP_PROXY", "all_proxy"; not no_proxy, which takes hosts out. */
static void look_at(const char *assignment, void *userdata) {
        struct seen *v = userdata;
        size_t n = strcspn(assignment, "="), used = strlen(v->names);
        const char *value = assignment + n + (assignment[n] == '=');

        if (n < 6 || n > 32 || strspn(assignment, NAME_CHARACTERS) < n ||
            strncasecmp(assignment + n - 6, "_proxy", 6) != 0 ||
            (n == 8 && strncasecmp(assignment, "no", 2) == 0) || !value[0] || streq(value, "\"\""))
                return;
        v->any = true;
        (void) snprintf(v->names + used, sizeof(v->names) - used, "%s%.*s", used > 0 ? ", " : "", (int) n,
                        assignment);
}

static void judge(const struct seen *v, const char *remedy, struct finding *f) {
        f->verdict = v->any ? VERDICT_WARN : VERDICT_OK;
        finding_set(f->found, "%s", v->any ? v->names : "none");
        (void) make_printable(f->found);
        if (!v->any)
                return;
        finding_set(f->wanted, "none");
        finding_set(f->source, SOURCE);
        finding_set(f->reason, "connections between workers would go to the proxy and hang");
        finding_set(f->remedy, "%s", remedy);
}

/* pam_env(8): KEY=VALUE lines, "export " before them allowed, '#' comments. */
static void check_file(const struct host *h, struct sink *s) {
        static const char path[] = "/etc/environment";
        _cleanup_free_ char *text = malloc(ENVIRONMENT_MAX);
        struct seen v = { .any = false };
        struct host_stat etc;
        struct finding f;
        char *save = NULL;
        int r;

        finding_init(&f, "proxy", path);
        r = text ? host_read(h, path, text, ENVIRONMENT_MAX, NULL) : -ENOMEM;
        if (r == -ENOENT && host_stat(h, "/etc", &etc) == 0) {
                text[0] = '\0';
                r = 0;
        }
        if (r < 0)
                finding_set(f.reason, "%s cannot be read: %s", path, strerror(-r));
        else {
                for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
                        l += strspn(l, " \t");
                        l += startswith(l, "export ") ? 7 : 0;
                        look_at(l, &v);
                }
                judge(&v, "take them out of /etc/environment, or: tpuctl run --env NAME= …", &f);
        }
        s->finding(s, &f);
}

static void check_manager(const struct host *h, struct sink *s) {
        struct seen v = { .any = false };
        struct finding f;
        int r;

        finding_init(&f, "proxy", "systemd");
        r = manager_environment_visit(h, look_at, &v);
        if (r == -ENOENT) {
                f.verdict = VERDICT_OK;
                finding_set(f.found, "no systemd here");
        } else if (r < 0)
                finding_set(f.reason, "systemd's manager does not tell its environment: %s", strerror(-r));
        else
                judge(&v,
                      "systemctl show-environment; systemctl unset-environment NAME; DefaultEnvironment= in "
                      "/etc/systemd/system.conf",
                      &f);
        s->finding(s, &f);
}

static int run(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        check_file(h, s);
        check_manager(h, s);
        return 0;
}

const struct probe probe_proxy = {
        .name = "proxy",
        .summary = "proxy variables that every run would inherit",
        .group = GROUP_NETWORK,
        .interval = 900 * USEC_PER_SEC,
        .timeout = 3 * USEC_PER_SEC,
        .blocks = true,
        .run = run,
};
