/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "identity.h"

#include "config.h"
#include "topology.h"

#define ORIGIN_KERNEL  "kernel"

#define ORIGIN_DERIVED "from " /* and the field it follows from */

/* A list that grows by WorkerHostnames= lines. */
struct worker_list {
        char *text;
        size_t len, n;
        bool bad; /* one name was refused: the list is not known until it is emptied */
};

static void why_set(char why[static 96], const char *text) {
        (void) snprintf(why, 96, "%s", text);
}

static int store(char **dest, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return -ENOMEM;
        free(*dest);
        *dest = copy;
        return 0;
}

static int parse_label(const char *value, void *dest, char why[static 96]) {
        if (!label_is_valid(value)) {
                why_set(why, "not 1 to 63 letters, digits, '.', '-' or '_'");
                return -EINVAL;
        }
        return store(dest, value);
}

static int parse_host_name(const char *value, void *dest, char why[static 96]) {
        if (!worker_name_is_valid(value, strlen(value))) {
                why_set(why, "not a host name");
                return -EINVAL;
        }
        return store(dest, value);
}

static int parse_accelerator_type(const char *value, void *dest, char why[static 96]) {
        if (!accelerator_type_is_valid(value)) {
                why_set(why, "not an accelerator type such as v6e-16 or tpu7x-8");
                return -EINVAL;
        }
        return store(dest, value);
}

static int parse_topology(const char *value, void *dest, char why[static 96]) {
        struct shape s;

        if (shape_parse_topology(value, &s) < 0) {
                why_set(why, "not a topology such as 4x4 or 4x4x8");
                return -EINVAL;
        }
        return store(dest, value);
}

/* Kept as text in its shortest form, so that what a run sees has no leading zero. */
static int parse_number(const char *value, void *dest, char why[static 96], uint32_t max) {
        uint32_t number;
        char text[16];
        int r;

        r = config_parse_u32(value, &number, why);
        if (r < 0)
                return r;
        if (number > max) {
                (void) snprintf(why, 96, "more than %" PRIu32, max);
                return -ERANGE;
        }
        (void) snprintf(text, sizeof(text), "%" PRIu32, number);
        return store(dest, text);
}

static int parse_worker_id(const char *value, void *dest, char why[static 96]) {
        return parse_number(value, dest, why, IDENTITY_HOSTS_MAX - 1);
}

static int parse_chips(const char *value, void *dest, char why[static 96]) {
        /* eight is the most known; a sane bound, judged by identity_check() */
        return parse_number(value, dest, why, 64);
}

static int parse_count(const char *value, void *dest, char why[static 96]) {
        if (value[strspn(value, "0")] == '\0') {
                why_set(why, "there is at least 1");
                return -ERANGE;
        }
        return parse_number(value, dest, why, IDENTITY_HOSTS_MAX);
}

/* Of Compute Engine: a number of up to 20 digits, which is a name to us. */
static int parse_instance_id(const char *value, void *dest, char why[static 96]) {
        size_t n = strspn(value, "0123456789");

        if (n == 0 || n > 20 || value[n]) {
                why_set(why, "not the number of an instance");
                return -EINVAL;
        }
        return store(dest, value);
}

static int parse_flag(const char *value, void *dest, char why[static 96]) {
        if (strcasecmp(value, "true") != 0 && strcasecmp(value, "false") != 0) {
                why_set(why, "not true or false");
                return -EINVAL;
        }
        return store(dest, value[0] == 't' || value[0] == 'T' ? "true" : "false");
}

static int parse_bounds(const char *value, void *dest, char why[static 96]) {
        char text[SHAPE_TEXT_MAX];
        struct shape s;

        if (shape_parse_bounds(value, &s) < 0) {
                why_set(why, "not bounds such as 2,2,1");
                return -EINVAL;
        }
        return store(dest, shape_text(&s, text));
}

static int parse_wrap(const char *value, void *dest, char why[static 96]) {
        const char *p = value;

        for (size_t d = 0; d < 3; d++) {
                size_t len = startswith(p, "true") ? 4 : startswith(p, "false") ? 5 : 0;

                if (len == 0 || p[len] != (d < 2 ? ',' : '\0')) {
                        why_set(why, "not three times true or false, such as true,true,false");
                        return -EINVAL;
                }
                p += len + 1;
        }
        return store(dest, value);
}

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT" */
static int parse_coordinator(const char *value, void *dest, char why[static 96]) {
        size_t len = strlen(value);

        if (len > 260 || len == 0 ||
            strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") != len) {
                why_set(why, "not a host, or host and port");
                return -EINVAL;
        }
        return store(dest, value);
}

static int worker_list_append(struct worker_list *l, const char *name, size_t len) {
        char *text = realloc(l->text, l->len + len + 2);

        if (!text)
                return -ENOMEM;
        l->text = text;
        if (l->n > 0)
                l->text[l->len++] = ',';
        memcpy(l->text + l->len, name, len);
        l->len += len;
        l->text[l->len] = '\0';
        l->n++;
        return 0;
}

