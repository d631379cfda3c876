/* SPDX-License-Identifier: Apache-2.0 */
#include "originals.h"

#include "grow.h"
#include "texts.h"

#define BOOT "boot "
#define NO_NIC "-"

void originals_clear(struct originals *o) {
        free(o->items);
        *o = ORIGINALS_NULL;
}

static int add_original(struct originals *o, const struct original *item) {
        if (o->n == ORIGINALS_MAX)
                return -E2BIG;
        if (grow_by_one(&o->items, o->n, sizeof(*o->items)) < 0)
                return -ENOMEM;
        o->items[o->n++] = *item;
        return 0;
}

static bool original_has_address(const struct original *o) {
        static const uint8_t none[sizeof(o->address)];

        return memcmp(o->address, none, sizeof(none)) != 0;
}

/* Its subject begins with the name of a NIC. */
static bool is_of_a_nic(enum op_kind k) {
        return k == OP_MTU || k >= OP_NIC_SETTING;
}

/* --- The text ----------------------------------------------------------------------------------------- */

static bool parse_kind(const char *check, enum op_kind *ret) {
        for (enum op_kind k = 0; k < _OP_KIND_MAX; k++)
                if (!op_is_source(k) && streq(check, op_check(k))) {
                        *ret = k;
                        return true;
                }
        return false;
}

/* The file may be less trusted than who runs --restore: it can only name what netcfg itself may write. */
static bool is_sound_original(const struct original *o) {
        uint32_t ms;
        bool lock;

        if (o->kind == OP_SYSCTL)
                return startswith(o->subject, INTENT_SYSCTL_PREFIX);
        if (o->kind == OP_PARAMETER)
                return startswith(o->subject, INTENT_PARAMETER_PREFIX) && o->value[0];
        if (o->kind == OP_ROUTE)
                return route_parse_value(o->value, &ms, &lock);
        return o->subject[0] && o->value[0] && original_has_address(o) &&
               (o->kind == OP_MTU) == (op_bit_name(o->subject) == NULL);
}

static int parse_original(char *line, struct originals *o) {
        const char *check = strsep(&line, "\t"), *address = strsep(&line, "\t");
        const char *subject = strsep(&line, "\t"), *value = line;
        struct original item = { 0 };

        if (!value || strchr(value, '\t') || !parse_kind(check, &item.kind) ||
            (!streq(address, NO_NIC) && !mac_parse(address, item.address)) ||
            strlen(subject) >= sizeof(item.subject) || strlen(value) >= sizeof(item.value))
                return -EBADMSG;
        (void) snprintf(item.subject, sizeof(item.subject), "%s", subject);
        (void) snprintf(item.value, sizeof(item.value), "%s", value);
        return is_sound_original(&item) ? add_original(o, &item) : -EBADMSG;
}

int originals_parse(const char *text, size_t len, const char *boot_id, struct originals *ret) {
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;
        _cleanup_free_ char *copy = NULL;
        char *at, *line;
        int r = 0;

        if (len == 0 || memchr(text, '\0', len) || text[len - 1] != '\n')
                return -EBADMSG;
        at = copy = strndup(text, len - 1);
        if (!copy)
                return -ENOMEM;
        line = strsep(&at, "\n");
        if (!startswith(line, BOOT))
                return -EBADMSG;
        if (streq(line + strlen(BOOT), boot_id))
                while (r == 0 && (line = strsep(&at, "\n")))
                        r = parse_original(line, &o);
        if (r < 0)
                return r;
        *ret = o;
        o = ORIGINALS_NULL;
        return 0;
}

static void print_original(const struct original *o, FILE *f) {
        char mac[MAC_TEXT_MAX];

        fprintf(f, "%s\t%s\t%s\t%s\n", op_check(o->kind),
                original_has_address(o) ? mac_text(o->address, mac) : NO_NIC, o->subject, o->value);
}

int originals_format(const struct originals *o, const char *boot_id, char **ret, size_t *ret_len) {
        char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);

        if (!f)
                return -ENOMEM;
        fprintf(f, BOOT "%s\n", boot_id);
        for (size_t i = 0; i < o->n; i++)
                print_original(&o->items[i], f);
        if (!memstream_close(f, &text))
                return -ENOMEM;
        *ret = text;
        *ret_len = len;
        return 0;
}

/* --- NICs and their names ----------------------------------------------------------------------------- */

/* Where its NIC's name is in the subject: of a route "… dev NAME …", of a sysctl "….conf.NAME.…", else at
 * its beginning. */
static bool find_nic_name(const struct original *o, size_t *ret_at, size_t *ret_len) {
        const char *before = o->kind == OP_ROUTE ? " dev " : o->kind == OP_SYSCTL ? ".conf." : "";
        const char *at = strstr(o->subject, before), *end;

        if (!at)
                return false;
        at += strlen(before);
        end = o->kind == OP_SYSCTL ? strrchr(at, '.') : strchrnul(at, ' ');
        if (!end)
                return false;
        *ret_at = (size_t) (at - o->subject);
        *ret_len = (size_t) (end - at);
        return true;
}

