/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "identity.h"
#include "topology.h"

/* What the judgements share: the numbers of an identity, each with whether it is known. */
struct facts {
        const struct identity *identity;
        const char *subject;
        uint32_t worker_id, chips;
        size_t n_hosts; /* by hostnames, else by addresses; 0: not known */
        bool has_worker_id, has_chips;
        struct accelerator accelerator;
        bool has_accelerator;
};

/* The index of a name in a comma list, or -ENOENT. */
static ssize_t find_host(const char *list, const char *name) {
        size_t len = strlen(name);
        ssize_t i = 0;

        for (;; i++) {
                const char *end = list + strcspn(list, ",");

                if ((size_t) (end - list) == len && strncmp(list, name, len) == 0)
                        return i;
                if (*end == '\0')
                        return -ENOENT;
                list = end + 1;
        }
}

static void begin_finding(struct finding *f, const struct facts *k, const char *check,
                          enum identity_field field) {
        finding_init(f, check, k->subject);
        finding_set(f->source, "%s", k->identity->fields[field].origin);
        check_say(f, WORDS_IDENTITY_WRONG);
}

static int check_worker_id(const struct facts *k, struct finding_list *out) {
        const char *list = identity_get(k->identity, IDENTITY_WORKER_HOSTNAMES);
        const char *name = identity_get(k->identity, IDENTITY_HOST_NAME);
        struct finding f;
        ssize_t at;

        if (!k->has_worker_id || k->n_hosts == 0)
                return 0;
        begin_finding(&f, k, "identity.worker_id", IDENTITY_WORKER_ID);
        finding_set(f.found, "worker %" PRIu32 " of %zu hosts", k->worker_id, k->n_hosts);
        if (k->worker_id >= k->n_hosts) {
                finding_set(f.wanted, "0 to %zu", k->n_hosts - 1);
                finding_set(f.reason, "worker-id is not below the number of worker-hostnames");
                return finding_list_add(out, &f);
        }
        /* The list may hold addresses: a name that is not in it says nothing. */
        at = name && list ? find_host(list, name) : -ENOENT;
        if (at < 0 || (size_t) at == k->worker_id)
                return 0;
        finding_set(f.wanted, "worker %zd", at);
        finding_set(f.reason, "worker-hostnames has %s at place %zd", name, at);
        return finding_list_add(out, &f);
}

struct name {
        const char *text;
        size_t len;
};

static int compare_names(const void *a, const void *b) {
        const struct name *x = a, *y = b;
        int r = strncmp(x->text, y->text, MIN(x->len, y->len));

        return r != 0 ? r : (x->len > y->len) - (x->len < y->len);
}

static int check_list(const struct facts *k, enum identity_field field, const char *check,
                      struct finding_list *out) {
        const char *at = identity_get(k->identity, field);
        _cleanup_free_ struct name *names = NULL;
        size_t n = identity_count(k->identity, field);
        struct finding f;

        if (n < 2)
                return 0;
        names = calloc(n, sizeof(*names));
        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                names[i] = (struct name){ at, strcspn(at, ",") };
                at += names[i].len + 1;
        }
        qsort(names, n, sizeof(*names), compare_names);
        for (size_t i = 1; i < n; i++) {
                if (compare_names(&names[i - 1], &names[i]) != 0)
                        continue;
                begin_finding(&f, k, check, field);
                finding_set(f.found, "%.*s more than once", (int) names[i].len, names[i].text);
                finding_set(f.wanted, "each host once");
                finding_set(f.reason, "two workers would have one address");
                return finding_list_add(out, &f);
        }
        return 0;
}

static int check_unique(const struct facts *k, struct finding_list *out) {
        size_t names = identity_count(k->identity, IDENTITY_WORKER_HOSTNAMES);
        size_t addresses = identity_count(k->identity, IDENTITY_WORKER_ADDRESSES);
        struct finding f;
        int r;

        r = check_list(k, IDENTITY_WORKER_HOSTNAMES, "identity.worker_hostnames", out);
        if (r == 0)
                r = check_list(k, IDENTITY_WORKER_ADDRESSES, "identity.worker_addresses", out);
        if (r < 0 || names == 0 || addresses == 0 || names == addresses)
                return r;
        begin_finding(&f, k, "identity.worker_addresses", IDENTITY_WORKER_ADDRESSES);
        finding_set(f.found, "%zu addresses", addresses);
        finding_set(f.wanted, "%zu", names);
        finding_set(f.reason, "worker-hostnames has %zu hosts: which address is whose cannot be said",
                    names);
        return finding_list_add(out, &f);
}