static int parse_worker_hostnames(const char *value, void *dest, char why[static 96]) {
        struct worker_list *l = dest;
        int r;

        if (*value == '\0') {
                free(l->text);
                *l = (struct worker_list){ 0 };
                return 0;
        }
        for (const char *p = value;;) {
                const char *start = p + strspn(p, " \t");
                const char *end = start + strcspn(start, ",");
                size_t len = (size_t) (end - start);

                while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
                        len--;
                /* A comma at the end of a line is how people break long lists. */
                if (len == 0 && *end == '\0' && end > value)
                        return 0;
                if (!worker_name_is_valid(start, len) || l->n >= IDENTITY_HOSTS_MAX) {
                        l->bad = true;
                        if (l->n >= IDENTITY_HOSTS_MAX)
                                (void) snprintf(why, 96, "more than %d hosts", IDENTITY_HOSTS_MAX);
                        else
                                (void) snprintf(why, 96,
                                                "host %zu is not a host name; the whole list is ignored",
                                                l->n);
                        return -EINVAL;
                }
                r = worker_list_append(l, start, len);
                if (r < 0)
                        return r;
                if (*end == '\0')
                        return 0;
                p = end + 1;
        }
}

static const struct {
        const char *name, *key;
        config_parse_t parse; /* into a text, */
        bool list; /* or into a worker_list */
} fields[] = {
        [IDENTITY_HOST_NAME] = { "host-name", "HostName", parse_host_name, false },
        [IDENTITY_SLICE_NAME] = { "slice-name", "SliceName", parse_label, false },
        [IDENTITY_ACCELERATOR_TYPE] = { "accelerator-type", "AcceleratorType", parse_accelerator_type,
                                        false },
        [IDENTITY_MACHINE_TYPE] = { "machine-type", "MachineType", parse_label, false },
        [IDENTITY_TOPOLOGY] = { "topology", "Topology", parse_topology, false },
        [IDENTITY_WORKER_ID] = { "worker-id", "WorkerId", parse_worker_id, false },
        [IDENTITY_WORKER_HOSTNAMES] = { "worker-hostnames", "WorkerHostnames", parse_worker_hostnames,
                                        true },
        [IDENTITY_WORKER_ADDRESSES] = { "worker-addresses", "WorkerAddresses", parse_worker_hostnames,
                                        true },
        [IDENTITY_CHIPS] = { "chips", "Chips", parse_chips, false },
        [IDENTITY_CHIPS_PER_HOST_BOUNDS] = { "chips-per-host-bounds", "ChipsPerHostBounds", parse_bounds,
                                             false },
        [IDENTITY_HOST_BOUNDS] = { "host-bounds", "HostBounds", parse_bounds, false },
        [IDENTITY_TOPOLOGY_WRAP] = { "topology-wrap", "TopologyWrap", parse_wrap, false },
        [IDENTITY_ICI_RESILIENCY] = { "ici-resiliency", "IciResiliency", parse_flag, false },
        [IDENTITY_SLICES] = { "slices", "Slices", parse_count, false },
        [IDENTITY_SLICE_ID] = { "slice-id", "SliceId", parse_worker_id, false },
        [IDENTITY_COORDINATOR] = { "coordinator", "Coordinator", parse_coordinator, false },
        [IDENTITY_ZONE] = { "zone", "Zone", parse_label, false },
        [IDENTITY_INSTANCE_ID] = { "instance-id", "InstanceId", parse_instance_id, false },
        [IDENTITY_PREEMPTIBLE] = { "preemptible", "Preemptible", parse_flag, false },
};
_Static_assert(ELEMENTSOF(fields) == _IDENTITY_FIELD_MAX, "every field is known");

const char *identity_field_name(enum identity_field f) {
        return f < _IDENTITY_FIELD_MAX ? fields[f].name : "?";
}

int identity_field_parse(const char *name, enum identity_field *ret) {
        for (size_t f = 0; f < ELEMENTSOF(fields); f++)
                if (streq(name, fields[f].name)) {
                        *ret = (enum identity_field) f;
                        return 0;
                }
        return -EINVAL;
}

/* Moves a parsed text and its origin into the identity. */
static void adopt(struct identity *i, enum identity_field f, char **text, const char *origin) {
        if (!*text)
                return;
        i->fields[f].text = TAKE_PTR(*text);
        (void) snprintf(i->fields[f].origin, sizeof(i->fields[f].origin), "%s", origin);
}

static int host_name_from_kernel(const struct host *h, struct identity *i) {
        char name[HOST_NAME_SIZE];
        _cleanup_free_ char *copy = NULL;

        if (i->fields[IDENTITY_HOST_NAME].text || host_name(h, name) < 0 ||
            !worker_name_is_valid(name, strlen(name)))
                return 0;
        copy = strdup(name);
        if (!copy)
                return -ENOMEM;
        adopt(i, IDENTITY_HOST_NAME, &copy, ORIGIN_KERNEL);
        return 0;
}

