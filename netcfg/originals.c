/* SPDX-License-Identifier: Apache-2.0 */
#include "durable.h"
#include "ethtool_bits.h"
#include "kernel.h"
#include "nic.h"
#include "originals.h"

#define FILE_NAME "originals"
#define FILE_HEAD "tpu-netcfg-originals 1"
#define FILE_MAX (ORIGINALS_MAX * (size_t) 256)

void originals_clear(struct originals *o) {
        free(o->items);
        *o = ORIGINALS_NULL;
}

static bool names_only(const struct original *o) {
        return o->kind == OP_MTU && !o->value[0];
}

static int add(struct originals *o, const struct original *item) {
        struct original *grown;

        if (o->n == ORIGINALS_MAX)
                return -E2BIG;
        grown = reallocarray(o->items, o->n + 1, sizeof(*o->items));
        if (!grown)
                return -ENOMEM;
        o->items = grown;
        o->items[o->n++] = *item;
        return 0;
}

/* --- The file ----------------------------------------------------------------------------------------- */

/* "VALUE SUBJECT": the subject has blanks. */
static int parse_route_entry(const char *text, struct originals *o) {
        struct original item = { .kind = OP_ROUTE };
        bool lock;
        uint32_t ms;
        int end = 0;

        if (sscanf(text, "%23s %n", item.value, &end) != 1 || end == 0 ||
            !route_parse_value(item.value, &ms, &lock) || !text[end] ||
            strlen(text + end) >= sizeof(item.subject))
                return -EBADMSG;
        (void) snprintf(item.subject, sizeof(item.subject), "%s", text + end);
        return add(o, &item);
}

static bool nic_kind_of(const char *word, enum nic_setting_kind *ret) {
        for (unsigned k = 0; k < _NIC_SETTING_KIND_MAX; k++)
                if (streq(word, nic_setting_check(k))) {
                        *ret = k;
                        return true;
                }
        return false;
}

/* "KIND NAME MAC VALUE", and of a feature or private flag " SETTING". */
static int parse_nic_entry(const char *line, struct originals *o) {
        char kind[32], nic[IF_NAMESIZE], setting[ETHTOOL_NAME_MAX] = "";
        struct original item = { 0 };
        enum nic_setting_kind k;
        int end = 0, n;

        n = sscanf(line, "%31s %15s %23s %15s%n %31s%n", kind, nic, item.address, item.value, &end,
                   setting, &end);
        if (n < 4 || line[end] || !nic_kind_of(kind, &k) || (k < NIC_SIZE) != (n == 5))
                return -EBADMSG;
        item.kind = OP_NIC_SETTING + k;
        (void) snprintf(item.subject, sizeof(item.subject), "%s%s%s", nic, n == 5 ? " " : "", setting);
        return add(o, &item);
}

static int parse_entry(const char *line, struct originals *o) {
        struct original item = { .kind = OP_SYSCTL };
        int end = 0;

        if (startswith(line, "route "))
                return parse_route_entry(line + 6, o);
        if (startswith(line, "nic."))
                return parse_nic_entry(line, o);
        if (startswith(line, "nic ")) {
                item.kind = OP_MTU;
                return sscanf(line, "nic %15s %23s%n", item.subject, item.address, &end) == 2 && !line[end] ?
                               add(o, &item) : -EBADMSG;
        }
        if (startswith(line, "mtu ")) {
                item.kind = OP_MTU;
                if (sscanf(line, "mtu %63s %23s %n", item.subject, item.address, &end) != 2)
                        return -EBADMSG;
        } else if (sscanf(line, "sysctl %63s %n", item.subject, &end) != 1)
                return -EBADMSG;
        /* The file may be less trusted than who runs --restore: it can only name what netcfg itself may
         * write. */
        if (item.kind == OP_SYSCTL && !startswith(item.subject, "net."))
                return -EBADMSG;
        if (end == 0 || !line[end] || strlen(line + end) >= sizeof(item.value))
                return -EBADMSG;
        (void) snprintf(item.value, sizeof(item.value), "%s", line + end);
        return add(o, &item);
}

/* Returns 1 when the file is of another boot. */
static int parse_line(const char *line, unsigned number, const char *boot_id, struct originals *o) {
        if (number == 1)
                return streq(line, FILE_HEAD) ? 0 : -EBADMSG;
        if (number > 2)
                return parse_entry(line, o);
        if (!startswith(line, "boot "))
                return -EBADMSG;
        return !streq(line + 5, boot_id);
}

