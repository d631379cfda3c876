/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs here by version: kernel, libtpu and the frameworks as wheels on disk, and the flags that the
 * host gives to every process. Hosts of one slice must agree (jax-ml/jax#10218); here one host is reported,
 * and judged only where it contradicts itself. It blocks: homes may be on the network.
 */
#include "words.h"
#include "wheels.h"

#define FILE_MAX (64 * 1024)

static const char *const packages[] = { "libtpu", "libtpu_nightly", "jax", "jaxlib",
                                        "torch",  "torch_xla",      NULL };
/* Variables whose values are flags and no secrets. */
static const char *const flags[] = { "LIBTPU_INIT_ARGS", "XLA_FLAGS",        "JAX_PLATFORMS",
                                     "PJRT_DEVICE",      "TPU_LIBRARY_PATH", "LD_PRELOAD" };

static void check_kernel(const struct host *h, struct sink *s) {
        char text[128];
        int r = host_read(h, "/proc/sys/kernel/osrelease", text, sizeof(text), NULL);

        if (r < 0)
                probe_tell(s, WORDS_KERNEL_UNREADABLE, NULL, strerror(-r), "%s", "");
        else
                probe_tell(s, WORDS_KERNEL, NULL, NULL, "%s", text);
}

/* Another version of w's package in the same directory, before it: an upgrade that broke off half-way. */
static const struct wheel *find_twin(const struct wheels *all, const struct wheel *w) {
        for (const struct wheel *o = all->items; o < w; o++)
                if (o->package == w->package && streq(o->directory, w->directory))
                        return o;
        return NULL;
}

/* "0.0.21 in /usr/local/lib/python3.10/dist-packages; 0.0.17 in …" */
static void tell_package(const struct wheels *all, const char *package, struct sink *s) {
        struct finding f;

        finding_init(&f, "fingerprint.wheel", package);
        f.verdict = VERDICT_OK;
        for (size_t i = 0; i < all->n; i++) {
                const struct wheel *w = &all->items[i], *twin;
                char before[sizeof(f.found)];

                if (!streq(w->package, package))
                        continue;
                memcpy(before, f.found, sizeof(before));
                finding_set(f.found, "%s%s%s in %s", before, before[0] ? "; " : "", w->version,
                            w->directory);
                twin = find_twin(all, w);
                if (!twin)
                        continue;
                check_say(&f, WORDS_WHEEL_TWICE, w->directory, twin->version, w->version, package);
        }
        (void) make_printable(f.found);
        if (f.found[0])
                s->finding(s, &f);
}

static void check_wheels(const struct host *h, struct sink *s) {
        struct wheels *all = malloc(sizeof(*all));

        if (!all)
                return;
        wheels_find(h, packages, all);
        for (const char *const *p = packages; *p; p++)
                tell_package(all, *p, s);
        if (all->more || (all->n == 0 && all->directories == 0))
                probe_tell(s, WORDS_WHEELS_UNREADABLE, NULL,
                           all->more ? "too many packages: not all were looked at" :
                                       "no directory of Python packages can be read",
                           "%s", "");
        else if (all->n == 0)
                probe_tell(s, WORDS_WHEELS_NONE, NULL, NULL,
                           "no wheel of libtpu, JAX or PyTorch in %u directories", all->directories);
        free(all);
}

static void tell_flag(char *line, struct sink *s) {
        char *value;
        size_t n;

        line += strspn(line, " \t");
        line += startswith(line, "export ") ? 7 : 0;
        value = strchr(line, '=');
        if (!value)
                return;
        *value++ = '\0';
        n = strlen(value);
        if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
                value[n - 1] = '\0';
                value++;
        }
        for (size_t i = 0; i < ELEMENTSOF(flags); i++)
                if (streq(line, flags[i]))
                        probe_tell(s, WORDS_FLAGS, flags[i], NULL, "%s", value);
}

static void check_flags(const struct host *h, struct sink *s) {
        _cleanup_free_ char *text = malloc(FILE_MAX);
        char *save = NULL;

        if (!text || host_read(h, "/etc/environment", text, FILE_MAX, NULL) < 0)
                return; /* the probe proxy says what is wrong with that file */
        for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
                tell_flag(l, s);
}

int probe_fingerprint(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        check_kernel(h, s);
        check_wheels(h, s);
        check_flags(h, s);
        return 0;
}
