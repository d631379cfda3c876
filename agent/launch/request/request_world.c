/* SPDX-License-Identifier: Apache-2.0 */
#include "request_world.h"

#include <assert.h>

#include "allocator.h"
#include "run_spec.h"

#define SLICES_MAX 4096
#define ORIGIN_MAX 127

static int refuse_world(struct problem *p, const char *text) {
        return problem_set(p, -EINVAL, "tpu-hostd --version; tpu-launchd --version",
                           "the run's hosts do not fit together: %s", text);
}

int request_world_gang(const Local__RunRequest *q, struct environment_gang *ret, struct problem *p) {
        const Local__World *w = q->world;

        if (w->n_slice > SLICES_MAX || w->n_hosts != w->n_slice || w->own >= w->n_slice)
                return refuse_world(p, "this slice is none of its slices");
        if (w->n_host != w->hosts[w->own] || w->n_host > IDENTITY_HOSTS_MAX)
                return refuse_world(p, "a slice has another number of hosts than are named");
        if (w->port > UINT16_MAX)
                return refuse_world(p, "there is no such port");
        *ret = (struct environment_gang){ .run = q->spec->name,
                                          .generation = q->generation,
                                          .slices = (const char *const *) w->slice,
                                          .sizes = w->hosts,
                                          .n_slices = w->n_slice,
                                          .slice = w->own,
                                          .worker = w->worker,
                                          .hosts = (const char *const *) w->host,
                                          .coordinator = w->coordinator[0] ? w->coordinator : NULL,
                                          .port = (uint16_t) w->port };
        return 0;
}

int request_world_facts(const Local__World *w, struct identity *i, struct problem *p) {
        if (!environment_text_is_valid(w->interfaces)) /* they go into a variable as they are */
                return refuse_world(p, "names of its interfaces are no text");
        for (size_t n = 0; n < w->n_fact; n++) {
                const Local__Fact *f = w->fact[n];
                enum identity_field field;
                int r = strlen(f->origin) <= ORIGIN_MAX && environment_text_is_valid(f->origin)
                                ? identity_field_parse(f->field, &field)
                                : -EINVAL;

                if (r == 0)
                        r = identity_add(i, field, f->value, f->origin);
                if (r == -EINVAL)
                        return problem_set(p, r, "tpuctl identity",
                                           "what the caller knows of this host cannot be: '%.32s'",
                                           environment_text_is_valid(f->field) ? f->field : "(binary)");
                if (r < 0)
                        return problem_no_memory(p);
        }
        return w->n_fact > 0 ? identity_derive(i) : 0;
}

/* --- Environment --------------------------------------------------------------------------------------- */

static int add_conflict(char **conflicts, const struct environment_entry *e) {
        int name = (int) strcspn(e->assignment, "=");
        size_t n;

        for (n = 0; conflicts[n]; n++)
                ;
        if (asprintf(&conflicts[n], "%.*s: %s", name, e->assignment, e->conflict) < 0) {
                conflicts[n] = NULL;
                return -ENOMEM;
        }
        return 0;
}

/* The environment's assignments and the allocator's, in one list; the allocator's LD_PRELOAD stands for the
 * user's. */
static int freeze_environment(const struct environment *e, struct allocator_choice *c, struct kept_run *kept,
                              char **conflicts) {
        size_t n = 0;

        kept->env = calloc(e->n + 3, sizeof(*kept->env));
        if (!kept->env)
                return -ENOMEM;
        for (size_t i = 0; i < e->n; i++) {
                if (e->entries[i].conflict && add_conflict(conflicts, &e->entries[i]) < 0)
                        return -ENOMEM;
                if (c->preload && startswith(e->entries[i].assignment, "LD_PRELOAD="))
                        continue;
                kept->env[n] = strdup(e->entries[i].assignment);
                if (!kept->env[n++])
                        return -ENOMEM;
        }
        if (c->preload)
                kept->env[n++] = TAKE_PTR(c->preload);
        if (c->threshold)
                kept->env[n++] = TAKE_PTR(c->threshold);
        for (n = 0; c->conflict && conflicts[n]; n++)
                ;
        if (c->conflict)
                conflicts[n] = TAKE_PTR(c->conflict);
        memcpy(kept->malloc, c->note, sizeof(kept->malloc));
        return 0;
}
_Static_assert(sizeof(((struct kept_run *) 0)->malloc) == ALLOCATOR_NOTE_MAX,
               "kept_run holds the whole note");

