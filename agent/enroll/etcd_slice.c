/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_slice.h"

bool etcd_slice_is_large(const json_t *whole) {
        return json_array_size(json_object_get(whole, "roster")) + json_array_size(json_object_get(whole, "missing")) >
               ETCD_SLICE_WHOLE;
}

bool etcd_slice_is_short(const json_t *record) {
        return json_is_integer(json_object_get(record, "there"));
}

static int put_first(json_t *at, const char *name, const char *count, const json_t *list) {
        json_t *first = json_array();
        int bad = first ? 0 : -1;

        for (size_t i = 0; first && i < MIN(json_array_size(list), (size_t) ETCD_SLICE_NAMED); i++)
                bad |= json_array_append(first, json_array_get(list, i));
        bad |= json_object_set_new(at, name, first);
        bad |= json_object_set_new(at, count, json_integer((json_int_t) json_array_size(list)));
        return bad;
}

json_t *etcd_slice_shorten(const json_t *whole) {
        json_t *s = json_copy((json_t *) (uintptr_t) whole);
        int bad;

        if (!s)
                return NULL;
        bad = json_object_set_new(s, "there",
                                  json_integer((json_int_t) json_array_size(json_object_get(whole, "roster"))));
        bad |= put_first(s, "missing", "absent", json_object_get(whole, "missing"));
        bad |= put_first(s, "conflicts", "disputed", json_object_get(whole, "conflicts"));
        (void) json_object_del(s, "roster"); /* fails when there is none only */
        if (bad == 0)
                return s;
        json_decref(s);
        return NULL;
}
