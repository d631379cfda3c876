/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "json_fields.h"
#include "json_text.h"
#include "orders.h"
#include "texts.h"
#include "utf8.h"

static const char *const names[] = {
        [ORDER_CORDON] = "cordon",
        [ORDER_DRAIN] = "drain",
        [ORDER_OBSERVE] = "observe",
        [ORDER_SILENCE] = "silence",
};
_Static_assert(ELEMENTSOF(names) == _ORDER_KIND_MAX, "each kind has a name");

const char *order_kind_name(enum order_kind k) {
        return names[k];
}

/* --- The list ------------------------------------------------------------------------------------------ */

static struct order *lookup(struct orders *o, enum order_kind k, const char *check, const char *subject) {
        for (size_t i = 0; i < o->n; i++)
                if (o->items[i].kind == k && streq(o->items[i].check, check) &&
                    streq(o->items[i].subject, subject))
                        return &o->items[i];
        return NULL;
}

struct order *orders_find(struct orders *o, enum order_kind k) {
        return lookup(o, k, "", "");
}

bool order_silences(const struct order *s, const char *check, const char *subject) {
        size_t n = strlen(s->check);

        if (s->kind != ORDER_SILENCE || !startswith(check, s->check) || (check[n] != 0 && check[n] != '.'))
                return false;
        return !s->subject[0] || streq(s->subject, subject);
}

const struct order *orders_silence_of(const struct orders *o, const char *check, const char *subject) {
        const struct order *best = NULL;

        for (size_t i = 0; i < o->n; i++) {
                const struct order *s = &o->items[i];

                if (!order_silences(s, check, subject))
                        continue;
                if (!best || strlen(s->check) > strlen(best->check) || (s->subject[0] && !best->subject[0]))
                        best = s;
        }
        return best;
}

int orders_set(struct orders *o, const struct order *new) {
        struct order *at = lookup(o, new->kind, new->check, new->subject);

        if (!at && o->n == ORDERS_MAX)
                return -ENOSPC;
        if (!at)
                at = &o->items[o->n++];
        *at = *new;
        return 0;
}

static void take_out(struct orders *o, struct order *at, struct order *ret) {
        size_t i = (size_t) (at - o->items);

        *ret = *at;
        memmove(at, at + 1, (o->n - i - 1) * sizeof(*at));
        o->n--;
}

int orders_end(struct orders *o, enum order_kind k, const char *check, const char *subject,
               struct order *ret) {
        struct order *at = lookup(o, k, check, subject);

        if (!at)
                return 0;
        take_out(o, at, ret);
        return 1;
}

static bool is_over(const struct order *o, const struct order_time *now) {
        if (o->until == 0)
                return false;
        if (o->boot_id[0] && streq(o->boot_id, now->boot_id))
                return now->boot >= o->since_boot && now->boot - o->since_boot >= o->until - o->since;
        return now->real >= o->until;
}

int orders_expire(struct orders *o, const struct order_time *now, struct order *ret) {
        for (size_t i = 0; i < o->n; i++)
                if (is_over(&o->items[i], now)) {
                        take_out(o, &o->items[i], ret);
                        return 1;
                }
        return 0;
}

/* --- On disk ------------------------------------------------------------------------------------------- */

#define FIELD(...) JSON_FIELD(struct order, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(TEXT, "check", check),
        FIELD(TEXT, "subject", subject),
        FIELD(TEXT, "reason", reason),
        FIELD(TEXT, "by", by),
        FIELD(NUMBER, "since_usec", since),
        FIELD(NUMBER, "until_usec", until),
        FIELD(NUMBER, "since_boot_usec", since_boot),
        FIELD(TEXT, "boot_id", boot_id),
        FIELD(FLAG, "drained", drained),
};

static json_t *to_json(const struct order *o) {
        json_t *v = json_fields_pack(fields, ELEMENTSOF(fields), o);

        return json_member_add(v, "kind", json_string(names[o->kind]));
}

