/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "draft.h"

/* Ray calls the seventh generation v7x in "TPU-v7x-16-head" and in its labels. */
static void pod_type(const char *type, char *buf, size_t size) {
        (void) snprintf(buf, size, "%s%s", startswith(type, "tpu") ? "v" : "",
                        startswith(type, "tpu") ? type + 3 : type);
}

/* {"TPU":4,"slice-a":1,"TPU-v6e-16-head":1}, the last on worker 0 alone */
static char *resources(const struct draft *d, const char *pod, uint32_t chips) {
        const struct world *w = &d->world;
        char head[64];
        json_t *v = json_pack("{s:i}", "TPU", (int) chips);
        char *text;
        int bad = !v;

        (void) snprintf(head, sizeof(head), "TPU-%s-head", pod);
        if (w->slice_name)
                bad |= json_object_set_new(v, w->slice_name, json_integer(1)) < 0;
        if (w->worker == 0)
                bad |= json_object_set_new(v, head, json_integer(1)) < 0;
        text = bad ? NULL : json_dumps(v, JSON_COMPACT | JSON_PRESERVE_ORDER);
        json_decref(v);
        return text;
}

static void labels(const struct draft *d, const char *pod, char *buf, size_t size) {
        char generation[16];
        size_t n = 0;

        for (; n < sizeof(generation) - 1 && pod[n] && pod[n] != '-'; n++)
                generation[n] = (char) toupper((unsigned char) pod[n]);
        generation[n] = '\0';
        (void) snprintf(buf, size,
                        "ray.io/accelerator-type=TPU-%s,ray.io/tpu-pod-type=%s,ray.io/tpu-topology=%s,"
                        "ray.io/tpu-worker-id=%zu%s%s",
                        generation, pod, identity_get(d->identity, IDENTITY_TOPOLOGY), d->world.worker,
                        d->world.slice_name ? ",ray.io/tpu-slice-name=" : "",
                        d->world.slice_name ? d->world.slice_name : "");
}

static int refuse_head(const struct draft *d) {
        (void) snprintf(d->why, ENVIRONMENT_WHY_MAX, "the head of Ray is HOST:PORT, not '%.80s'",
                        environment_text_is_valid(d->options->ray_head) ? d->options->ray_head : "(binary)");
        return -EINVAL;
}

/* Where the head is. */
static int head_of(const struct draft *d, char ret[static WORLD_ENDPOINT_MAX]) {
        const char *outside = d->options->ray_head, *colon = outside ? strrchr(outside, ':') : NULL;

        if (!outside) {
                (void) world_endpoint(d->world.coordinator, d->world.port, ret);
                return 0;
        }
        if (!colon || colon == outside || strlen(outside) > 260 ||
            strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) < 1 ||
            atoi(colon + 1) > UINT16_MAX || strpbrk(outside, " \t\n"))
                return refuse_head(d);
        (void) snprintf(ret, WORLD_ENDPOINT_MAX, "%s", outside);
        return 0;
}

static int add_start(struct draft *d, const struct draft_bounds *b, const char *head) {
        bool is_head = !d->options->ray_head && d->world.rank == 0;
        _cleanup_free_ char *amounts = NULL, *start = NULL;
        char pod[40], names[512], port[16];

        pod_type(identity_get(d->identity, IDENTITY_ACCELERATOR_TYPE), pod, sizeof(pod));
        amounts = resources(d, pod, b->chips);
        if (!amounts)
                return -ENOMEM;
        labels(d, pod, names, sizeof(names));
        (void) snprintf(port, sizeof(port), "%u", (unsigned) d->world.port);
        if (asprintf(&start, "%s%s --resources=%s --labels=%s",
                     is_head ? "--head --port=" : "--address=", is_head ? port : head, amounts, names) < 0) {
                start = NULL;
                return -ENOMEM;
        }
        const struct draft_variable ours[] = {
                { "RAY_ADDRESS", head,
                  d->options->ray_head ? "the head that was named" : d->world.coordinator_reason, true },
                { "TPU_RAY_START", start,
                  is_head ? "this host is the head: ray start $TPU_RAY_START --block" :
                            "this host joins the head: ray start $TPU_RAY_START --block",
                  true },
        };
        return draft_add(d, ours, ELEMENTSOF(ours));
}

int draft_add_ray(struct draft *d) {
        char head[WORLD_ENDPOINT_MAX];
        struct draft_bounds b;
        int r;

        r = draft_add_identity(d, true);
        if (r == 0)
                r = draft_bounds(d, &b);
        if (r == 0)
                r = head_of(d, head);
        if (r == 0)
                r = draft_add_libtpu(d, &b, false);
        if (r == 0)
                r = draft_add_megascale(d);
        return r < 0 ? r : add_start(d, &b, head);
}