static int set_allocator(const struct host *h, const Run__Spec *s, const struct environment *e,
                         struct allocator_choice *ret, struct problem *p) {
        enum allocator wanted;
        int r;

        if (s->image[0]) {
                (void) snprintf(ret->note, sizeof(ret->note), "glibc (in a container: unless its image "
                                                              "has another)");
                return 0;
        }
        r = allocator_parse(s->malloc, &wanted);
        assert(r >= 0); /* the table of keys has the same words */
        r = allocator_choose(h, wanted, e, ret);
        if (r == -ENOMEM)
                return problem_no_memory(p);
        if (r < 0)
                return problem_set(p, r, "apt-get install libgoogle-perftools4, or --malloc glibc", "%s",
                                   ret->note);
        return 0;
}

/* What the user set, and the keys that are variables. The texts are in pool then. */
static int user_variables(const Run__Spec *s, const char **list, char **pool, size_t *ret_n) {
        size_t n = 0, held = 0;

        for (; n < s->n_env; n++)
                list[n] = s->env[n];
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (!k->variable || !run_key_given(k, s))
                        continue;
                if (asprintf(&pool[held], "%s=%s", k->variable, run_key_text(k, s)) < 0) {
                        pool[held] = NULL;
                        return -ENOMEM;
                }
                list[n++] = pool[held++];
        }
        *ret_n = n;
        return 0;
}

static int build_environment(const struct identity *i, const Local__RunRequest *q, enum framework f,
                             struct environment *ret, struct problem *p) {
        struct environment_gang gang;
        const Run__Spec *s = q->spec;
        _cleanup_free_ const char **list = calloc(s->n_env + RUN_KEYS_MAX, sizeof(*list));
        _cleanup_(strings_freep) char **pool = calloc(RUN_KEYS_MAX + 1, sizeof(*pool));
        char why[ENVIRONMENT_WHY_MAX] = "";
        struct environment_options o = { .framework = f, .user = list };
        int r = list && pool ? user_variables(s, list, pool, &o.n_user) : -ENOMEM;

        if (r == 0 && q->world && q->world->n_slice > 0) {
                r = request_world_gang(q, &gang, p);
                if (r < 0)
                        return r;
                o.gang = &gang;
        }
        if (q->world && q->world->interfaces[0])
                o.interfaces = q->world->interfaces;
        if (r == 0)
                r = environment_build(i, &o, ret, why);
        if (r == -ENOMEM)
                return problem_no_memory(p);
        return r < 0 ? problem_set(p, r, "see: tpuctl identity, tpuctl env", "%s", why) : 0;
}

int request_environment(const struct host *h, struct identity *identity, const Local__RunRequest *q,
                        struct kept_run *kept, char ***ret_conflicts, struct problem *p) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_allocator_choice_ struct allocator_choice choice = { 0 };
        enum framework f;
        int r = framework_parse(q->spec->framework, &f);

        assert(r >= 0); /* the table of keys has the same words */
        if (q->world)
                r = request_world_facts(q->world, identity, p);
        if (r >= 0)
                r = build_environment(identity, q, f, &e, p);
        if (r >= 0)
                r = set_allocator(h, q->spec, &e, &choice, p);
        if (r < 0)
                return r;
        *ret_conflicts = calloc(e.n + 2, sizeof(**ret_conflicts));
        if (!*ret_conflicts || freeze_environment(&e, &choice, kept, *ret_conflicts) < 0)
                return problem_no_memory(p);
        return 0;
}
