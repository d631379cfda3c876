/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_finding.h"

struct kept_finding *kept_finding_new(const struct finding *f) {
        const char *texts[] = { f->check, f->subject, f->found, f->wanted, f->source, f->reason, f->remedy };
        size_t size = 0;
        struct kept_finding *k;
        char *at;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                size += strlen(texts[i]) + 1;
        k = malloc(sizeof(*k) + size);
        if (!k)
                return NULL;
        at = k->texts;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                size_t len = strlen(texts[i]) + 1;

                texts[i] = memcpy(at, texts[i], len);
                at += len;
        }
        k->references = 1;
        k->verdict = f->verdict;
        k->check = texts[0];
        k->subject = texts[1];
        k->found = texts[2];
        k->wanted = texts[3];
        k->source = texts[4];
        k->reason = texts[5];
        k->remedy = texts[6];
        return k;
}

struct kept_finding *kept_finding_ref(struct kept_finding *k) {
        k->references++;
        return k;
}

struct kept_finding *kept_finding_unref(struct kept_finding *k) {
        if (k && --k->references == 0)
                free(k);
        return NULL;
}

bool kept_finding_says(const struct kept_finding *k, const struct finding *f) {
        return k->verdict == f->verdict && streq(k->found, f->found) && streq(k->reason, f->reason) &&
               streq(k->wanted, f->wanted) && streq(k->source, f->source) && streq(k->remedy, f->remedy) &&
               streq(k->check, f->check) && streq(k->subject, f->subject);
}

void kept_finding_unpack(const struct kept_finding *k, struct finding *ret) {
        finding_init(ret, k->check, k->subject);
        ret->verdict = k->verdict;
        finding_set(ret->found, "%s", k->found);
        finding_set(ret->wanted, "%s", k->wanted);
        finding_set(ret->source, "%s", k->source);
        finding_set(ret->reason, "%s", k->reason);
        finding_set(ret->remedy, "%s", k->remedy);
}
