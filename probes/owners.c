/* SPDX-License-Identifier: Apache-2.0 */
/* Who has each chip's device open: being busy is no fault, it is what a person asks before starting a run.
 * And who listens on a port that the next run binds. */
#include "device_owners.h"
#include "tpu_sysfs.h"
#include "words.h"

struct walk {
        const struct device_owners *owners;
        struct sink *s;
        size_t n;
};

/* "pid 812 tpu-run-train.service: python3 train.py", and how many more. */
static void describe_owner(const struct device_owners *o, const char *node, struct sink *s) {
        const struct device_owner *first = NULL;
        size_t more = 0;
        char others[24];

        for (size_t i = 0; i < o->n; i++)
                if (streq(o->owners[i].device, node)) {
                        more += first != NULL;
                        first = first ? first : &o->owners[i];
                }
        (void) snprintf(others, sizeof(others), "%zu", more);
        if (first)
                probe_tell(s, more > 0 ? WORDS_OWNERS_MORE : WORDS_OWNER, node, others, "pid %u %s: %s",
                           first->pid, first->unit[0] ? first->unit : "(in no unit)", first->command);
        else
                probe_tell(s, o->incomplete ? WORDS_OWNER_UNSURE : WORDS_OWNER, node, NULL, "free");
}

static int visit(const char *node, void *userdata) {
        struct walk *w = userdata;

        w->n++;
        if (w->owners && w->owners->error >= 0)
                describe_owner(w->owners, node, w->s);
        return 0;
}

/* A service may be switched off by its unit; whatever else it is, the process has the port. */
static void tell_port(const struct port_owner *p, struct sink *s) {
        char port[8], pid[16];
        bool service = strlen(p->unit) > 8 && streq(p->unit + strlen(p->unit) - 8, ".service");

        (void) snprintf(port, sizeof(port), "%u", p->port);
        (void) snprintf(pid, sizeof(pid), "%u", p->pid);
        if (p->pid == 0)
                probe_tell(s, WORDS_RUN_PORT_TAKEN, port, NULL, "a process of uid %u listens", p->uid);
        else if (service)
                probe_tell(s, WORDS_RUN_PORT_TAKEN_UNIT, port, p->unit, "pid %u %s: %s", p->pid, p->unit,
                           p->command);
        else
                probe_tell(s, WORDS_RUN_PORT_TAKEN_PID, port, pid, "pid %u %s: %s", p->pid,
                           p->unit[0] ? p->unit : "(in no unit)", p->command);
}

/* Whoever has the chips may have them: it is his run. */
static void tell_ports(const struct device_owners *o, struct sink *s) {
        bool held = o->n > 0;

        for (size_t i = 0; !held && i < o->n_ports; i++)
                if (i == 0 || o->ports[i].port != o->ports[i - 1].port) /* IPv4, IPv6, each address */
                        tell_port(&o->ports[i], s);
        if (held || o->n_ports == 0)
                probe_tell(s, WORDS_PORTS_FREE, NULL, NULL, "%s",
                           held ? "a run holds the chips" : "free: " RUN_PORTS);
}

int probe_owners(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct walk w = { c->owners, s, 0 };
        int r = tpu_visit_nodes(h, visit, &w);

        if (r == 0 && w.n > 0 && c->owners && c->owners->error == 0)
                tell_ports(c->owners, s);
        if (r < 0 || (w.n > 0 && c->owners && c->owners->error == 0))
                return r;
        if (w.n == 0)
                probe_tell(s, WORDS_OWNER, NULL, NULL, "no TPU device");
        else
                probe_tell(s, WORDS_OWNERS_UNASKED, NULL,
                           c->owners ? c->owners->why : "tpu-launchd was not asked", "%s", "");
        return 0;
}
