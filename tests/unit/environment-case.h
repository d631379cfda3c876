/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A worker of one slice, its environment, and what is expected of that. */
#include "environment.h"
#include "test.h"

static inline void set(struct identity *i, enum identity_field f, const char *text) {
        free(i->fields[f].text);
        i->fields[f].text = text ? strdup(text) : NULL;
        (void) snprintf(i->fields[f].origin, sizeof(i->fields[f].origin), "/etc/x.conf:%d", (int) f);
}

static inline void make_slice(struct identity *i) {
        set(i, IDENTITY_SLICE_NAME, "slice-a");
        set(i, IDENTITY_ACCELERATOR_TYPE, "v6e-16");
        set(i, IDENTITY_TOPOLOGY, "4x4");
        set(i, IDENTITY_WORKER_ID, "3");
        set(i, IDENTITY_WORKER_HOSTNAMES, "h0,h1,h2,h3");
        set(i, IDENTITY_CHIPS, "4");
}

static inline int build(const struct identity *i, enum framework f, const char *const *user, size_t n,
                 struct environment *ret, char why[static ENVIRONMENT_WHY_MAX]) {
        const struct environment_options o = { .framework = f, .user = user, .n_user = n };

        return environment_build(i, &o, ret, why);
}

static inline const struct environment_entry *get(const struct environment *e, const char *name) {
        for (size_t i = 0; i < e->n; i++)
                if (startswith(e->entries[i].assignment, name) &&
                    e->entries[i].assignment[strlen(name)] == '=')
                        return &e->entries[i];
        return NULL;
}

static inline void expect(const struct environment *e, const char *name, const char *value) {
        const struct environment_entry *entry = get(e, name);

        ASSERT_TRUE(entry != NULL);
        ASSERT_STREQ(entry->assignment + strlen(name) + 1, value);
        ASSERT_TRUE(entry->reason[0] != '\0');
}

static inline void make_half(struct identity *i) {
        make_slice(i);
        set(i, IDENTITY_ACCELERATOR_TYPE, "v6e-8");
        set(i, IDENTITY_TOPOLOGY, "2x4");
}

static const char *const slices[] = { "s0", "s1" };
static const uint32_t sizes[] = { 2, 2 };
static const char *const hosts_of[2][2] = { { "10.0.0.1", "10.0.0.2" }, { "10.0.0.3", "b1" } };
static const struct environment_gang gang = {
        .run = "run1", .generation = 7, .slices = slices, .sizes = sizes, .n_slices = 2, .slice = 1,
        .worker = 1, .hosts = hosts_of[1], .coordinator = "10.0.0.1"
};
