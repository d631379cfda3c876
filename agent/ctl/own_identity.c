/* SPDX-License-Identifier: Apache-2.0 */
#include "own_identity.h"

#include "identity_environment.h"
#include "json_text.h"
#include "metadata_copy.h"
#include "table.h"

/* What tpu-hostd made of it, for callers who may not read it. */
static int add_hostds(const struct options *o, struct identity *i) {
        struct problem problem;
        json_t *answer = NULL, *field;
        const char *name;
        int r = hostd_call(o->root, NULL, "/v1/identity", HOSTD_TIMEOUT, &answer, &problem);

        if (r < 0) {
                fprintf(stderr,
                        "%s: only root may read what the metadata server answered (%s), and tpu-hostd is "
                        "silent\n",
                        o->program, PATH_METADATA_COPY);
                return 0;
        }
        r = 0;
        json_object_foreach(answer, name, field) {
                const char *value = json_string_value(json_object_get(field, "value"));
                enum identity_field f;

                if (r != -ENOMEM && value && identity_field_parse(name, &f) == 0)
                        r = identity_add(i, f, value, json_text_of(field, "origin"));
        }
        json_decref(answer);
        return r == -ENOMEM ? r : identity_derive(i);
}

static int add_copy(const struct host *h, const struct options *o, struct identity *i) {
        char why[METADATA_WHY_MAX] = "", origin[METADATA_ORIGIN_MAX];
        struct metadata_copy copy;
        int r = metadata_copy_read(h, PATH_METADATA_COPY, &copy, why);

        if (r == -EACCES)
                return add_hostds(o, i);
        if (r < 0 && r != -ENOENT)
                fprintf(stderr, "%s: %s is passed over: %s\n", o->program, PATH_METADATA_COPY, why);
        if (r < 0)
                return 0;
        if (!metadata_copy_is_ours(h, &copy)) {
                fprintf(stderr, "%s: %s is passed over: %s\n", o->program, PATH_METADATA_COPY,
                        METADATA_COPY_OTHERS);
                metadata_facts_clear(&copy.facts);
                return 0;
        }
        r = metadata_facts_fill(&copy.facts, metadata_copy_origin(&copy, origin), i);
        metadata_facts_clear(&copy.facts);
        return r;
}

int own_identity(const struct host *h, const struct options *o, struct identity *ret) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        char bad[128] = "";
        int r = identity_load(h, o->config, &i);

        if (r == 0 && h->real_root)
                r = identity_add_environment(&i, environ, bad);
        if (bad[0])
                fprintf(stderr, "%s: %s\n", o->program, bad);
        if (r == 0)
                r = add_copy(h, o, &i);
        if (r < 0)
                return r;
        *ret = i;
        i = IDENTITY_NULL;
        return 0;
}
