/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "profile.h"

#define SYSCTL_PREFIX "Sysctl "
#define PARAMETER_PREFIX "Parameter "
/* inih cuts a section's name at 49 characters without a word: a name that long is refused rather than
 * misread. */
#define SECTION_MAX 48

/* The section being read: it is taken as a whole when the next one starts. */
struct section {
        char name[SECTION_MAX + 1];
        char value[CONFIG_LINE_MAX + 1], source[CONFIG_LINE_MAX + 1];
        unsigned line; /* of its first key */
};

struct reading {
        const char *path;
        struct intent *intent;
        struct section section;
        int refused;
};

static void on_problem(void *userdata, unsigned line, const char *text) {
        struct reading *r = userdata;

        log_warning("%s:%u: %s", r->path, line, text);
        r->refused++;
}

static void refuse(struct reading *r, const char *text) {
        char buf[256];

        (void) snprintf(buf, sizeof(buf), "section [%s] is refused: %s", r->section.name, text);
        on_problem(r, r->section.line, buf);
}

static const char *set_source(const struct reading *r, char *dest, size_t size) {
        int n = snprintf(dest, size, "profile %s, line %u: %s", r->intent->profile, r->section.line,
                         r->section.source);

        return n < 0 || (size_t) n >= size ? "Source= is too long" : NULL;
}

/* The take_… functions return what is wrong, or NULL. */
static const char *take_mtu(struct reading *r) {
        struct intent *i = r->intent;
        char why[96], source[sizeof(i->mtu_source)];
        const char *wrong;
        uint32_t mtu = 0;

        if (i->mtu > 0)
                return "there is one already";
        if (config_parse_u32(r->section.value, &mtu, why) < 0 || mtu < INTENT_MTU_MIN ||
            mtu > INTENT_MTU_MAX)
                return "Value= must be an MTU between 1300 and 8896";
        wrong = set_source(r, source, sizeof(source));
        if (wrong)
                return wrong;
        i->mtu = mtu;
        memcpy(i->mtu_source, source, sizeof(source));
        return NULL;
}

/* One of a list of named values. */
static const char *take_named(struct reading *r, const char *name, struct intent_sysctl *list, size_t max,
                              size_t *n) {
        struct intent_sysctl s = { 0 };
        const char *wrong;
        char path[128];

        if (intent_sysctl_path(name, path, sizeof(path)) < 0 || strlen(name) >= sizeof(s.name))
                return "that is no name of such a setting";
        for (size_t k = 0; k < *n; k++)
                if (streq(list[k].name, name))
                        return "there is one of that name already";
        if (*n == max)
                return "too many of them";
        intent_sysctl_normalize(r->section.value);
        if (strlen(r->section.value) >= sizeof(s.value) ||
            r->section.value[strspn(r->section.value, "0123456789abcdefghijklmnopqrstuvwxyz_- ")])
                return "Value= must be numbers or lower case words";
        wrong = set_source(r, s.source, sizeof(s.source));
        if (wrong)
                return wrong;
        (void) snprintf(s.name, sizeof(s.name), "%s", name);
        (void) snprintf(s.value, sizeof(s.value), "%s", r->section.value);
        list[(*n)++] = s;
        return NULL;
}

static const char *take_rto_min(struct reading *r) {
        struct intent *i = r->intent;
        usec_t span = 0;
        char why[96];

        if (i->rto_min > 0)
                return "there is one already";
        /* The kernel's own least is a tick, its usual value 200 ms. */
        if (config_parse_usec(r->section.value, &span, why) < 0 || span < USEC_PER_MSEC ||
            span > USEC_PER_SEC || span % USEC_PER_MSEC != 0)
                return "Value= must be whole milliseconds between 1ms and 1s";
        i->rto_min = span;
        return set_source(r, i->rto_min_source, sizeof(i->rto_min_source));
}

static const char *take_rp_filter(struct reading *r) {
        struct intent *i = r->intent;

        if (!streq(r->section.value, "loose"))
                return "Value= must be loose";
        i->loose_rp_filter = true;
        return set_source(r, i->rp_filter_source, sizeof(i->rp_filter_source));
}

static const char *take_section(struct reading *r) {
        const char *name = r->section.name;
        struct intent *i = r->intent;

        if (streq(name, "Mtu"))
                return take_mtu(r);
        if (streq(name, "RtoMin"))
                return take_rto_min(r);
        if (streq(name, "RpFilter"))
                return take_rp_filter(r);
        if (startswith(name, SYSCTL_PREFIX))
                return take_named(r, name + strlen(SYSCTL_PREFIX), i->sysctls, ELEMENTSOF(i->sysctls),
                                  &i->n_sysctls);
        if (startswith(name, PARAMETER_PREFIX))
                return take_named(r, name + strlen(PARAMETER_PREFIX), i->parameters,
                                  ELEMENTSOF(i->parameters), &i->n_parameters);
        return "there is no such setting";
}

static const char *take(struct reading *r) {
        const struct section *s = &r->section;

        if (strlen(s->name) == SECTION_MAX)
                return "its name is too long";
        if (!s->value[0])
                return "it has no Value=";
        if (!s->source[0])
                return "a value without a Source= does not go in";
        if (strlen(s->source) > PROFILE_SOURCE_MAX)
                return "Source= is too long (88 characters at most)";
        return take_section(r);
}

static void finish_section(struct reading *r) {
        const char *wrong;

        if (r->section.line == 0)
                return;
        wrong = take(r);
        if (wrong)
                refuse(r, wrong);
        r->section = (struct section) { 0 };
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key, const char *value) {
        struct reading *r = userdata;
        char *dest;

        if (r->section.line == 0 || strncmp(section, r->section.name, SECTION_MAX) != 0) {
                finish_section(r);
                r->section.line = line;
                (void) snprintf(r->section.name, sizeof(r->section.name), "%s", section);
        }
        if (!streq(key, "Value") && !streq(key, "Source")) {
                on_problem(r, line, "unknown key: a section has Value= and Source=");
                return;
        }
        dest = streq(key, "Value") ? r->section.value : r->section.source;
        if (dest[0]) {
                on_problem(r, line, "the key is there twice, the first one counts");
                return;
        }
        (void) snprintf(dest, CONFIG_LINE_MAX + 1, "%s", value);
}

int profile_parse(const char *path, const char *text, size_t len, struct intent *i) {
        struct reading state = { .path = path, .intent = i };
        const struct config_reader reader = { .entry = on_entry, .problem = on_problem, .userdata = &state };
        int r;

        r = config_read_text(&reader, text, len);
        if (r < 0)
                return r;
        finish_section(&state);
        return state.refused;
}
