/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other machines send to be merged. The first byte says what follows: 0 captures over the wire, each
 * behind two bytes of length; else JSON. What was read is diagnosed and printed in every way.
 */
#include "capture_read.h"
#include "capture_wire.h"
#include "diagnosis_print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void keep(struct scene *s, struct host_capture *c, int r) {
        if (r == 0)
                (void) scene_add(s, c, NULL); /* out of memory is all it can say */
        host_capture_clear(c);
}

static void wire(struct scene *s, const uint8_t *data, size_t size) {
        while (size > 2) {
                size_t n = MIN((size_t) data[0] << 8 | data[1], size - 2);
                struct host_capture c;
                const char *why;

                host_capture_init(&c);
                keep(s, &c, capture_wire_unpack(data + 2, n, &c, &s->table, &why));
                data += 2 + n;
                size -= 2 + n;
        }
}

static void json(struct scene *s, const char *text, size_t size) {
        json_t *v = json_loadb(text, size, 0, NULL);

        for (size_t i = 0; i < MAX(json_array_size(v), (size_t) 1); i++) {
                char why[CAPTURE_WHY_MAX];
                struct host_capture c;

                host_capture_init(&c);
                keep(s, &c,
                     capture_json_read(json_is_array(v) ? json_array_get(v, i) : v, &c, &s->table, why));
        }
        json_decref(v);
}

/* What was read can be sent, too, and reads the same. */
static void again(const struct scene *s) {
        for (size_t i = 0; i < s->n_captures && i < 4; i++) {
                _cleanup_scene_ struct scene copy = SCENE_NULL;
                struct host_capture c;
                const char *why;
                uint8_t *data;
                size_t len;

                if (capture_wire_pack(&s->captures[i], &s->table, &data, &len) < 0)
                        return;
                host_capture_init(&c);
                if (capture_wire_unpack(data, len, &c, &copy.table, &why) < 0 ||
                    c.n_threads != s->captures[i].n_threads || copy.table.n_stacks != s->table.n_stacks)
                        abort();
                host_capture_clear(&c);
                free(data);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct diagnose_options o = { .hosts = 5 };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;
        char *out = NULL;
        size_t n = 0;
        FILE *f;

        if (size == 0)
                return 0;
        if (data[0] == 0)
                wire(&scene, data + 1, size - 1);
        else
                json(&scene, (const char *) data + 1, size - 1);
        again(&scene);
        if (diagnose(&scene, &o, &d) < 0 || !(f = open_memstream(&out, &n)))
                return 0;
        (void) diagnosis_print_text(f, d, true); /* into memory */
        json_decref(diagnosis_to_json(d, true));
        (void) fclose(f);
        free(out);
        (void) diagnosis_free(d);
        return 0;
}
