/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"
#include "json_text.h"

json_t *asked_hosts(const json_t *slices) {
        json_t *list = json_array(), *s, *h;
        size_t i, k;

        json_array_foreach (slices, i, s)
                json_array_foreach (json_object_get(s, "hosts"), k, h) {
                        const char *address =
                                json_string_value(json_array_get(json_object_get(h, "address"), 0));

                        if (list &&
                            json_array_append_new(list, json_pack("{s:s, s:O?, s:O?, s:s}", "slice",
                                                                  json_text_of(s, "slice"), "worker",
                                                                  json_object_get(h, "worker"), "host",
                                                                  json_object_get(h, "host"), "address",
                                                                  address ? address : "")) < 0) {
                                json_decref(list);
                                return NULL;
                        }
                }
        return list;
}

json_t *asked_names(const json_t *expected) {
        json_t *names = expected ? json_object() : NULL, *v;
        size_t i;

        json_array_foreach (expected, i, v)
                if (*json_text_of(v, "host"))
                        (void) json_object_set_new(names, json_text_of(v, "host"), json_true());
        return names;
}
