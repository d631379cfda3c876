/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "json_fields.h"
#include "metadata_copy.h"
#include "texts.h"

const struct state_format metadata_copy_file = {
        .what = "metadata", .version = 1, .max = METADATA_BODY_MAX, .options = { .mode = 0600 }
};

/* --- The text ----------------------------------------------------------------------------------------- */

static json_t *nics_to_json(const struct metadata_facts *f) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < f->n_nics; i++) {
                char mac[MAC_TEXT_MAX];
                json_t *o = json_pack("{s:s, s:s}", "mac", mac_text(f->nics[i].mac, mac), "ip",
                                      f->nics[i].ip);
                int r = json_array_append_new(array, o);

                if (r == 0 && f->nics[i].mtu > 0)
                        r = json_object_set_new(o, "mtu", json_integer(f->nics[i].mtu));
                if (r < 0) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

/* {"instance/zone": {"zone": "us-central2-b"}, …} */
static json_t *said_to_json(const struct metadata_facts *f) {
        json_t *all = json_object();

        for (enum metadata_key k = METADATA_TPU_ENV; all && k < _METADATA_KEY_MAX; k++) {
                json_t *o = json_object();
                int bad = !o;

                for (enum identity_field x = 0; o && x < _IDENTITY_FIELD_MAX; x++)
                        if (f->said[k][x])
                                bad |= json_object_set_new(o, identity_field_name(x),
                                                           json_string(f->said[k][x])) < 0;
                if (json_object_set_new(all, metadata_key_path(k), o) < 0 || bad) {
                        json_decref(all);
                        return NULL;
                }
        }
        return all;
}

/* Our own file may have been anybody's since: what it says is checked like the server's answers. */
static const struct json_field fields[] = {
        JSON_FIELD(struct metadata_copy, WORD, "boot_id", boot_id),
        JSON_FIELD(struct metadata_copy, NUMBER, "taken_usec", taken),
        JSON_FIELD(struct metadata_copy, WORD, "machine_type", facts.machine_type),
        JSON_FIELD(struct metadata_copy, WORD, "name", facts.name),
};

char *metadata_copy_format(const struct metadata_copy *c) {
        json_t *v = json_fields_pack(fields, ELEMENTSOF(fields), c);
        char *text = NULL;

        if (v && json_object_set_new(v, "nics", nics_to_json(&c->facts)) == 0 &&
            json_object_set_new(v, "said", said_to_json(&c->facts)) == 0)
                text = json_dumps(v, JSON_INDENT(2) | JSON_SORT_KEYS);
        json_decref(v);
        return text;
}

/* An unknown key or field is a newer version's; a bad value makes the whole copy one that nobody wrote. */
static int take_said(const json_t *v, struct metadata_facts *f) {
        for (enum metadata_key k = METADATA_TPU_ENV; k < _METADATA_KEY_MAX; k++) {
                json_t *o = json_object_get(json_object_get(v, "said"), metadata_key_path(k)), *text;
                _cleanup_identity_ struct identity said = IDENTITY_NULL;
                enum identity_field x;
                const char *name;

                json_object_foreach(o, name, text) {
                        int r;

                        if (identity_field_parse(name, &x) < 0)
                                continue;
                        r = json_is_string(text) ?
                                    identity_add(&said, x, json_string_value(text), "metadata") :
                                    -EINVAL;
                        if (r < 0)
                                return r == -ENOMEM ? r : -EBADMSG;
                }
                metadata_facts_say(f, k, &said);
        }
        return 0;
}

static int take_copy(const json_t *v, struct metadata_copy *c, char why[static METADATA_WHY_MAX]) {
        int r;

        (void) snprintf(why, METADATA_WHY_MAX, "this is no copy that tpu-hostd wrote");
        r = json_fields_take(v, fields, ELEMENTSOF(fields), c);
        if (r == 0)
                r = take_said(v, &c->facts);
        return r < 0 ? r : metadata_nics_parse(json_object_get(v, "nics"), &c->facts, why);
}

int metadata_copy_parse(const char *text, size_t len, struct metadata_copy *ret,
                        char why[static METADATA_WHY_MAX]) {
        struct metadata_copy c = { 0 };
        json_error_t error;
        json_t *v;
        int r;

        v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        if (!v)
                return text_fail(why, METADATA_WHY_MAX, -EBADMSG, "line %d: %.80s", error.line, error.text);
        r = take_copy(v, &c, why);
        json_decref(v);
        if (r == 0)
                *ret = c;
        else
                metadata_facts_clear(&c.facts);
        return r;
}

struct copy_search {
        const struct host *host;
        const struct metadata_facts *facts;
};

static int find_mac(const char *name, void *userdata) {
        const struct copy_search *s = userdata;
        char path[64], address[32], mac[MAC_TEXT_MAX];

        (void) snprintf(path, sizeof(path), "/sys/class/net/%.40s/address", name);
        if (host_read(s->host, path, address, sizeof(address), NULL) < 0)
                return 0;
        for (size_t i = 0; i < s->facts->n_nics; i++)
                if (streq(address, mac_text(s->facts->nics[i].mac, mac)))
                        return 1;
        return 0;
}

bool metadata_copy_is_ours(const struct host *h, const struct metadata_copy *c) {
        struct copy_search s = { h, &c->facts };

        return host_list(h, "/sys/class/net", find_mac, &s) > 0;
}

_Static_assert(METADATA_WHY_MAX >= STATE_FILE_WHY_MAX, "room for the words of both");

int metadata_copy_read(const struct host *h, const char *path, struct metadata_copy *ret,
                       char why[static METADATA_WHY_MAX]) {
        _cleanup_free_ char *text = malloc(METADATA_BODY_MAX);
        size_t len, at;
        int r;

        if (!text)
                return -ENOMEM;
        r = host_read(h, path, text, METADATA_BODY_MAX, &len);
        if (r < 0)
                (void) snprintf(why, METADATA_WHY_MAX, "%s", strerror(-r));
        else
                r = state_file_parse(&metadata_copy_file, text, len, &at, why);
        return r < 0 ? r : metadata_copy_parse(text + at, len - at, ret, why);
}

const char *metadata_copy_origin(const struct metadata_copy *c, char buf[static METADATA_ORIGIN_MAX]) {
        char text[CLOCK_TEXT_MAX];

        (void) snprintf(buf, METADATA_ORIGIN_MAX, "metadata, last good of %s", clock_text(c->taken, text));
        return buf;
}

/* --- The writer --------------------------------------------------------------------------------------- */

int metadata_copy_put(struct file_writer *w, const struct metadata_copy *c) {
        char *text = metadata_copy_format(c);

        return text ? file_writer_put(w, text, NULL) : -ENOMEM;
}