int originals_load(int dir_fd, const char *boot_id, struct originals *ret, unsigned *ret_line) {
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;
        _cleanup_free_ char *text = NULL;
        unsigned number = 0;
        char *at, *line;
        size_t len;
        int r;

        r = durable_read(dir_fd, FILE_NAME, FILE_MAX, &text, &len);
        if (r == -ENOENT) {
                *ret = ORIGINALS_NULL;
                return 0;
        }
        if (r < 0)
                return r;
        *ret_line = 1;
        if (len == 0 || strlen(text) != len || text[len - 1] != '\n')
                return -EBADMSG;
        text[len - 1] = '\0';
        at = text;
        for (r = 0; r == 0 && (line = strsep(&at, "\n"));) {
                r = parse_line(line, ++number, boot_id, &o);
                *ret_line = number;
        }
        if (r < 0)
                return r;
        *ret = r > 0 ? ORIGINALS_NULL : o;
        if (r == 0)
                o = ORIGINALS_NULL;
        return 0;
}

static void print_nic_entry(const struct original *o, enum nic_setting_kind k, FILE *f) {
        const char *setting = op_bit_name(o->subject);

        fprintf(f, "%s %.*s %s %s%s%s\n", nic_setting_check(k), (int) strcspn(o->subject, " "), o->subject,
                o->address, o->value, setting ? " " : "", setting ? setting : "");
}

static void print_entry(const struct original *o, FILE *f) {
        enum nic_setting_kind k;

        if (op_is_nic_setting(o->kind, &k))
                print_nic_entry(o, k, f);
        else if (o->kind == OP_ROUTE)
                fprintf(f, "route %s %s\n", o->value, o->subject);
        else if (names_only(o))
                fprintf(f, "nic %s %s\n", o->subject, o->address);
        else if (o->kind == OP_MTU)
                fprintf(f, "mtu %s %s %s\n", o->subject, o->address, o->value);
        else
                fprintf(f, "sysctl %s %s\n", o->subject, o->value);
}

static int save(const struct originals *o, int dir_fd, const char *boot_id) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        FILE *f = open_memstream(&text, &len);

        if (!f)
                return -ENOMEM;
        fprintf(f, "%s\nboot %s\n", FILE_HEAD, boot_id);
        for (size_t i = 0; i < o->n; i++)
                print_entry(&o->items[i], f);
        if (fclose(f) == EOF)
                return -ENOMEM;
        return durable_write(dir_fd, FILE_NAME, text, len, 0644);
}

