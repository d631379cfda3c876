/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of other machines: read for a diagnosis and for people, one behind the other as a file holds
 * them. What was read is diagnosed and printed in every form, and reads the same when it is written again.
 */
#include "capture_read.h"
#include "capture_write.h"
#include "diagnosis_print.h"
#include "render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *data, size_t size, struct scene *s) {
        _cleanup_capture_reader_ struct capture_reader r;
        char why[CAPTURE_WHY_MAX];
        struct host_capture c;
        int k;

        capture_reader_init(&r, data, size, CAPTURE_DIAGNOSED);
        while ((k = capture_reader_next(&r, &c, &s->table, why)) > 0)
                (void) scene_add(s, &c); /* out of memory is all it can say */
        if (k < 0 && !why[0] && k != -ENOMEM)
                abort();
        host_capture_clear(&c);
}

static void write_threads(struct capture_writer *w, const struct host_capture *c,
                          const struct captured_process *p) {
        for (uint32_t i = p->first_thread; i < p->first_thread + p->n_threads; i++) {
                struct captured_thread *t;

                if (!capture_writer_has_room(w) || host_capture_add_thread(&w->c, &t) < 0)
                        return;
                *t = c->threads[i];
                t->first_wait = (uint32_t) w->c.n_waits;
                t->n_waits = 0;
                for (uint32_t k = 0; k < c->threads[i].n_waits && capture_writer_takes_wait(w); k++)
                        (void) host_capture_add_wait(&w->c,
                                                     &c->waits[c->threads[i].first_wait + k]);
                w->c.details[w->c.n_threads - 1] = c->details[i];
                if (capture_writer_thread(w) < 0)
                        return;
        }
}

static void write_again(const struct host_capture *c, struct stack_table *t) {
        struct capture_text text = { .text = NULL };
        char why[CAPTURE_WHY_MAX];
        struct capture_writer w;

        if (capture_writer_init(&w) < 0)
                return;
        w.table = *t; /* lent */
        for (size_t i = 0; i < c->n_processes; i++) {
                struct captured_process *p;

                capture_writer_share(&w, c->n_processes - 1 - i);
                if (host_capture_add_process(&w.c, &p) < 0)
                        break;
                *p = c->processes[i];
                p->first_thread = p->n_threads = p->first_module = p->n_modules = 0;
                p->first_socket = p->n_sockets = 0;
                for (uint32_t k = 0; k < c->processes[i].n_sockets && capture_writer_takes_socket(&w); k++)
                        (void) host_capture_add_socket(&w.c, &c->sockets[c->processes[i].first_socket + k]);
                write_threads(&w, c, &c->processes[i]);
                if (capture_writer_process(&w) < 0)
                        break;
        }
        for (size_t i = 0; i < c->n_ends && capture_writer_takes_end(&w); i++)
                (void) host_capture_add_end(&w.c, &c->ends[i]); /* out of memory is all it can say */
        if (capture_writer_end(&w) == 0 && !w.cut &&
            (w.len > CAPTURE_PACKED_MAX || capture_text_make(w.data, w.len, 4096, &text, why) < 0 ||
             text.threads != c->n_threads))
                abort();
        free(text.text);
        w.table = STACK_TABLE_NULL;
        capture_writer_clear(&w);
}

static void show(const uint8_t *data, size_t size) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        static struct render o;
        char why[CAPTURE_WHY_MAX], *text = NULL;
        size_t len = 0;
        FILE *f;

        if (capture_read(data, size, CAPTURE_SHOWN, &c, &t, why) < 0 || !(f = open_memstream(&text, &len)))
                return;
        render_begin(&o, f, true, 64 * 1024);
        render_capture(&o, &c, &t);
        (void) render_end(&o); /* into memory */
        (void) fclose(f);
        free(text);
        write_again(&c, &t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct diagnose_options o = { .hosts = 5 };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;
        char *out = NULL;
        size_t n = 0;
        FILE *f;

        show(data, size);
        read_all(data, size, &scene);
        if (diagnose(&scene, &o, &d) < 0 || !(f = open_memstream(&out, &n)))
                return 0;
        (void) diagnosis_print_text(f, d, true); /* into memory */
        json_decref(diagnosis_to_json(d, true));
        (void) fclose(f);
        free(out);
        (void) diagnosis_free(d);
        return 0;
}
