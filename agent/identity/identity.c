/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include "config.h"
#include "shape.h"

#define ORIGIN_KERNEL "kernel"

static const char *const field_names[] = {
        [IDENTITY_HOST_NAME] = "host-name",
        [IDENTITY_SLICE_NAME] = "slice-name",
        [IDENTITY_ACCELERATOR_TYPE] = "accelerator-type",
        [IDENTITY_MACHINE_TYPE] = "machine-type",
        [IDENTITY_TOPOLOGY] = "topology",
        [IDENTITY_WORKER_ID] = "worker-id",
        [IDENTITY_WORKER_HOSTNAMES] = "worker-hostnames",
        [IDENTITY_CHIPS] = "chips",
        [IDENTITY_ZONE] = "zone",
};
_Static_assert(ELEMENTSOF(field_names) == _IDENTITY_FIELD_MAX, "every field has a name");

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

int identity_add(struct identity *i, enum identity_field f, const char *text, const char *origin) {
        static const config_parse_t parsers[_IDENTITY_FIELD_MAX] = {
                [IDENTITY_HOST_NAME] = parse_host_name,
                [IDENTITY_MACHINE_TYPE] = parse_label,
        };
        struct identity_value *v = &i->fields[f];
        _cleanup_free_ char *fresh = NULL;
        char why[96];
        int r;

        if (!parsers[f])
                return -EINVAL;
        if (v->text && !streq(v->origin, ORIGIN_KERNEL))
                return 0;
        r = parsers[f](text, &fresh, why);
        if (r < 0)
                return r;
        free(TAKE_PTR(v->text));
        adopt(i, f, &fresh, origin);
        return 0;
}

/* What the caller wants to know of the configuration itself. */
struct config_report {
        FILE *out; /* NULL: nothing is shown */
        unsigned warnings;
};

static int load_static(const struct host *h, const char *config_file, char *text[static _IDENTITY_FIELD_MAX],
                       struct worker_list *workers, struct identity *ret, struct config_report *report) {
        static const char *const foreign[] = { "Network", "Path", NULL };
        const struct config_item items[] = {
                [IDENTITY_HOST_NAME] = { "Identity", "HostName", parse_host_name, &text[IDENTITY_HOST_NAME],
                                         NULL },
                [IDENTITY_SLICE_NAME] = { "Identity", "SliceName", parse_label, &text[IDENTITY_SLICE_NAME],
                                          NULL },
                [IDENTITY_ACCELERATOR_TYPE] = { "Identity", "AcceleratorType", parse_accelerator_type,
                                                &text[IDENTITY_ACCELERATOR_TYPE], NULL },
                [IDENTITY_MACHINE_TYPE] = { "Identity", "MachineType", parse_label,
                                            &text[IDENTITY_MACHINE_TYPE], NULL },
                [IDENTITY_TOPOLOGY] = { "Identity", "Topology", parse_topology, &text[IDENTITY_TOPOLOGY],
                                        NULL },
                [IDENTITY_WORKER_ID] = { "Identity", "WorkerId", parse_worker_id, &text[IDENTITY_WORKER_ID],
                                         NULL },
                [IDENTITY_WORKER_HOSTNAMES] = { "Identity", "WorkerHostnames", parse_worker_hostnames,
                                                workers, NULL },
                [IDENTITY_CHIPS] = { "Identity", "Chips", parse_chips, &text[IDENTITY_CHIPS], NULL },
                [IDENTITY_ZONE] = { "Identity", "Zone", parse_label, &text[IDENTITY_ZONE], NULL },
        };
        struct config c = { .items = items, .n_items = ELEMENTSOF(items), .foreign = foreign };
        int r;

        r = config_load(&c, h, "identity", config_file);
        if (r >= 0) {
                if (!workers->bad)
                        text[IDENTITY_WORKER_HOSTNAMES] = TAKE_PTR(workers->text);
                for (size_t f = 0; f < _IDENTITY_FIELD_MAX; f++)
                        adopt(ret, (enum identity_field) f, &text[f], c.origins[f].where);
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
        struct worker_list workers = { 0 };
        int r;

        r = load_static(h, config_file, text, &workers, &i, report);
        for (size_t f = 0; f < ELEMENTSOF(text); f++)
                free(text[f]);
        free(workers.text);
        if (r < 0)
                return r;
        r = host_name_from_kernel(h, &i);
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

int identity_report_config(const struct host *h, const char *config_file, FILE *out, unsigned *ret_warnings) {
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

const char *identity_field_name(enum identity_field f) {
        return f < _IDENTITY_FIELD_MAX ? field_names[f] : "?";
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

                if (json_object_set_new(o, field_names[f], value) < 0) {
                        json_decref(o);
                        return NULL;
                }
        }
        return o;
}
