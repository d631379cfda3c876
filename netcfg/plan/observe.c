/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "observe.h"

#define HEAD "tpu-netcfg-observe 1\n"

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
        int n = snprintf(buf, OBSERVE_TEXT_MAX, HEAD "boot %s\nheard %" PRIu64 " %" PRIu64 "\nuntil %" PRIu64 "\n",
                         o->boot_id, o->heard_boot, o->heard_real, o->until);

        assert(n > 0 && n < OBSERVE_TEXT_MAX); /* every part of it is bounded */
        return (size_t) n;
}

/* Digits up to end, which is stepped over. Half the range: clocks are added. */
static bool take_number(const char **text, char end, uint64_t *ret) {
        char *behind;

        if (**text < '0' || **text > '9')
                return false;
        errno = 0;
        *ret = strtoull(*text, &behind, 10);
        if (errno || *behind != end || *ret > UINT64_MAX / 2)
                return false;
        *text = behind + 1;
        return true;
}

static bool take_word(const char **text, const char *word) {
        if (!startswith(*text, word))
                return false;
        *text += strlen(word);
        return true;
}

static bool take_boot(const char **text, char ret[static BOOT_ID_MAX]) {
        size_t len = strspn(*text, "0123456789abcdef-");

        if (len == 0 || len >= BOOT_ID_MAX || (*text)[len] != '\n')
                return false;
        memcpy(ret, *text, len);
        ret[len] = '\0';
        *text += len + 1;
        return true;
}

int observe_parse(const char *text, size_t len, struct observe *ret) {
        struct observe o = { .ordered = true };
        char copy[OBSERVE_TEXT_MAX];
        const char *at = copy;

        if (len >= sizeof(copy) || memchr(text, 0, len))
                return -EBADMSG;
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (!take_word(&at, HEAD "boot ") || !take_boot(&at, o.boot_id) || !take_word(&at, "heard ") ||
            !take_number(&at, ' ', &o.heard_boot) || !take_number(&at, '\n', &o.heard_real) ||
            !take_word(&at, "until ") || !take_number(&at, '\n', &o.until) || *at)
                return -EBADMSG;
        *ret = o;
        return 0;
}
