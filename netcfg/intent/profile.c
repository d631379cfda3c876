/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "profile.h"

#define SYSCTL_PREFIX "Sysctl "
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

static const char *take_sysctl(struct reading *r, const char *name) {
        struct intent *i = r->intent;
        struct intent_sysctl s = { 0 };
        const char *wrong;
        char path[128];

        if (intent_sysctl_path(name, path, sizeof(path)) < 0 || strlen(name) >= sizeof(s.name))
                return "that is no name of a sysctl";
        for (size_t k = 0; k < i->n_sysctls; k++)
                if (streq(i->sysctls[k].name, name))
                        return "there is one of that name already";
        if (i->n_sysctls == INTENT_SYSCTLS_MAX)
                return "too many sysctls";
        intent_sysctl_normalize(r->section.value);
        if (strlen(r->section.value) >= sizeof(s.value) ||
            r->section.value[strspn(r->section.value, "0123456789abcdefghijklmnopqrstuvwxyz_- ")])
                return "Value= must be numbers or lower case words";
        wrong = set_source(r, s.source, sizeof(s.source));
        if (wrong)
                return wrong;
        (void) snprintf(s.name, sizeof(s.name), "%s", name);
        (void) snprintf(s.value, sizeof(s.value), "%s", r->section.value);
        i->sysctls[i->n_sysctls++] = s;
        return NULL;
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
        if (streq(s->name, "Mtu"))
                return take_mtu(r);
        if (startswith(s->name, SYSCTL_PREFIX))
                return take_sysctl(r, s->name + strlen(SYSCTL_PREFIX));
        return "there is no such setting";
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