static bool is_named_in(const struct original *o, const char *name) {
        size_t at, len;

        return find_nic_name(o, &at, &len) && strlen(name) == len && memcmp(o->subject + at, name, len) == 0;
}

/* The NIC's name as it stands in a subject of that kind: a sysctl's dots separate (sysctl(8)). */
static const char *spell_name(enum op_kind k, const struct link *l, char buf[static IF_NAMESIZE]) {
        (void) snprintf(buf, IF_NAMESIZE, "%s", l->name);
        for (char *dot = buf; k == OP_SYSCTL && (dot = strchr(dot, '.'));)
                *dot = '/';
        return buf;
}

const struct link *original_link(const struct original *o, const struct link_table *links) {
        const struct link *found = NULL;
        char name[IF_NAMESIZE];

        for (size_t i = 0; original_has_address(o) && i < links->n; i++) {
                const struct link *l = &links->links[i];

                if (l->address_len != sizeof(o->address) ||
                    memcmp(l->address, o->address, sizeof(o->address)) != 0)
                        continue;
                if (is_named_in(o, spell_name(o->kind, l, name)))
                        return l;
                found = found ?: l;
        }
        return found;
}

void originals_follow(struct originals *o, const struct link_table *links) {
        for (size_t i = 0; i < o->n; i++) {
                struct original *item = &o->items[i];
                const struct link *l = original_link(item, links);
                char name[IF_NAMESIZE], subject[sizeof(item->subject)];
                size_t at, len;

                if (!l || is_named_in(item, spell_name(item->kind, l, name)) ||
                    !find_nic_name(item, &at, &len))
                        continue;
                finding_set(subject, "%.*s%s%s", (int) at, item->subject, name, item->subject + at + len);
                memcpy(item->subject, subject, sizeof(subject));
        }
}

void originals_keep_absent(struct originals *o, const struct link_table *links) {
        size_t kept = 0;

        for (size_t i = 0; i < o->n; i++)
                if (original_has_address(&o->items[i]) && !original_link(&o->items[i], links))
                        o->items[kept++] = o->items[i];
        o->n = kept;
}

/* A NIC's name alone does not identify a setting: another NIC may have that name since. */
static bool has_original(const struct originals *o, const struct original *item) {
        for (size_t i = 0; i < o->n; i++)
                if (o->items[i].kind == item->kind && streq(o->items[i].subject, item->subject) &&
                    (!is_of_a_nic(item->kind) ||
                     memcmp(o->items[i].address, item->address, sizeof(item->address)) == 0))
                        return true;
        return false;
}

/* --- Routes that are gone ----------------------------------------------------------------------------- */

typedef char subject_text[sizeof(((struct original *) NULL)->subject)];

static int compare_subjects(const void *a, const void *b) {
        return strcmp(a, b);
}

int originals_make_room(struct originals *o, const struct plan *p, const struct route_table *routes,
                        const struct link_table *links) {
        _cleanup_free_ subject_text *there = NULL;
        size_t kept = 0;

        if (o->n + p->n <= ORIGINALS_MAX)
                return 0;
        there = calloc(routes->n + 1, sizeof(*there));
        if (!there)
                return -ENOMEM;
        for (size_t i = 0; i < routes->n; i++)
                route_subject(&routes->routes[i], links, there[i]);
        qsort(there, routes->n, sizeof(*there), compare_subjects);
        for (size_t i = 0; i < o->n; i++)
                if (o->items[i].kind != OP_ROUTE ||
                    bsearch(o->items[i].subject, there, routes->n, sizeof(*there), compare_subjects))
                        o->items[kept++] = o->items[i];
        o->n = kept;
        return 0;
}

/* --- Noting ------------------------------------------------------------------------------------------- */

int originals_note(struct originals *o, const struct plan *p, const struct link_table *links) {
        size_t before = o->n;

        for (size_t i = 0; i < p->n; i++) {
                const struct plan_op *op = &p->ops[i];
                const struct link *l = op->index > 0 ? link_by_index(links, op->index) : NULL;
                struct original item = { .kind = op->kind };
                int r;

                if (op_is_source(op->kind))
                        continue;
                if (l && l->address_len == sizeof(item.address))
                        memcpy(item.address, l->address, sizeof(item.address));
                if (is_of_a_nic(op->kind) && !original_has_address(&item))
                        return -ENODEV;
                finding_set(item.subject, "%s", op->subject);
                finding_set(item.value, "%s", op->from);
                if (has_original(o, &item))
                        continue;
                r = add_original(o, &item);
                if (r < 0)
                        return r;
        }
        return o->n > before;
}