int originals_forget(int dir_fd) {
        return unlinkat(dir_fd, FILE_NAME, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- Settings ----------------------------------------------------------------------------------------- */

static void format_address(const struct link *l, char buf[static 24]) {
        size_t n = 0;

        buf[0] = '\0';
        for (size_t i = 0; i < MIN((size_t) l->address_len, (size_t) 6); i++)
                n += (size_t) snprintf(buf + n, 24 - n, i ? ":%02x" : "%02x", l->address[i]);
}

/* Its subject is a NIC's name, or starts with it. */
static bool is_of_a_nic(enum op_kind k) {
        return k == OP_MTU || k >= OP_NIC_SETTING;
}

static bool is_named(const struct original *o, const struct link *l) {
        size_t n = strcspn(o->subject, " ");

        return strlen(l->name) == n && memcmp(o->subject, l->name, n) == 0;
}

/* The NIC of that address; of several, the one of that name. */
static const struct link *link_of(const struct link_table *t, const struct original *o) {
        const struct link *found = NULL;
        char address[24];

        for (size_t i = 0; i < t->n; i++) {
                format_address(&t->links[i], address);
                if (!streq(address, o->address))
                        continue;
                if (!found || is_named(o, &t->links[i]))
                        found = &t->links[i];
        }
        return found;
}

/* address: of op's NIC. Compared first, for on a host of many NICs link_of() is slow. */
static bool same_setting(const struct original *o, const struct op *op, const char *address,
                         const struct link_table *links) {
        const struct link *l;
        const char *a = op_bit_name(o->subject), *b = op_bit_name(op->subject);

        if (o->kind != op->kind)
                return false;
        if (!is_of_a_nic(op->kind))
                return streq(o->subject, op->subject);
        if (a && b && !streq(a, b))
                return false;
        l = streq(o->address, address) ? link_of(links, o) : NULL;
        return l && l->index == op->index;
}

/* Returns 1 when it was not there yet. */
static int keep_one(struct originals *o, const struct op *op, const struct link_table *links) {
        struct original item = { .kind = op->kind };
        const struct link *l = is_of_a_nic(op->kind) ? link_by_index(links, op->index) : NULL;

        if (is_of_a_nic(op->kind) && !l)
                return -ENODEV;
        if (l)
                format_address(l, item.address);
        for (size_t i = 0; i < o->n; i++) {
                if (!same_setting(&o->items[i], op, item.address, links))
                        continue;
                if (!names_only(&o->items[i]))
                        return 0;
                finding_set(o->items[i].value, "%s", op->from); /* so far only its name was kept */
                return 1;
        }
        finding_set(item.subject, "%s", op->subject);
        finding_set(item.value, "%s", op->from);
        return add(o, &item) ?: 1;
}

/* Whose setting it is: names change. */
static int keep_nic(struct originals *o, int index, const struct link_table *links) {
        const struct link *l = index > 0 ? link_by_index(links, index) : NULL;
        struct original item = { .kind = OP_MTU };

        if (!l)
                return 0;
        for (size_t i = 0; i < o->n; i++)
                if (o->items[i].kind == OP_MTU && streq(o->items[i].subject, l->name))
                        return 0;
        format_address(l, item.address);
        finding_set(item.subject, "%s", l->name);
        return add(o, &item);
}

int originals_keep(struct originals *o, int dir_fd, const char *boot_id, const struct plan *p,
                   const struct link_table *links) {
        size_t before = o->n;
        bool added = false;
        int r = originals_follow(o, links);

        for (size_t i = 0; r >= 0 && i < p->n; i++) {
                if (p->ops[i].kind == OP_ROUTE || p->ops[i].kind == OP_SYSCTL)
                        r = keep_nic(o, p->ops[i].index, links);
                if (r >= 0 && !op_is_source(p->ops[i].kind))
                        r = keep_one(o, &p->ops[i], links);
                added |= r > 0;
        }
        if (r >= 0)
                r = 0;
        if (added && r == 0)
                r = save(o, dir_fd, boot_id);
        if (r < 0)
                o->n = before; /* what is not on disk is not kept */
        return r;
}

static int read_nic_setting(const struct original *o, const struct host *h, const struct link_table *links,
                            struct op *op) {
        const struct link *l = link_of(links, o);
        const char *setting = op_bit_name(o->subject);
        enum nic_setting_kind k;
        char now[16];
        int r;

        if (!op_is_nic_setting(o->kind, &k))
                return -EINVAL;
        if (!l)
                return -ENODEV;
        op->index = l->index;
        finding_set(op->subject, "%s%s%s", l->name, setting ? " " : "", setting ? setting : "");
        r = nic_read(h, k, l, op->subject, now);
        if (r == 0)
                finding_set(op->from, "%s", now);
        return r;
}

/* The value it has now. -ENODEV when the NIC or route is gone. */
static int read_now(const struct original *o, const struct host *h, const struct link_table *links,
                    struct op *op) {
        _cleanup_routes_ struct route_table routes = ROUTE_TABLE_NULL;
        struct found_sysctl now;
        const struct link *l;
        int r;

        switch (o->kind) {
        case OP_SYSCTL:
                r = kernel_read_sysctl(h, o->subject, &now);
                finding_set(op->from, "%s", now.value);
                return r == -ENOENT ? -ENODEV : r; /* a NIC's own, which went with it */
        case OP_MTU:
                l = link_of(links, o);
                if (!l)
                        return -ENODEV;
                op->index = l->index;
                finding_set(op->subject, "%s", l->name);
                finding_set(op->from, "%u", l->mtu);
                return 0;
        case OP_ROUTE:
                r = routes_read(h, &routes);
                for (size_t i = 0; r == 0 && i < routes.n; i++) {
                        char subject[sizeof(op->subject)];

                        route_subject(&routes.routes[i], links, subject);
                        if (!streq(subject, o->subject))
                                continue;
                        route_value(&routes.routes[i], op->from);
                        return 0;
                }
                return r < 0 ? r : -ENODEV;
        case OP_RULE:
        case OP_SOURCE_ROUTE:
        case OP_NIC_SETTING:
        case _OP_KIND_MAX:
                break;
        }
        return read_nic_setting(o, h, links, op);
}

/* Returns 1 with the write, 0 when nothing is to be done, -ENODEV when the NIC or route is gone. */
static int restore_op(const struct original *o, const struct host *h, const struct link_table *links,
                      struct op *ret) {
        struct op op = { .kind = o->kind };
        int r;

        finding_set(op.subject, "%s", o->subject);
        finding_set(op.to, "%s", o->value);
        finding_set(op.source, "original value of this boot");
        r = read_now(o, h, links, &op);
        if (r < 0)
                return r;
        *ret = op;
        return !streq(op.from, op.to);
}

size_t originals_count(const struct originals *o) {
        size_t n = 0;

        for (size_t i = 0; i < o->n; i++)
                n += !names_only(&o->items[i]);
        return n;
}

int originals_plan(const struct originals *o, const struct host *h, const struct link_table *links,
                   struct plan *ret, size_t *ret_gone) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        size_t gone = 0;
        struct op op;

        for (size_t i = o->n; i-- > 0;) { /* backwards: in the opposite order of the writes */
                int r = names_only(&o->items[i]) ? 0 : restore_op(&o->items[i], h, links, &op);

                if (r == -ENODEV)
                        gone++;
                else if (r > 0)
                        r = plan_add(&p, &op);
                if (r < 0 && r != -ENODEV)
                        return r;
        }
        *ret = p;
        p = PLAN_NULL;
        *ret_gone = gone;
        return 0;
}