static int check_accelerator_type(const struct facts *k, struct finding_list *out) {
        const char *type = identity_get(k->identity, IDENTITY_ACCELERATOR_TYPE);
        struct finding f;

        if (!type || accelerator_type_is_valid(type))
                return 0;
        begin_finding(&f, k, "identity.accelerator_type", IDENTITY_ACCELERATOR_TYPE);
        finding_set(f.found, "%s", type);
        finding_set(f.wanted, "for example v6e-16");
        finding_set(f.reason, "no program that reads accelerator types accepts this one");
        return finding_list_add(out, &f);
}

static int check_chips(const struct facts *k, struct finding_list *out) {
        const char *topology = identity_get(k->identity, IDENTITY_TOPOLOGY);
        struct shape slice, box, hosts;
        struct finding f;

        if (!k->has_chips || k->chips == 0)
                return 0;
        begin_finding(&f, k, "identity.chips", IDENTITY_CHIPS);
        finding_set(f.found, "%" PRIu32 " chips on this host", k->chips);
        if (shape_of_host(k->chips, &box) < 0) {
                finding_set(f.wanted, "1, 2, 4 or 8");
                finding_set(f.reason, "no TPU host has this number of chips");
                return finding_list_add(out, &f);
        }
        if (!topology || shape_parse_topology(topology, &slice) < 0)
                return 0;
        begin_finding(&f, k, "identity.topology", IDENTITY_TOPOLOGY);
        finding_set(f.found, "%s with %" PRIu32 " chips a host", topology, k->chips);
        if (shape_hosts(&slice, &box, &hosts) < 0) {
                finding_set(f.reason, "hosts of %" PRIu32 " chips cannot fill this topology", k->chips);
                return finding_list_add(out, &f);
        }
        if (k->n_hosts == 0 || shape_count(&hosts) == k->n_hosts)
                return 0;
        finding_set(f.wanted, "%" PRIu32 " hosts", shape_count(&hosts));
        finding_set(f.reason, "worker-hostnames names %zu hosts, the topology has %" PRIu32, k->n_hosts,
                    shape_count(&hosts));
        return finding_list_add(out, &f);
}

/* The machine type knows its chips; the accelerator type knows which machines it is made of. */
static int check_machine(const struct facts *k, struct finding_list *out) {
        const char *machine = identity_get(k->identity, IDENTITY_MACHINE_TYPE);
        enum generation g;
        struct finding f;
        uint32_t chips;

        if (!machine || topology_machine(machine, &g, &chips) < 0)
                return 0;
        if (k->has_accelerator && g != k->accelerator.generation) {
                begin_finding(&f, k, "identity.accelerator_type", IDENTITY_ACCELERATOR_TYPE);
                finding_set(f.found, "%s", identity_get(k->identity, IDENTITY_ACCELERATOR_TYPE));
                finding_set(f.wanted, "a type of %s", generation_name(g));
                finding_set(f.reason, "this machine is %s (%s)", machine,
                            k->identity->fields[IDENTITY_MACHINE_TYPE].origin);
                return finding_list_add(out, &f);
        }
        if (!k->has_chips || k->chips == chips || k->chips == 0)
                return 0;
        begin_finding(&f, k, "identity.chips", IDENTITY_CHIPS);
        finding_set(f.found, "%" PRIu32 " chips on this host", k->chips);
        finding_set(f.wanted, "%" PRIu32, chips);
        finding_set(f.reason, "this machine is %s (%s)", machine,
                    k->identity->fields[IDENTITY_MACHINE_TYPE].origin);
        return finding_list_add(out, &f);
}

static int check_bounds_field(const struct facts *k, enum identity_field field, const struct shape *wanted,
                              const char *check, struct finding_list *out) {
        const char *said = identity_get(k->identity, field);
        char text[SHAPE_TEXT_MAX];
        struct finding f;

        if (!said || identity_is_derived(k->identity, field) || streq(said, shape_text(wanted, text)))
                return 0;
        begin_finding(&f, k, check, field);
        finding_set(f.found, "%s", said);
        finding_set(f.wanted, "%s", text);
        finding_set(f.reason, "that is what %s in topology %s has",
                    identity_get(k->identity, IDENTITY_ACCELERATOR_TYPE),
                    identity_get(k->identity, IDENTITY_TOPOLOGY));
        return finding_list_add(out, &f);
}

