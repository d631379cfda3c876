/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "identity.h"

#include "config.h"
#include "json_text.h"
#include "texts.h"
#include "topology.h"

#define ORIGIN_KERNEL  "kernel"

#define ORIGIN_DERIVED "from " /* and the field it follows from */

#define SLICE  "a slice's name: 1 to 63 letters, digits, inner '.', '-', '_'; TPU and its like are Ray's"
#define LABEL  "1 to 63 letters, digits, '.', '-' or '_'"
#define BOUNDS "bounds such as 2,2,1"
#define FLAG   "true or false"

/* --- What a field may be ------------------------------------------------------------------------------- */

static bool is_host_name(const char *value) {
        return worker_name_is_valid(value, strlen(value));
}

static bool is_topology(const char *value) {
        struct shape s;

        return shape_parse_topology(value, &s) == 0;
}

static bool is_bounds(const char *value) {
        struct shape s;

        return shape_parse_bounds(value, &s) == 0;
}

/* Of Compute Engine: a number of up to 20 digits, which is a name to us. */
static bool is_instance_id(const char *value) {
        size_t n = strspn(value, "0123456789");

        return n > 0 && n <= 20 && !value[n];
}

static bool is_flag(const char *value) {
        return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0;
}

static bool is_wrap(const char *value) {
        const char *p = value;

        for (size_t d = 0; d < 3; d++) {
                size_t len = startswith(p, "true") ? 4 : startswith(p, "false") ? 5 : 0;

                if (len == 0 || p[len] != (d < 2 ? ',' : '\0'))
                        return false;
                p += len + 1;
        }
        return true;
}

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT" */
static bool is_coordinator(const char *value) {
        static const char characters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
        size_t len = strlen(value);

        return len > 0 && len <= 260 && strspn(value, characters) == len;
}

/* A text that is valid; a number from least to most; or, with neither, a list of hosts. */
static const struct {
        const char *name, *key;
        bool (*valid)(const char *value);
        const char *wrong;    /* what a text that is not valid is not */
        uint32_t least, most; /* least: 0 or 1 */
} fields[] = {
        [IDENTITY_HOST_NAME] = { "host-name", "HostName", is_host_name, "a host name", 0, 0 },
        [IDENTITY_SLICE_NAME] = { "slice-name", "SliceName", slice_name_is_valid, SLICE, 0, 0 },
        [IDENTITY_ACCELERATOR_TYPE] = { "accelerator-type", "AcceleratorType", accelerator_type_is_valid,
                                        "an accelerator type such as v6e-16 or tpu7x-8", 0, 0 },
        [IDENTITY_MACHINE_TYPE] = { "machine-type", "MachineType", label_is_valid, LABEL, 0, 0 },
        [IDENTITY_TOPOLOGY] = { "topology", "Topology", is_topology, "a topology such as 4x4 or 4x4x8", 0,
                                0 },
        [IDENTITY_WORKER_ID] = { "worker-id", "WorkerId", NULL, NULL, 0, IDENTITY_HOSTS_MAX - 1 },
        [IDENTITY_WORKER_HOSTNAMES] = { "worker-hostnames", "WorkerHostnames", NULL, NULL, 0, 0 },
        [IDENTITY_WORKER_ADDRESSES] = { "worker-addresses", "WorkerAddresses", NULL, NULL, 0, 0 },
        /* eight is the most known; a sane bound, judged by identity_check() */
        [IDENTITY_CHIPS] = { "chips", "Chips", NULL, NULL, 0, 64 },
        [IDENTITY_CHIPS_PER_HOST_BOUNDS] = { "chips-per-host-bounds", "ChipsPerHostBounds", is_bounds,
                                             BOUNDS, 0, 0 },
        [IDENTITY_HOST_BOUNDS] = { "host-bounds", "HostBounds", is_bounds, BOUNDS, 0, 0 },
        [IDENTITY_TOPOLOGY_WRAP] = { "topology-wrap", "TopologyWrap", is_wrap,
                                     "three times true or false, such as true,true,false", 0, 0 },
        [IDENTITY_ICI_RESILIENCY] = { "ici-resiliency", "IciResiliency", is_flag, FLAG, 0, 0 },
        [IDENTITY_SLICES] = { "slices", "Slices", NULL, NULL, 1, IDENTITY_HOSTS_MAX },
        [IDENTITY_SLICE_ID] = { "slice-id", "SliceId", NULL, NULL, 0, IDENTITY_HOSTS_MAX - 1 },
        [IDENTITY_COORDINATOR] = { "coordinator", "Coordinator", is_coordinator, "a host, or host and port",
                                   0, 0 },
        [IDENTITY_ZONE] = { "zone", "Zone", label_is_valid, LABEL, 0, 0 },
        [IDENTITY_INSTANCE_ID] = { "instance-id", "InstanceId", is_instance_id, "the number of an instance",
                                   0, 0 },
        [IDENTITY_PREEMPTIBLE] = { "preemptible", "Preemptible", is_flag, FLAG, 0, 0 },
};
_Static_assert(ELEMENTSOF(fields) == _IDENTITY_FIELD_MAX, "every field is known");

