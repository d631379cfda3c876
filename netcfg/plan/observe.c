/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "observe.h"

bool observe_adopt(struct observe *o, const char *boot_id, usec_t boot, usec_t real) {
        if (!o->ordered || streq(o->boot_id, boot_id))
                return false;
        (void) snprintf(o->boot_id, sizeof(o->boot_id), "%s", boot_id);
        o->heard_boot = boot;
        o->heard_real = real;
        o->until = o->until == 0 ? real + OBSERVE_UNCONFIRMED : MIN(o->until, real + OBSERVE_UNCONFIRMED);
        return true;
}

bool observe_counts(const struct observe *o, usec_t boot) {
        usec_t since = boot > o->heard_boot ? boot - o->heard_boot : 0;

        return o->ordered && (o->until == 0 || o->heard_real + since < o->until);
}

size_t observe_format(const struct observe *o, char buf[static OBSERVE_TEXT_MAX]) {
        int n = snprintf(buf, OBSERVE_TEXT_MAX,
                         "boot %s\nheard %" PRIu64 " %" PRIu64 "\nuntil %" PRIu64 "\n", o->boot_id,
                         o->heard_boot, o->heard_real, o->until);

        assert(n > 0 && n < OBSERVE_TEXT_MAX); /* every part of it is bounded */
        return (size_t) n;
}

/* What is not just the text that its values make is refused: signs, more blanks, numbers that do not fit. */
int observe_parse(const char *text, size_t len, struct observe *ret) {
        struct observe o = { .ordered = true };
        char copy[OBSERVE_TEXT_MAX], again[OBSERVE_TEXT_MAX];

        if (len >= sizeof(copy) || memchr(text, 0, len))
                return -EBADMSG;
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (sscanf(copy, "boot %36[0-9a-f-] heard %" SCNu64 " %" SCNu64 " until %" SCNu64, o.boot_id,
                   &o.heard_boot, &o.heard_real, &o.until) != 4)
                return -EBADMSG;
        (void) observe_format(&o, again);
        /* Half the range: clocks are added. */
        if (!streq(again, copy) || MAX(MAX(o.heard_boot, o.heard_real), o.until) > UINT64_MAX / 2)
                return -EBADMSG;
        *ret = o;
        return 0;
}
