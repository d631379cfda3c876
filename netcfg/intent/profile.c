/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "paths.h"
#include "profile.h"
#include "sysctl.h"

#define SYSCTL_PREFIX "Sysctl "
#define PARAMETER_PREFIX "Parameter "
#define FEATURE_PREFIX "Feature "
#define PRIVATE_FLAG_PREFIX "PrivateFlag "
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

static void refuse_key(struct reading *r, const char *text) {
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
        const char *wrong;
        uint32_t mtu = 0;
        char why[96];

        if (i->mtu > 0)
                return "there is one already";
        if (config_parse_u32_within(r->section.value, INTENT_MTU_MIN, INTENT_MTU_MAX, &mtu, why) < 0)
                return "Value= must be an MTU between 1300 and 8896";
        wrong = set_source(r, i->mtu_source, sizeof(i->mtu_source));
        if (!wrong)
                i->mtu = mtu;
        return wrong;
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

/* --- Settings of each NIC ----------------------------------------------------------------------------- */

#define NIC_SETTING_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static const char *set_switch_value(const char *text, char dest[static 16]) {
        if (!streq(text, "on") && !streq(text, "off"))
                return "Value= must be on or off";
        (void) snprintf(dest, 16, "%s", streq(text, "on") ? "on" : "off");
        return NULL;
}

static const char *take_nic_setting(struct reading *r, enum nic_setting_kind kind, const char *driver,
                                    const char *name) {
        struct intent_nic_setting s = { .kind = kind };
        struct intent *i = r->intent;
        const char *wrong;

        if (!name[0] || name[strspn(name, NIC_SETTING_LETTERS)] || strlen(name) >= sizeof(s.name) ||
            strlen(driver) >= sizeof(s.driver))
                return "that is no name of such a setting";
        for (size_t k = 0; k < i->n_nic_settings; k++)
                if (i->nic_settings[k].kind == kind && streq(i->nic_settings[k].name, name) &&
                    streq(i->nic_settings[k].driver, driver))
                        return "there is one of that name already";
        if (i->n_nic_settings == INTENT_NIC_SETTINGS_MAX)
                return "too many of them";
        wrong = set_switch_value(r->section.value, s.value);
        if (!wrong)
                wrong = set_source(r, s.source, sizeof(s.source));
        if (wrong)
                return wrong;
        (void) snprintf(s.name, sizeof(s.name), "%s", name);
        (void) snprintf(s.driver, sizeof(s.driver), "%s", driver);
        i->nic_settings[i->n_nic_settings++] = s;
        return NULL;
}

/* "gve enable-max-rx-buffer-size" */
static const char *take_private_flag(struct reading *r, const char *text) {
        char driver[SECTION_MAX + 1], *blank;

        (void) snprintf(driver, sizeof(driver), "%s", text);
        blank = strchr(driver, ' ');
        if (!blank || blank == driver)
                return "a private flag has a driver and a name: [PrivateFlag gve NAME]";
        *blank = '\0';
        return take_nic_setting(r, NIC_PRIVATE_FLAG, driver, blank + 1);
}

/* --- One of a kind ------------------------------------------------------------------------------------ */

static const char *take_rto_min(struct reading *r) {
        struct intent *i = r->intent;
        const char *wrong;
        usec_t span = 0;
        char why[96];

        if (i->rto_min > 0)
                return "there is one already";
        /* The kernel's own least is a tick, its usual value 200 ms. */
        if (config_parse_usec(r->section.value, &span, why) < 0 || span < USEC_PER_MSEC ||
            span > USEC_PER_SEC || span % USEC_PER_MSEC != 0)
                return "Value= must be whole milliseconds between 1ms and 1s";
        wrong = set_source(r, i->rto_min_source, sizeof(i->rto_min_source));
        if (!wrong)
                i->rto_min = span;
        return wrong;
}

/* Wanted with the one word that may be said of it. */
static const char *take_switch(struct reading *r, const char *word, bool *dest, char *source, size_t size) {
        const char *wrong;

        if (!streq(r->section.value, word))
                return "Value= must be loose of RpFilter, yes of SourceRouting";
        wrong = set_source(r, source, size);
        *dest |= !wrong;
        return wrong;
}

static const char *take_section(struct reading *r) {
        const char *name = r->section.name;
        struct intent *i = r->intent;

        if (streq(name, "Mtu"))
                return take_mtu(r);
        if (streq(name, "RtoMin"))
                return take_rto_min(r);
        if (streq(name, "RpFilter"))
                return take_switch(r, "loose", &i->loose_rp_filter, i->rp_filter_source,
                                   sizeof(i->rp_filter_source));
        if (streq(name, "SourceRouting"))
                return take_switch(r, "yes", &i->source_routing, i->source_routing_source,
                                   sizeof(i->source_routing_source));
        if (startswith(name, SYSCTL_PREFIX))
                return !startswith(name + strlen(SYSCTL_PREFIX), INTENT_SYSCTL_PREFIX) ?
                               "only sysctls below net. are set" :
                               take_named(r, name + strlen(SYSCTL_PREFIX), i->sysctls,
                                  ELEMENTSOF(i->sysctls), &i->n_sysctls);
        if (startswith(name, PARAMETER_PREFIX))
                return !startswith(name + strlen(PARAMETER_PREFIX), INTENT_PARAMETER_PREFIX) ?
                               "only parameters of modules tcp_* are set" :
                               take_named(r, name + strlen(PARAMETER_PREFIX), i->parameters,
                                  ELEMENTSOF(i->parameters), &i->n_parameters);
        if (startswith(name, FEATURE_PREFIX))
                return take_nic_setting(r, NIC_FEATURE, "", name + strlen(FEATURE_PREFIX));
        if (startswith(name, PRIVATE_FLAG_PREFIX))
                return take_private_flag(r, name + strlen(PRIVATE_FLAG_PREFIX));
        if (startswith(name, "Link "))
                return "packet sizes are no longer set: the kernel's own defaults are what was wanted";
        return "there is no such setting";
}

static const char *take_profile_key(struct reading *r) {
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
        wrong = take_profile_key(r);
        if (wrong)
                refuse_key(r, wrong);
        r->section = (struct section) { 0 };
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key,
                     const char *value) {
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

int profile_read(const struct host *h, const char *name, char path[static 128], char *text,
                 size_t *ret_len) {
        static const char *const dirs[] = { PATH_SITE, PATH_RUNTIME, PATH_VENDOR }; /* strongest first */
        int r = -ENOENT;

        for (size_t k = 0; k < ELEMENTSOF(dirs) && r == -ENOENT; k++) {
                (void) snprintf(path, 128, "%s/%s", dirs[k], name);
                r = host_read(h, path, text, CONFIG_FILE_MAX, ret_len);
        }
        return r;
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