static bool is_list(enum identity_field f) {
        return !fields[f].valid && fields[f].most == 0;
}

/* --- Reading one --------------------------------------------------------------------------------------- */

/* A field while it is read. A list grows by WorkerHostnames= lines. */
struct slot {
        enum identity_field field;
        char *text;
        size_t len, n; /* of a list */
        bool bad;      /* one name was refused: the list is not known until it is emptied */
};

static int take_number(enum identity_field f, const char *value, uint32_t *ret, char why[static 96]) {
        int r;

        if (fields[f].least > 0 && value[strspn(value, "0")] == '\0')
                return text_fail(why, 96, -ERANGE, "there is at least 1");
        r = config_parse_u32(value, ret, why);
        if (r == 0 && *ret > fields[f].most)
                return text_fail(why, 96, -ERANGE, "more than %" PRIu32, fields[f].most);
        return r;
}

/* In its usual form, as frameworks read it: without a leading zero, "v5litepod-16" for "v5e-16". */
static int take_text(enum identity_field f, const char *value, char **ret, char why[static 96]) {
        char buf[SHAPE_TEXT_MAX], *copy;
        struct accelerator a;
        uint32_t number;
        struct shape s;

        if (!fields[f].valid) {
                int r = take_number(f, value, &number, why);

                if (r < 0)
                        return r;
                (void) snprintf(buf, sizeof(buf), "%" PRIu32, number);
                value = buf;
        } else if (!fields[f].valid(value)) {
                return text_fail(why, 96, -EINVAL, "not %s", fields[f].wrong);
        } else if (fields[f].valid == is_flag)
                value = value[0] == 't' || value[0] == 'T' ? "true" : "false";
        else if (fields[f].valid == is_bounds && shape_parse_bounds(value, &s) == 0)
                value = shape_text(&s, buf);
        else if (fields[f].valid == accelerator_type_is_valid && accelerator_parse(value, &a) == 0)
                value = accelerator_text(&a, buf);
        copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(*ret);
        *ret = copy;
        return 0;
}