json_t *orders_to_json(const struct orders *o) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < o->n; i++)
                list = json_list_add(list, to_json(&o->items[i]));
        return list;
}

static int from_json(const json_t *v, enum order_kind k, struct order *ret) {
        struct order o = { .kind = k };

        if (json_fields_take(v, fields, ELEMENTSOF(fields), &o) < 0 || (o.until > 0 && o.until < o.since) ||
            (k == ORDER_SILENCE) != (o.check[0] != 0) || (k != ORDER_SILENCE && o.subject[0]))
                return -EBADMSG;
        *ret = o;
        return 0;
}

unsigned orders_from_json(struct orders *o, const json_t *list) {
        unsigned bad = !json_is_array(list);
        struct order one;
        json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *kind = json_string_value(json_object_get(v, "kind"));
                enum order_kind k = 0;

                while (kind && k < _ORDER_KIND_MAX && !streq(kind, names[k]))
                        k++;
                bad += !kind || k == _ORDER_KIND_MAX || from_json(v, k, &one) < 0 || orders_set(o, &one) < 0;
        }
        return bad;
}

/* --- For people ---------------------------------------------------------------------------------------- */

/* Whole seconds: that is what people name. */
static const char *second_text(usec_t real, char buf[static CLOCK_TEXT_MAX]) {
        (void) clock_text(real, buf);
        memcpy(buf + strlen("2026-11-21T05:00:00"), "Z", 2);
        return buf;
}

const char *order_until_text(const struct order *o, char buf[static CLOCK_TEXT_MAX]) {
        if (o->until > 0)
                return second_text(o->until, buf);
        (void) snprintf(buf, CLOCK_TEXT_MAX, "no end");
        return buf;
}

json_t *order_to_public_json(const struct order *o) {
        char since[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];
        json_t *v = json_pack("{s:s, s:s, s:s, s:o}", "reason", o->reason, "by", o->by, "since",
                              second_text(o->since, since), "until",
                              o->until > 0 ? json_string(order_until_text(o, until)) : json_null());

        if (o->kind != ORDER_SILENCE)
                return v;
        v = json_member_add(v, "check", json_string(o->check));
        return json_member_add(v, "subject", json_string(o->subject));
}

const char *order_text(const struct order *o, char *buf, size_t size) {
        static const char *const words[] = {
                [ORDER_CORDON] = "cordoned",
                [ORDER_DRAIN] = "draining",
                [ORDER_OBSERVE] = "observing",
                [ORDER_SILENCE] = "silenced",
        };
        char until[CLOCK_TEXT_MAX];

        (void) snprintf(buf, size, "%s by %s%s%s%s%s", o->drained ? "drained" : words[o->kind], o->by,
                        o->until > 0 ? " until " : "", o->until > 0 ? order_until_text(o, until) : "",
                        o->reason[0] ? ": " : "", o->reason);
        return buf;
}

int order_check_reason(const char *text) {
        char clean[ORDER_REASON_MAX];

        if (strlen(text) >= ORDER_REASON_MAX)
                return -E2BIG;
        utf8_copy(clean, sizeof(clean), text);
        /* utf8_copy() lets tabs and newlines pass: one line is meant. */
        return text[0] == 0 || text[strspn(text, " ")] == 0 || !streq(clean, text) || strpbrk(text, "\t\n")
                       ? -EINVAL
                       : 0;
}

const char *orders_text(const struct orders *l, char *buf, size_t size) {
        static const enum order_kind kinds[] = { ORDER_CORDON, ORDER_DRAIN, ORDER_OBSERVE };

        buf[0] = 0;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                const struct order *o = orders_find((struct orders *) (uintptr_t) l, kinds[i]);
                char one[384];

                if (o)
                        text_append(buf, size, "; ", "%s", order_text(o, one, sizeof(one)));
        }
        return buf;
}
