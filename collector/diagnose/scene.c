/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include "grow.h"

void scene_clear(struct scene *s) {
        for (size_t i = 0; i < s->n_captures; i++)
                host_capture_clear(&s->captures[i]);
        free(s->captures);
        stack_table_clear(&s->table);
        *s = SCENE_NULL;
}

int scene_add(struct scene *s, struct host_capture *c) {
        int r = s->n_captures >= SCENE_CAPTURES_MAX
                        ? -E2BIG
                        : grow(&s->captures, &s->captures_size, s->n_captures + 1, sizeof(*s->captures));

        if (r < 0) {
                host_capture_clear(c);
                return r;
        }
        s->captures[s->n_captures++] = *c;
        host_capture_init(c); /* its arrays are the scene's now */
        return 0;
}