static int worker_list_append(struct slot *l, const char *name, size_t len) {
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

static int parse_list(const char *value, struct slot *l, char why[static 96]) {
        int r;

        if (*value == '\0') {
                free(l->text);
                *l = (struct slot){ .field = l->field };
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

/* For the configuration, too: dest is a slot. */
static int parse_field(const char *value, void *dest, char why[static 96]) {
        struct slot *s = dest;

        return is_list(s->field) ? parse_list(value, s, why) : take_text(s->field, value, &s->text, why);
}

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

bool identity_is_derived(const struct identity *i, enum identity_field f) {
        return i->fields[f].text && startswith(i->fields[f].origin, ORIGIN_DERIVED);
}

int identity_add(struct identity *i, enum identity_field f, const char *text, const char *origin) {
        struct identity_value *v = &i->fields[f];
        struct slot fresh = { .field = f };
        char why[96];
        int r;

        if (v->text && !streq(v->origin, ORIGIN_KERNEL) && !identity_is_derived(i, f))
                return 0;
        r = parse_field(text, &fresh, why);
        if (r < 0 || !fresh.text) {
                free(fresh.text);
                return r == -ENOMEM ? r : -EINVAL;
        }
        free(TAKE_PTR(v->text));
        adopt(i, f, &fresh.text, origin);
        return 0;
}

/* --- What follows from other fields -------------------------------------------------------------------- */

/* Fills a field that is not known; from: the field that it follows from. */
static int derive_field(struct identity *i, enum identity_field f, const char *text,
                        enum identity_field from) {
        char origin[64];

        if (identity_get(i, f))
                return 0;
        (void) snprintf(origin, sizeof(origin), ORIGIN_DERIVED "%s", identity_field_name(from));
        return identity_add(i, f, text, origin);
}

static int derive_chips(struct identity *i) {
        const char *bounds = identity_get(i, IDENTITY_CHIPS_PER_HOST_BOUNDS);
        const char *machine = identity_get(i, IDENTITY_MACHINE_TYPE);
        enum generation g;
        struct shape box;
        uint32_t chips;
        char text[16];

        if (bounds && shape_parse_bounds(bounds, &box) == 0)
                chips = shape_count(&box);
        else if (!machine || topology_machine(machine, &g, &chips) < 0)
                return 0;
        (void) snprintf(text, sizeof(text), "%" PRIu32, chips);
        return derive_field(i, IDENTITY_CHIPS, text,
                            bounds ? IDENTITY_CHIPS_PER_HOST_BOUNDS : IDENTITY_MACHINE_TYPE);
}

static int derive_shape(struct identity *i) {
        const char *type = identity_get(i, IDENTITY_ACCELERATOR_TYPE);
        char text[SHAPE_TEXT_MAX], wrap[TOPOLOGY_WRAP_MAX], why[TOPOLOGY_WHY_MAX], chips[16];
        bool said = identity_get(i, IDENTITY_TOPOLOGY);
        struct accelerator a;
        struct topology t;
        uint32_t n = 0;
        int r;

        (void) identity_get_u32(i, IDENTITY_CHIPS, &n); /* not known: the usual number */
        if (!type || accelerator_parse(type, &a) < 0 ||
            topology_of(&a, identity_get(i, IDENTITY_TOPOLOGY), n, &t, why) < 0)
                return 0; /* identity_check() says what does not fit */
        (void) snprintf(chips, sizeof(chips), "%" PRIu32, t.chips_per_host);
        r = derive_field(i, IDENTITY_TOPOLOGY, topology_size_text(a.generation, &t.size, text),
                         IDENTITY_ACCELERATOR_TYPE);
        if (r < 0 ||
            (n == 0 && t.chips_per_host == 8)) /* one host of 8 chips, or two of 4: only the host knows */
                return r;
        if (r == 0)
                r = derive_field(i, IDENTITY_CHIPS, chips, IDENTITY_ACCELERATOR_TYPE);
        if (r == 0)
                r = derive_field(i, IDENTITY_CHIPS_PER_HOST_BOUNDS, shape_text(&t.box, text),
                                 IDENTITY_CHIPS);
        if (r == 0)
                r = derive_field(i, IDENTITY_HOST_BOUNDS, shape_text(&t.hosts, text),
                                 said ? IDENTITY_TOPOLOGY : IDENTITY_ACCELERATOR_TYPE);
        if (r < 0 || !t.wrap_known)
                return r;
        return derive_field(i, IDENTITY_TOPOLOGY_WRAP, topology_wrap_text(&t, wrap),
                            said ? IDENTITY_TOPOLOGY : IDENTITY_ACCELERATOR_TYPE);
}

int identity_derive(struct identity *i) {
        int r;

        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++)
                if (identity_is_derived(i, f))
                        free(TAKE_PTR(i->fields[f].text));
        r = derive_chips(i);
        return r < 0 ? r : derive_shape(i);
}

static int host_name_from_kernel(const struct host *h, struct identity *i) {
        char name[HOST_NAME_SIZE];

        if (host_name(h, name) < 0)
                return 0;
        return identity_add(i, IDENTITY_HOST_NAME, name, ORIGIN_KERNEL) == -ENOMEM ? -ENOMEM : 0;
}

/* What the caller wants to know of the configuration itself. */
struct config_report {
        FILE *out; /* NULL: nothing is shown */
        unsigned warnings;
};

static int load_static(const struct host *h, const char *config_file, struct config_report *report,
                       struct slot slots[static _IDENTITY_FIELD_MAX], struct identity *ret) {
        struct config_item items[_IDENTITY_FIELD_MAX];
        struct config c = { .items = items, .n_items = ELEMENTSOF(items) };
        int r;

        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++) {
                slots[f] = (struct slot){ .field = f };
                items[f] = (struct config_item)CONFIG_ITEM("Identity", fields[f].key, parse_field,
                                                           &slots[f], NULL);
        }
        r = config_load(&c, h, "identity", config_file);
        for (enum identity_field f = 0; r >= 0 && f < _IDENTITY_FIELD_MAX; f++)
                if (!slots[f].bad)
                        adopt(ret, f, &slots[f].text, c.origins[f].where);
        if (r >= 0) {
                report->warnings = c.warnings;
                if (report->out)
                        r = config_show(&c, report->out);
        }
        config_clear(&c);
        return r;
}

static int load_files(const struct host *h, const char *config_file, struct config_report *report,
                      struct identity *ret) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        struct slot slots[_IDENTITY_FIELD_MAX];
        int r;

        r = load_static(h, config_file, report, slots, &i);
        for (size_t f = 0; f < ELEMENTSOF(slots); f++)
                free(slots[f].text);
        if (r >= 0)
                r = host_name_from_kernel(h, &i);
        if (r >= 0)
                r = identity_derive(&i);
        if (r < 0)
                return r;
        *ret = i;
        i = IDENTITY_NULL;
        return 0;
}

