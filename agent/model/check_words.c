/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "check_words.h"
#include "template.h"

#define VERDICT_KEPT _VERDICT_MAX /* the judge's own */

static const struct row {
        const char *check;
        enum verdict verdict;
        const char *wanted, *source, *reason, *remedy;
} rows[] = {
#define WORDS(id, check, verdict, wanted, source, reason, remedy)                                           \
        [WORDS_##id] = { check, VERDICT_##verdict, wanted, source, reason, remedy },
#include "check_words.def"
#undef WORDS
};

struct filling {
        const struct finding *finding;
        const char *const *fields; /* from 1 on */
        size_t n;
};

static const char *field_text(const char *key, size_t len, char buf[static TEMPLATE_NUMBER_MAX],
                              const void *of) {
        const struct filling *f = of;

        (void) buf;
        if (len == 0)
                return f->finding->subject;
        assert(len == 1 && key[0] >= '1' && key[0] <= '9');
        return (size_t) (key[0] - '0') < f->n ? f->fields[key[0] - '0'] : NULL;
}

static void put_filled(char *text, size_t size, const char *template, const struct filling *f) {
        char buf[1024];

        if (*template)
                finding_format(text, size, "%s", template_fill(buf, sizeof(buf), template, field_text, f));
}

void check_fill(struct finding *f, enum check_words w, const char *const *fields, size_t n) {
        const struct filling filling = { .finding = f, .fields = fields, .n = n };
        const struct row *row;

        assert(w < _WORDS_MAX);
        row = &rows[w];
        if (row->verdict != VERDICT_KEPT)
                f->verdict = row->verdict;
        put_filled(f->wanted, sizeof(f->wanted), row->wanted, &filling);
        put_filled(f->source, sizeof(f->source), row->source, &filling);
        put_filled(f->reason, sizeof(f->reason), row->reason, &filling);
        put_filled(f->remedy, sizeof(f->remedy), row->remedy, &filling);
}

void check_begin(struct finding *f, enum check_words w, const char *subject) {
        assert(w < _WORDS_MAX && rows[w].check[0]);
        finding_init(f, rows[w].check, subject);
}

bool check_says(const struct finding *f, enum check_words w) {
        return streq(f->remedy, rows[w].remedy);
}
