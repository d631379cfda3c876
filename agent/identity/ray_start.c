/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <jansson.h>

#include "ray_start.h"

/* {"TPU":4,"slice-a":1,"TPU-v6e-16-head":1}, the last on worker 0 alone */
static char *ray_resources(const struct ray_host *h, const char *pod) {
        char head[64];
        json_t *v = json_pack("{s:i}", "TPU", (int) h->chips);
        char *text;
        int bad = !v;

        (void) snprintf(head, sizeof(head), "TPU-%s-head", pod);
        if (h->slice)
                bad |= json_object_set_new(v, h->slice, json_integer(1)) < 0;
        if (h->worker == 0)
                bad |= json_object_set_new(v, head, json_integer(1)) < 0;
        text = bad ? NULL : json_dumps(v, JSON_COMPACT | JSON_PRESERVE_ORDER);
        json_decref(v);
        return text;
}

char *ray_start_text(const struct ray_host *h) {
        bool seventh = startswith(h->type, "tpu"); /* "v7x" in Ray's words */
        _cleanup_free_ char *resources = NULL;
        char pod[40], generation[16], *text;
        size_t n = 0;

        (void) snprintf(pod, sizeof(pod), "%s%s", seventh ? "v" : "", seventh ? h->type + 3 : h->type);
        for (; n < sizeof(generation) - 1 && pod[n] && pod[n] != '-'; n++)
                generation[n] = (char) toupper((unsigned char) pod[n]);
        generation[n] = '\0';
        resources = ray_resources(h, pod);
        if (!resources ||
            asprintf(&text,
                     "--resources=%s --labels=ray.io/accelerator-type=TPU-%s,ray.io/tpu-pod-type=%s,"
                     "ray.io/tpu-topology=%s,ray.io/tpu-worker-id=%zu%s%s",
                     resources, generation, pod, h->topology, h->worker,
                     h->slice ? ",ray.io/tpu-slice-name=" : "", h->slice ? h->slice : "") < 0)
                return NULL;
        return text;
}

bool ray_head_is_valid(const char *text) {
        const char *colon = strrchr(text, ':');

        return colon && colon != text && strlen(text) <= 260 &&
               strspn(colon + 1, "0123456789") == strlen(colon + 1) && atoi(colon + 1) >= 1 &&
               atoi(colon + 1) <= UINT16_MAX && !strpbrk(text, " \t\n");
}