/* Accelerator type, topology and bounds, each against the others. */
static int check_topology(const struct facts *k, struct finding_list *out) {
        const char *size = identity_get(k->identity, IDENTITY_TOPOLOGY);
        char why[TOPOLOGY_WHY_MAX];
        struct topology t;
        struct finding f;
        struct shape box;
        int r;

        if (!k->has_accelerator || !size || (k->has_chips && shape_of_host(k->chips, &box) < 0))
                return 0; /* of the number of chips, check_chips() tells */
        r = topology_of(&k->accelerator, size, k->has_chips ? k->chips : 0, &t, why);
        if (r == -EDOM) {
                begin_finding(&f, k, "identity.topology", IDENTITY_TOPOLOGY);
                finding_set(f.found, "%s, %s", identity_get(k->identity, IDENTITY_ACCELERATOR_TYPE), size);
                finding_set(f.reason, "%s", why);
                return finding_list_add(out, &f);
        }
        if (r < 0)
                return 0;
        r = check_bounds_field(k, IDENTITY_HOST_BOUNDS, &t.hosts, "identity.host_bounds", out);
        return r < 0 ? r :
                       check_bounds_field(k, IDENTITY_CHIPS_PER_HOST_BOUNDS, &t.box,
                                          "identity.chips_per_host_bounds", out);
}

/* One wrong word makes others look wrong: the first that is found is reported. */
static int check_hardware(const struct facts *k, struct finding_list *out) {
        static int (*const checks[])(const struct facts *, struct finding_list *) = {
                check_accelerator_type,
                check_machine,
                check_topology,
                check_chips,
        };
        size_t before = out->n;
        int r = 0;

        for (size_t c = 0; c < ELEMENTSOF(checks) && r == 0 && out->n == before; c++)
                r = checks[c](k, out);
        return r;
}

static int check_slices(const struct facts *k, struct finding_list *out) {
        struct finding f;
        uint32_t n, id;

        if (identity_get_u32(k->identity, IDENTITY_SLICES, &n) < 0 ||
            identity_get_u32(k->identity, IDENTITY_SLICE_ID, &id) < 0 || id < n)
                return 0;
        begin_finding(&f, k, "identity.slice_id", IDENTITY_SLICE_ID);
        finding_set(f.found, "slice %" PRIu32 " of %" PRIu32, id, n);
        finding_set(f.wanted, "0 to %" PRIu32, n - 1);
        finding_set(f.reason, "slice-id is not below the number of slices");
        return finding_list_add(out, &f);
}

/* The one finding of an identity with nothing wrong in it. */
static int report_sound(const struct facts *k, struct finding_list *out) {
        const char *slice = identity_get(k->identity, IDENTITY_SLICE_NAME);
        struct finding f;

        finding_init(&f, "identity", k->subject);
        if (!slice && !k->has_worker_id) {
                finding_set(f.found, "no slice");
                check_say(&f, WORDS_IDENTITY_NONE);
                return finding_list_add(out, &f);
        }
        f.verdict = VERDICT_OK;
        if (k->has_worker_id && k->n_hosts > 0)
                finding_set(f.found, "worker %" PRIu32 " of %zu in slice %s", k->worker_id, k->n_hosts,
                            slice ? slice : "(no name)");
        else
                finding_set(f.found, "slice %s", slice ? slice : "(no name)");
        return finding_list_add(out, &f);
}

int identity_check(const struct identity *i, struct finding_list *ret) {
        static int (*const checks[])(const struct facts *, struct finding_list *) = {
                check_worker_id,
                check_unique,
                check_hardware,
                check_slices,
        };
        const char *name = identity_get(i, IDENTITY_HOST_NAME);
        const char *type = identity_get(i, IDENTITY_ACCELERATOR_TYPE);
        struct facts k = { .identity = i, .subject = name ? name : "" };
        size_t before = ret->n;

        k.n_hosts = identity_count(i, IDENTITY_WORKER_HOSTNAMES);
        if (k.n_hosts == 0)
                k.n_hosts = identity_count(i, IDENTITY_WORKER_ADDRESSES);
        k.has_accelerator = type && accelerator_parse(type, &k.accelerator) == 0;
        k.has_worker_id = identity_get_u32(i, IDENTITY_WORKER_ID, &k.worker_id) == 0;
        k.has_chips = identity_get_u32(i, IDENTITY_CHIPS, &k.chips) == 0;
        for (size_t c = 0; c < ELEMENTSOF(checks); c++) {
                int r = checks[c](&k, ret);

                if (r < 0)
                        return r;
        }
        return ret->n == before ? report_sound(&k, ret) : 0;
}