static int parse_field(enum identity_field f, const char *text, char **ret) {
        struct worker_list l = { 0 };
        char why[96], *fresh = NULL;
        int r;

        r = fields[f].parse(text, fields[f].list ? (void *) &l : (void *) &fresh, why);
        if (fields[f].list) {
                if (r < 0 || l.n == 0) {
                        free(l.text);
                        return r < 0 ? r : -EINVAL;
                }
                fresh = l.text;
        }
        if (r == 0)
                *ret = fresh;
        return r;
}

bool identity_is_derived(const struct identity *i, enum identity_field f) {
        return i->fields[f].text && startswith(i->fields[f].origin, ORIGIN_DERIVED);
}

int identity_add(struct identity *i, enum identity_field f, const char *text, const char *origin) {
        struct identity_value *v = &i->fields[f];
        _cleanup_free_ char *fresh = NULL;
        int r;

        if (v->text && !streq(v->origin, ORIGIN_KERNEL) && !identity_is_derived(i, f))
                return 0;
        r = parse_field(f, text, &fresh);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        free(TAKE_PTR(v->text));
        adopt(i, f, &fresh, origin);
        return 0;
}

/* What the caller wants to know of the configuration itself. */
struct config_report {
        FILE *out; /* NULL: nothing is shown */
        unsigned warnings;
};

static int load_static(const struct host *h, const char *config_file, struct identity *ret,
                       struct config_report *report, char *text[static _IDENTITY_FIELD_MAX],
                       struct worker_list lists[static _IDENTITY_FIELD_MAX]) {
        static const char *const foreign[] = { "Network", "Path", NULL };
        struct config_item items[_IDENTITY_FIELD_MAX];
        struct config c = { .items = items, .n_items = ELEMENTSOF(items), .foreign = foreign };
        int r;

        for (size_t f = 0; f < ELEMENTSOF(items); f++)
                items[f] = (struct config_item){ "Identity", fields[f].key, fields[f].parse,
                                                 fields[f].list ? (void *) &lists[f] : (void *) &text[f],
                                                 NULL };
        r = config_load(&c, h, "identity", config_file);
        for (size_t f = 0; r >= 0 && f < ELEMENTSOF(items); f++) {
                if (fields[f].list && !lists[f].bad)
                        text[f] = TAKE_PTR(lists[f].text);
                adopt(ret, (enum identity_field) f, &text[f], c.origins[f].where);
        }
        if (r >= 0) {
                report->warnings = c.warnings;
                if (report->out)
                        r = config_show(&c, report->out);
        }
        config_clear(&c);
        return r;
}

static int load(const struct host *h, const char *config_file, struct config_report *report,
                struct identity *ret) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        char *text[_IDENTITY_FIELD_MAX] = { NULL };
        struct worker_list lists[_IDENTITY_FIELD_MAX] = { 0 };
        int r;

        r = load_static(h, config_file, &i, report, text, lists);
        for (size_t f = 0; f < ELEMENTSOF(text); f++) {
                free(text[f]);
                free(lists[f].text);
        }
        if (r < 0)
                return r;
        r = host_name_from_kernel(h, &i);
        if (r == 0)
                r = identity_derive(&i);
        if (r < 0)
                return r;
        *ret = i;
        i = IDENTITY_NULL;
        return 0;
}

int identity_load(const struct host *h, const char *config_file, struct identity *ret) {
        struct config_report report = { 0 };

        return load(h, config_file, &report, ret);
}

int identity_report_config(const struct host *h, const char *config_file, FILE *out,
                           unsigned *ret_warnings) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        struct config_report report = { .out = out };
        int r;

        r = load(h, config_file, &report, &i);
        *ret_warnings = report.warnings;
        return r;
}

void identity_clear(struct identity *i) {
        for (size_t f = 0; f < ELEMENTSOF(i->fields); f++)
                free(i->fields[f].text);
        *i = IDENTITY_NULL;
}

const char *identity_get(const struct identity *i, enum identity_field f) {
        return i->fields[f].text;
}

enum identity_field identity_workers(const struct identity *i) {
        const struct identity_value *names = &i->fields[IDENTITY_WORKER_HOSTNAMES];
        const struct identity_value *addresses = &i->fields[IDENTITY_WORKER_ADDRESSES];

        if (addresses->text && (!names->text || streq(names->origin, addresses->origin)))
                return IDENTITY_WORKER_ADDRESSES;
        return IDENTITY_WORKER_HOSTNAMES;
}

int identity_get_u32(const struct identity *i, enum identity_field f, uint32_t *ret) {
        char why[96];

        if (!i->fields[f].text)
                return -ENODATA;
        return config_parse_u32(i->fields[f].text, ret, why);
}

json_t *identity_to_json(const struct identity *i) {
        json_t *o = json_object();

        for (size_t f = 0; o && f < ELEMENTSOF(i->fields); f++) {
                const struct identity_value *v = &i->fields[f];
                json_t *value = v->text ? json_pack("{s:s, s:s}", "value", v->text, "origin", v->origin) :
                                          json_null();

                if (json_object_set_new(o, fields[f].name, value) < 0) {
                        json_decref(o);
                        return NULL;
                }
        }
        return o;
}
