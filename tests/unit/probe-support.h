/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Running one probe on a folder, keeping what it says, and devices for such folders. */
#include "probe.h"
#include "scratch.h"

#define GOOD FIXTURES "/machine-v6e-4t"

/* A sink that keeps everything as text. */
struct collected {
        struct sink sink;
        struct finding_list findings;
        char samples[16384]; /* "NAME{key=value,…} VALUE\n" */
};

static void take_finding(struct sink *s, const struct finding *f) {
        ASSERT_OK(finding_list_add(&((struct collected *) s)->findings, f));
}

static void take_sample(struct sink *s, const struct sample *m) {
        struct collected *c = (struct collected *) s;
        size_t n = strlen(c->samples);
        char *p = c->samples + n, *end = c->samples + sizeof(c->samples);

        ASSERT_TRUE(m->name && m->description);
        p += snprintf(p, (size_t) (end - p), "%s{", m->name);
        for (size_t i = 0; i < ELEMENTSOF(m->keys) && m->keys[i]; i++)
                p += snprintf(p, (size_t) (end - p), "%s%s=%s", i > 0 ? "," : "", m->keys[i], m->values[i]);
        if (m->is_int)
                p += snprintf(p, (size_t) (end - p), "} %" PRId64 "\n", m->i);
        else
                p += snprintf(p, (size_t) (end - p), "} %g\n", m->d);
        ASSERT_TRUE(p < end);
}

static void collected_clear(struct collected *c) {
        finding_list_clear(&c->findings);
}
#define _cleanup_collected_ _cleanup_(collected_clear)

__attribute__((unused)) static int probe(const char *root, const char *name, const struct probe_context *c,
                                         struct collected *ret) {
        _cleanup_host_ struct host h = HOST_NULL;

        *ret = (struct collected){ .sink = { take_finding, take_sample } };
        ASSERT_OK(host_open(root, &h));
        ASSERT_TRUE(probe_find(name) != NULL);
        return probe_run(probe_find(name), &h, c, &ret->sink);
}

__attribute__((unused)) static const struct finding *find(const struct collected *c, const char *check,
                                                          const char *subject) {
        for (size_t i = 0; i < c->findings.n; i++)
                if (streq(c->findings.items[i].check, check) && streq(c->findings.items[i].subject, subject))
                        return &c->findings.items[i];
        test_fail(__FILE__, __LINE__, "no finding %s %s", check, subject);
}

#define ASSERT_HAS(text, part)             \
        (strstr((text), (part)) ? (void) 0 \
                                : test_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", (part), (text)))

/* The table of chips and machine types, as the package installs it. */
__attribute__((unused)) static void add_machines(const struct scratch *s) {
        _cleanup_host_ struct host h = HOST_NULL;
        char text[8192];

        ASSERT_OK(host_open(GOOD, &h));
        ASSERT_OK(host_read(&h, "/usr/lib/tpu-hostd/machines.conf", text, sizeof(text), NULL));
        scratch_write(s, "usr/lib/tpu-hostd/machines.conf", text);
}

__attribute__((unused)) static void add_device(const struct scratch *s, const char *address,
                                               const char *vendor, const char *device, const char *class,
                                               const char *driver) {
        const struct {
                const char *file, *text;
        } files[] = { { "vendor", vendor }, { "device", device }, { "class", class } };
        char path[256], target[64];

        add_machines(s);
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                (void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/%s", address, files[i].file);
                if (files[i].text)
                        scratch_write(s, path, files[i].text);
        }
        if (!driver)
                return;
        (void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/driver", address);
        (void) snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
        scratch_link(s, path, target);
}
