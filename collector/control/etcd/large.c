/* SPDX-License-Identifier: Apache-2.0 */
#include "large.h"
#include "json_text.h"

#define PIECES_MAX 64 /* of one list: 16384 entries, four times what a slice may have */
#define LISTS_MAX 4096

void large_prefix(const char *key, const char *number, char ret[static LARGE_KEY_MAX]) {
        (void) snprintf(ret, LARGE_KEY_MAX, LARGE_PREFIX "%.160s/%.40s%s", key, number, *number ? "/" : "");
}

bool large_has_pieces(const json_t *head) {
        return *json_text_of(head, "pieces");
}

/* Calls visit for each list that may be long, with its place; the object it is in may be altered. */
static int for_lists(const char *key, json_t *v,
                     int (*visit)(json_t *in, const char *name, size_t place, void *userdata),
                     void *userdata) {
        static const char *const of_slice[] = { "roster", "missing" };
        size_t i;
        json_t *s;
        int r = 0;

        if (startswith(key, "slice/"))
                for (i = 0; i < ELEMENTSOF(of_slice) && r >= 0; i++)
                        r = visit(v, of_slice[i], i, userdata);
        else if (startswith(key, "run/"))
                json_array_foreach (json_object_get(v, "slices"), i, s)
                        r = r < 0 ? r : i < LISTS_MAX ? visit(s, "hosts", i, userdata) : -EMSGSIZE;
        else
                return -EMSGSIZE;
        return r;
}

struct pieces {
        char prefix[LARGE_KEY_MAX];
        json_t *to;
        const json_t *from;
};

static void piece_key(const struct pieces *p, size_t place, size_t i, char ret[static LARGE_KEY_MAX + 48]) {
        (void) snprintf(ret, LARGE_KEY_MAX + 48, "%s%zu/%zu", p->prefix, place, i);
}

static json_t *part_of(const json_t *list, size_t from) {
        json_t *part = json_array();

        for (size_t i = from; part && i < MIN(from + LARGE_PIECE, json_array_size(list)); i++)
                if (json_array_append(part, json_array_get(list, i)) < 0) {
                        json_decref(part);
                        return NULL;
                }
        return part;
}

static int take_out(json_t *in, const char *name, size_t place, void *userdata) {
        struct pieces *p = userdata;
        json_t *list = json_object_get(in, name);
        size_t n = 0;

        if (!json_is_array(list))
                return 0;
        for (; n * LARGE_PIECE < json_array_size(list); n++) {
                char key[LARGE_KEY_MAX + 48];

                if (n == PIECES_MAX)
                        return -EMSGSIZE;
                piece_key(p, place, n, key);
                if (json_object_set_new(
                            p->to, key,
                            json_pack("{s:i, s:o}", "v", 1, "list", part_of(list, n * LARGE_PIECE))) < 0)
                        return -ENOMEM;
        }
        return json_object_set_new(in, name, json_pack("{s:i}", "pieces", (int) n)) < 0 ? -ENOMEM : 0;
}

/* The head is altered: what holds a list is copied. The lists themselves are shared. */
static json_t *copy_of(const json_t *v) {
        json_t *copy = json_copy((json_t *) (uintptr_t) v), *slices = json_object_get(copy, "slices"), *own;
        size_t i;
        json_t *s;

        if (!copy || !json_is_array(slices))
                return copy;
        own = json_array();
        json_array_foreach (slices, i, s)
                if (own && json_array_append_new(own, json_copy(s)) < 0) {
                        json_decref(own);
                        own = NULL;
                }
        if (own && json_object_set_new(copy, "slices", own) == 0)
                return copy;
        json_decref(copy);
        return NULL;
}

int large_split(const char *key, const json_t *value, const char *number, json_t **ret_head,
                json_t *pieces) {
        struct pieces p = { .to = pieces };
        json_t *head = copy_of(value);
        int r;

        if (!head)
                return -ENOMEM;
        large_prefix(key, number, p.prefix);
        r = for_lists(key, head, take_out, &p);
        if (r >= 0 && json_object_set_new(head, "pieces", json_string(number)) < 0)
                r = -ENOMEM;
        if (r < 0) {
                json_decref(head);
                return r;
        }
        *ret_head = head;
        return 0;
}

static int put_in(json_t *in, const char *name, size_t place, void *userdata) {
        struct pieces *p = userdata;
        const json_t *head = json_object_get(in, name);
        json_int_t n = json_integer_value(json_object_get(head, "pieces"));
        json_t *list;
        int r = 0;

        if (!json_is_object(head))
                return 0;
        if (n < 0 || n > PIECES_MAX)
                return -EBADMSG;
        list = json_array();
        if (!list)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < (size_t) n; i++) {
                char key[LARGE_KEY_MAX + 48];
                json_t *part;

                piece_key(p, place, i, key);
                part = json_object_get(json_object_get(p->from, key), "list");
                r = !json_is_array(part) ? -ENOENT : json_array_extend(list, part) < 0 ? -ENOMEM : 0;
        }
        if (r == 0 && json_object_set(in, name, list) < 0)
                r = -ENOMEM;
        json_decref(list);
        return r;
}

int large_join(const char *key, const json_t *head, const json_t *pieces, json_t **ret) {
        struct pieces p = { .from = pieces };
        json_t *whole = copy_of(head);
        int r;

        if (!whole)
                return -ENOMEM;
        large_prefix(key, json_text_of(head, "pieces"), p.prefix);
        r = for_lists(key, whole, put_in, &p);
        if (r < 0) {
                json_decref(whole);
                return r == -EMSGSIZE ? -EBADMSG : r;
        }
        (void) json_object_del(whole, "pieces"); /* it is there */
        *ret = whole;
        return 0;
}
