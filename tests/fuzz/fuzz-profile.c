/* SPDX-License-Identifier: Apache-2.0 */
/* Any profile: whatever is taken has a source and a value that may be written, and a second reading gives
 * the same. */
#include "log.h"
#include "profile.h"
#include "sysctl.h"

static void check_named(const struct intent_sysctl *s) {
        char path[128], value[sizeof(s->value)];

        if (!s->source[0] || !s->value[0] || strlen(s->name) >= sizeof(s->name) ||
            intent_sysctl_path(s->name, path, sizeof(path)) < 0 || !startswith(path, "/proc/sys/") ||
            strstr(path, ".."))
                abort();
        memcpy(value, s->value, sizeof(value));
        intent_sysctl_normalize(value);
        if (!streq(value, s->value))
                abort();
}

static void check(const struct intent *i) {
        if (i->n_sysctls > ELEMENTSOF(i->sysctls) || i->n_parameters > ELEMENTSOF(i->parameters))
                abort();
        for (size_t k = 0; k < i->n_sysctls; k++)
                check_named(&i->sysctls[k]);
        for (size_t k = 0; k < i->n_parameters; k++)
                check_named(&i->parameters[k]);
        if (i->mtu > 0 && (i->mtu < INTENT_MTU_MIN || i->mtu > INTENT_MTU_MAX || !i->mtu_source[0]))
                abort();
        if (i->rto_min > USEC_PER_SEC || (i->rto_min > 0 && !i->rto_min_source[0]) ||
            (i->loose_rp_filter && !i->rp_filter_source[0]))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        /* The longest name there is: the least room for sources. */
        static struct intent one, two;
        const char *text = (const char *) data;

        log_set_level(-1);
        one = two = (struct intent) { .profile = "a-name-of-as-many-letters-as-go" };
        if (profile_parse("fuzz.conf", text, size, &one) < 0)
                return 0;
        check(&one);
        if (profile_parse("fuzz.conf", text, size, &two) < 0 || memcmp(&one, &two, sizeof(one)) != 0)
                abort();
        return 0;
}