int identity_load(const struct host *h, const char *config_file, struct identity *ret) {
        return load_files(h, config_file, &(struct config_report){ 0 }, ret);
}

int identity_report_config(const struct host *h, const char *config_file, FILE *out,
                           unsigned *ret_warnings) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        struct config_report report = { .out = out };
        int r;

        r = load_files(h, config_file, &report, &i);
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

size_t identity_count(const struct identity *i, enum identity_field f) {
        const char *list = i->fields[f].text;
        size_t n = list != NULL;

        for (; list && *list; list++)
                n += *list == ',';
        return n;
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

const char *identity_host_of(const char *text, size_t len, size_t *ret_len) {
        bool bracket = len > 0 && text[0] == '[';
        const char *end = memchr(text, bracket ? ']' : ':', len);
        bool whole = !end || (!bracket && memchr(end + 1, ':', len - (size_t) (end + 1 - text)));

        text += bracket;
        *ret_len = (whole ? len - bracket : (size_t) (end - text));
        return text;
}

json_t *identity_to_json(const struct identity *i) {
        json_t *o = json_object();

        for (size_t f = 0; o && f < ELEMENTSOF(i->fields); f++) {
                const struct identity_value *v = &i->fields[f];
                json_t *value = v->text ? json_pack("{s:s, s:s}", "value", v->text, "origin", v->origin) :
                                          json_null();

                o = json_member_add(o, fields[f].name, value);
        }
        return o;
}
