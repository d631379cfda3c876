/* SPDX-License-Identifier: Apache-2.0 */
/* TPU chips: how many there are, whether a program can open them, and what is there that nobody knows. */
#include "host_stat.h"
#include "intent.h"
#include "tpu_sysfs.h"
#include "words.h"

static bool is_mixed(const struct tpu_inventory *v) {
        for (size_t i = 1; i < v->n; i++)
                if (v->chips[i].device != v->chips[0].device)
                        return true;
        return false;
}

static bool is_wanted_known(const struct probe_context *c) {
        return c->chips_wanted > 0 || c->chips_source;
}

/* A machine without TPUs, of which nobody says that it should have any. */
static bool is_without(const struct host *h, const struct tpu_inventory *v, const struct probe_context *c) {
        struct machine_type m;

        return v->n == 0 && !is_wanted_known(c) && c->intent && c->intent->no_tpu && !machine_of(h, c, &m);
}

static enum check_words judge_count(const struct host *h, const struct tpu_inventory *v,
                                    const struct probe_context *c) {
        if (is_without(h, v, c))
                return WORDS_CHIPS_NONE;
        if (is_wanted_known(c) && v->n != c->chips_wanted)
                return v->n < c->chips_wanted ? WORDS_CHIPS_MISSING : WORDS_CHIPS_MORE;
        if (is_mixed(v))
                return WORDS_CHIPS_MIXED;
        return is_wanted_known(c) ? WORDS_CHIPS : v->n > 0 ? WORDS_CHIPS_UNCOUNTED : WORDS_CHIPS_UNKNOWN;
}

static void check_count(const struct host *h, const struct tpu_inventory *v, const struct probe_context *c,
                        struct sink *s) {
        struct finding f;

        probe_words(&f, judge_count(h, v, c), NULL, v->n == 0 ? "all" : "some");
        if (is_without(h, v, c))
                finding_set(f.found, "none here, none expected: this machine is not changed");
        else if (v->n == 0)
                finding_set(f.found, "0");
        else if (is_mixed(v))
                finding_set(f.found, "%zu of several generations", v->n);
        else if (v->chips[0].model.hbm_gib > 0)
                finding_set(f.found, "%zu %s (%u GiB of HBM each)", v->n, v->chips[0].model.generation,
                            v->chips[0].model.hbm_gib);
        else
                finding_set(f.found, "%zu %s", v->n, v->chips[0].model.generation);
        if (is_wanted_known(c)) {
                finding_set(f.wanted, "%u", c->chips_wanted);
                finding_set(f.source, "%s", c->chips_source ? c->chips_source : "identity");
        }
        s->finding(s, &f);
        put_int(s, METRIC_CHIPS_PRESENT, (int64_t) v->n, NULL, NULL, NULL);
        if (is_wanted_known(c))
                put_int(s, METRIC_CHIPS_WANTED, c->chips_wanted, NULL, NULL, NULL);
}

static void check_nodes(const struct tpu_inventory *v, struct sink *s) {
        const struct tpu_chip *first = NULL;
        struct finding f;
        size_t usable = 0;

        for (size_t i = 0; i < v->n; i++)
                if (v->chips[i].nodes >= v->chips[i].functions)
                        usable++;
                else if (!first)
                        first = &v->chips[i];
        put_int(s, METRIC_CHIPS_USABLE, (int64_t) usable, NULL, NULL, NULL);
        if (v->n == 0)
                return; /* tpu.chips has said it */
        probe_words(&f, first ? WORDS_NODES_UNBOUND : WORDS_NODES, NULL, first ? first->address : NULL);
        finding_set(f.found, "%zu of %zu chips", usable, v->n);
        finding_set(f.wanted, "%zu of %zu chips", v->n, v->n);
        s->finding(s, &f);
}

/* The identity, the machine type and the bus are three sources for one number. */
static void check_machine(const struct host *h, const struct tpu_inventory *v, const struct probe_context *c,
                          struct sink *s) {
        struct machine_type m;
        struct finding f;

        if (!machine_of(h, c, &m))
                return; /* no TPU machine type that is known: nothing to compare with */
        probe_words(&f,
                    v->n > 0 && !streq(v->chips[0].model.generation, m.generation) ? WORDS_MACHINE_OTHER :
                    v->n < m.chips                                                 ? WORDS_MACHINE_LACKS :
                    v->n > m.chips                                                 ? WORDS_MACHINE_SMALLER :
                                                                                     WORDS_MACHINE,
                    NULL, NULL);
        finding_set(f.wanted, "%u %s in a %s", m.chips, m.generation, c->machine_type);
        finding_set(f.source, "%s", m.source);
        finding_set(f.found, "%zu %s", v->n, v->n > 0 ? v->chips[0].model.generation : "chips");
        (void) make_printable(f.wanted);
        s->finding(s, &f);
}

struct access {
        const struct host *h;
        size_t n, open;
        char first[TPU_NODE_MAX], why[64];
        bool missing, unknown; /* of the first one that is not open to all */
};

static int look_at_node(const char *node, void *userdata) {
        struct access *a = userdata;
        struct host_stat st;
        int r = host_stat(a->h, node, &st);

        a->n++;
        if (r == 0 && (st.mode & 0666) == 0666) {
                a->open++;
                return 0;
        }
        if (a->first[0])
                return 0;
        (void) snprintf(a->first, sizeof(a->first), "%s", node);
        a->missing = r == -ENOENT;
        a->unknown = r < 0 && r != -ENOENT;
        if (r < 0)
                (void) snprintf(a->why, sizeof(a->why), "%s", strerror(-r));
        else
                (void) snprintf(a->why, sizeof(a->why), "mode 0%03o, uid %u, gid %u",
                                (unsigned) st.mode & 07777, (unsigned) st.uid, (unsigned) st.gid);
        return 0;
}

/* /dev is the last step: a chip that sysfs shows and whose node is gone cannot be opened all the same. */
static void check_access(const struct host *h, const struct tpu_inventory *v, struct sink *s) {
        struct access a = { .h = h };
        struct finding f;

        if (tpu_inventory_visit_nodes(h, v, look_at_node, &a) < 0 || a.n == 0)
                return; /* tpu.nodes has said it */
        probe_words(&f,
                    !a.first[0] ? WORDS_ACCESS
                    : a.unknown ? WORDS_ACCESS_UNKNOWN
                    : a.missing ? WORDS_ACCESS_GONE
                                : WORDS_ACCESS_CLOSED,
                    NULL, a.first);
        finding_set(f.found, "%zu of %zu nodes open to all users", a.open, a.n);
        finding_set(f.wanted, "%zu of %zu nodes open to all users", a.n, a.n);
        if (a.first[0] && !a.missing)
                finding_set(f.reason, "%s: %s", a.first, a.why);
        s->finding(s, &f);
}

int probe_tpu(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct tpu_inventory v;
        int r = tpu_inventory_read(h, &v);

        if (r < 0)
                return r;
        check_count(h, &v, c, s);
        check_machine(h, &v, c, s);
        check_nodes(&v, s);
        check_access(h, &v, s);
        if (v.n_strange > 0)
                probe_tell(s, WORDS_STRANGE, v.strange, NULL,
                           "%u accelerator%s of vendor 0x1ae0, device 0x%04x", v.n_strange,
                           v.n_strange == 1 ? "" : "s", v.strange_device);
        if (v.n_unreadable > 0)
                probe_tell(s, WORDS_PCI_UNREADABLE, v.unreadable, NULL, "%u device%s without readable ids",
                           v.n_unreadable, v.n_unreadable == 1 ? "" : "s");
        return 0;
}
