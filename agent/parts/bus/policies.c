/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "policies.h"
#include "texts.h"

/* --- Check= -------------------------------------------------------------------------------------------- */

enum policy_key { FAIL_AFTER, HEAL_AFTER, HOLD, FLAP_AFTER, FLAP_WINDOW, FLAP_QUIET, _KEY_MAX };

static const struct {
        const char *name;
        config_parse_t parse;
        uint64_t least, most;
        size_t offset, size;
} keys[] = {
#define KEY(text, parser, from, to, member)                                                                 \
        {                                                                                                   \
                text, parser, from, to, offsetof(struct health_policy, member),                             \
                        sizeof(((struct health_policy *) NULL)->member)                                     \
        }
        [FAIL_AFTER] = KEY("FailAfter", config_parse_u32, 1, POLICY_COUNT_MAX, fail_after),
        [HEAL_AFTER] = KEY("HealAfter", config_parse_u32, 1, POLICY_COUNT_MAX, heal_after),
        [HOLD] = KEY("Hold", config_parse_usec, 0, POLICY_SPAN_MAX, hold),
        [FLAP_AFTER] = KEY("FlapAfter", config_parse_u32, 0, HEALTH_FLAPS_MAX, flap_after),
        [FLAP_WINDOW] = KEY("FlapWindow", config_parse_usec, 0, POLICY_SPAN_MAX, flap_window),
        [FLAP_QUIET] = KEY("FlapQuiet", config_parse_usec, 0, POLICY_SPAN_MAX, flap_quiet),
#undef KEY
};
_Static_assert(ELEMENTSOF(keys) == _KEY_MAX, "each key has its row");

static void merge(struct health_policy *to, const struct check_policy *from) {
        for (size_t k = 0; k < _KEY_MAX; k++)
                if (from->has & 1U << k)
                        memcpy((char *) to + keys[k].offset, (const char *) &from->policy + keys[k].offset,
                               keys[k].size);
}

static int parse_word(const char *word, struct check_policy *p, char why[static 96]) {
        const char *equals = strchr(word, '=');
        char inner[96];
        int r;

        for (size_t k = 0; equals && k < _KEY_MAX; k++) {
                const struct config_item item = CONFIG_WITHIN("Health", keys[k].name, keys[k].parse,
                                                              (char *) &p->policy + keys[k].offset, NULL,
                                                              keys[k].least, keys[k].most);

                if (strlen(keys[k].name) != (size_t) (equals - word) || !startswith(word, keys[k].name))
                        continue;
                r = config_item_set(&item, equals + 1, inner);
                if (r < 0)
                        (void) snprintf(why, 96, "%s: %.70s", keys[k].name, inner);
                else
                        p->has |= 1U << k;
                return r;
        }
        return text_fail(why, 96, -EINVAL, "'%.24s' is not FailAfter=N, HealAfter=, Hold=, FlapAfter=, …",
                         word);
}

static bool name_is_valid(const char *name) {
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.");

        return n > 0 && name[n] == 0 && n < sizeof(((struct check_policy *) NULL)->check);
}

static int keep(struct check_policies *list, const struct check_policy *p, char why[static 96]) {
        struct check_policy *at = NULL;

        for (size_t i = 0; i < list->n && !at; i++)
                if (streq(list->items[i].check, p->check))
                        at = &list->items[i];
        if (!at && list->n == POLICIES_MAX)
                return text_fail(why, 96, -E2BIG, "more than %d checks", POLICIES_MAX);
        if (!at) {
                at = &list->items[list->n++];
                *at = (struct check_policy){ 0 };
                (void) snprintf(at->check, sizeof(at->check), "%s", p->check);
        }
        merge(&at->policy, p);
        at->has |= p->has;
        return 0;
}

int policies_parse(const char *value, void *dest, char why[static 96]) {
        struct check_policies *list = dest;
        struct check_policy p = { 0 };
        char copy[CONFIG_LINE_MAX + 1], *save = NULL, *word;
        int r;

        if (value[0] == 0) {
                list->n = 0;
                return 0;
        }
        (void) snprintf(copy, sizeof(copy), "%s", value);
        word = strtok_r(copy, " \t", &save);
        if (!word || !name_is_valid(word))
                return text_fail(why, 96, -EINVAL, "begins with no name of a check, as nic.mtu or nic");
        (void) snprintf(p.check, sizeof(p.check), "%s", word);
        for (word = strtok_r(NULL, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
                r = parse_word(word, &p, why);
                if (r < 0)
                        return r;
        }
        if (p.has == 0)
                return text_fail(why, 96, -EINVAL,
                                 "says nothing of %.32s: FailAfter=N, HealAfter=N, Hold=SPAN, …", p.check);
        return keep(list, &p, why);
}

struct health_policy policies_for(const struct check_policies *p, const struct health_policy *all,
                                  const char *check) {
        struct health_policy r = *all;
        size_t group = strcspn(check, ".");

        for (size_t i = 0; check[group] && i < p->n; i++)
                if (strlen(p->items[i].check) == group && strncmp(p->items[i].check, check, group) == 0)
                        merge(&r, &p->items[i]);
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->items[i].check, check))
                        merge(&r, &p->items[i]);
        return r;
}
