/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

#include "metadata_facts.h"
#include "texts.h"
#include "topology.h"
#include "tpu_env.h"

#define MTU_MAX 65535 /* IPv4: what no packet exceeds; which values are taken is for tpu-netcfg to say */

const char *metadata_key_path(enum metadata_key k) {
        static const char *const paths[] = {
                [METADATA_NICS] = "instance/network-interfaces/?recursive=true",
                [METADATA_MACHINE_TYPE] = "instance/machine-type",
                [METADATA_NAME] = "instance/name",
                [METADATA_TPU_ENV] = "instance/attributes/tpu-env",
                [METADATA_ENDPOINTS] = "instance/attributes/worker-network-endpoints",
                [METADATA_WORKER] = "instance/attributes/agent-worker-number",
                [METADATA_ACCELERATOR] = "instance/attributes/accelerator-type",
                [METADATA_SLICE] = "instance/attributes/instance-id",
                [METADATA_ZONE] = "instance/zone",
                [METADATA_ID] = "instance/id",
                [METADATA_PREEMPTIBLE] = "instance/scheduling/preemptible",
        };

        _Static_assert(ELEMENTSOF(paths) == _METADATA_KEY_MAX, "every key has a path");
        return paths[k];
}

bool metadata_key_is_attribute(enum metadata_key k) {
        return startswith(metadata_key_path(k), "instance/attributes/");
}

static int refuse_value(char why[static METADATA_WHY_MAX], const char *text) {
        return text_fail(why, METADATA_WHY_MAX, -EBADMSG, "%s", text);
}

/* --- NICs --------------------------------------------------------------------------------------------- */

static const char *parse_nic(const json_t *o, struct metadata_nic *nic) {
        const json_t *mac = json_object_get(o, "mac"), *mtu = json_object_get(o, "mtu"),
                     *ip = json_object_get(o, "ip");
        struct in_addr address;

        if (!json_is_object(o))
                return "it is no object";
        if (!json_is_string(mac) || !mac_parse(json_string_value(mac), nic->mac))
                return "its mac is no MAC address";
        if (mtu) {
                json_int_t v = json_integer_value(mtu);

                if (!json_is_integer(mtu) || v < 1 || v > MTU_MAX)
                        return "its mtu is no number from 1 to 65535";
                nic->mtu = (uint32_t) v;
        }
        if (json_is_string(ip) && json_string_length(ip) < sizeof(nic->ip) &&
            inet_pton(AF_INET, json_string_value(ip), &address) == 1)
                (void) snprintf(nic->ip, sizeof(nic->ip), "%s", json_string_value(ip));
        return NULL;
}

int metadata_nics_parse(const json_t *array, struct metadata_facts *f, char why[static METADATA_WHY_MAX]) {
        struct metadata_nic nics[METADATA_NICS_MAX] = { 0 };
        size_t n = json_array_size(array);

        if (!json_is_array(array) || n == 0)
                return refuse_value(why, "the list of network interfaces is empty or no list");
        if (n > METADATA_NICS_MAX)
                return refuse_value(why, "more network interfaces than a host can have");
        for (size_t i = 0; i < n; i++) {
                const char *wrong = parse_nic(json_array_get(array, i), &nics[i]);

                for (size_t k = 0; !wrong && k < i; k++)
                        if (memcmp(nics[k].mac, nics[i].mac, sizeof(nics[i].mac)) == 0)
                                wrong = "another NIC has the same mac";
                if (wrong)
                        return text_fail(why, METADATA_WHY_MAX, -EBADMSG, "network interface %zu: %s", i,
                                         wrong);
        }
        memcpy(f->nics, nics, sizeof(nics));
        f->n_nics = n;
        return 0;
}

static int take_nics(struct metadata_facts *f, const struct metadata_answer *a,
                     char why[static METADATA_WHY_MAX]) {
        json_error_t error;
        json_t *v;
        int r;

        if (!a->content_type || !startswith(a->content_type, "application/json"))
                return refuse_value(why, "the list of network interfaces is not application/json");
        v = json_loadb(a->body, a->len, JSON_REJECT_DUPLICATES, &error);
        if (!v)
                return text_fail(why, METADATA_WHY_MAX, -EBADMSG, "line %d, column %d: %.80s", error.line,
                                 error.column, error.text);
        r = metadata_nics_parse(v, f, why);
        json_decref(v);
        return r;
}

/* --- Texts -------------------------------------------------------------------------------------------- */

/* As label_is_valid(), of len bytes; ret: a copy. */
static bool take_label(const char *text, size_t len, char ret[static 64]) {
        if (len > 63 || memchr(text, '\0', len))
                return false;
        memcpy(ret, text, len);
        ret[len] = '\0';
        return label_is_valid(ret);
}

/* "projects/123456789/machineTypes/ct6e-standard-4t" */
static int take_machine_type(struct metadata_facts *f, const char *text, size_t len,
                             char why[static METADATA_WHY_MAX]) {
        static const char head[] = "projects/", middle[] = "/machineTypes/";
        const char *at = memmem(text, len, middle, sizeof(middle) - 1),
                   *name = at ? at + sizeof(middle) - 1 : NULL;
        char label[64];

        if (!at || len < sizeof(head) || memcmp(text, head, sizeof(head) - 1) != 0 ||
            !take_label(name, len - (size_t) (name - text), label))
                return refuse_value(why, "not projects/NUMBER/machineTypes/NAME");
        memcpy(f->machine_type, label, sizeof(label));
        return 0;
}

static int take_name(struct metadata_facts *f, const char *text, size_t len,
                     char why[static METADATA_WHY_MAX]) {
        char label[64];

        if (!take_label(text, len, label))
                return refuse_value(why, "not the name of an instance");
        memcpy(f->name, label, sizeof(label));
        return 0;
}

/* --- Of the slice -------------------------------------------------------------------------------------- */

/* A key that is one field's text; "projects/123456789/zones/us-central2-b" is a zone's. */
static int take_field(enum metadata_key k, const char *text, size_t len, struct identity *i,
                      char why[static METADATA_WHY_MAX]) {
        static const enum identity_field fields[_METADATA_KEY_MAX] = {
                [METADATA_WORKER] = IDENTITY_WORKER_ID, [METADATA_ACCELERATOR] = IDENTITY_ACCELERATOR_TYPE,
                [METADATA_SLICE] = IDENTITY_SLICE_NAME, [METADATA_ZONE] = IDENTITY_ZONE,
                [METADATA_ID] = IDENTITY_INSTANCE_ID,   [METADATA_PREEMPTIBLE] = IDENTITY_PREEMPTIBLE,
        };
        char copy[256];
        const char *value = copy;
        int r;

        if (len >= sizeof(copy) || memchr(text, '\0', len))
                return refuse_value(why, "not a short text");
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (k == METADATA_ZONE && strrchr(copy, '/'))
                value = strrchr(copy, '/') + 1;
        r = identity_add(i, fields[k], value, "metadata");
        if (r == -EINVAL)
                return text_fail(why, METADATA_WHY_MAX, -EBADMSG, "it cannot be %s",
                                 identity_field_name(fields[k]));
        return r;
}

void metadata_facts_say(struct metadata_facts *f, enum metadata_key k, struct identity *i) {
        for (enum identity_field x = 0; x < _IDENTITY_FIELD_MAX; x++) {
                free(f->said[k][x]);
                f->said[k][x] = TAKE_PTR(i->fields[x].text);
        }
}

static int take_said(struct metadata_facts *f, enum metadata_key k, const char *text, size_t len,
                     char why[static METADATA_WHY_MAX]) {
        _cleanup_identity_ struct identity fresh = IDENTITY_NULL;
        int r;

        if (k == METADATA_TPU_ENV)
                r = tpu_env_parse(text, len, "metadata", &fresh, why);
        else if (k == METADATA_ENDPOINTS)
                r = tpu_endpoints_parse(text, len, "metadata", &fresh, why);
        else
                r = take_field(k, text, len, &fresh, why);
        if (r < 0)
                return r;
        metadata_facts_say(f, k, &fresh);
        return 0;
}

static int take_text(struct metadata_facts *f, enum metadata_key k, const struct metadata_answer *a,
                     char why[static METADATA_WHY_MAX]) {
        const char *text = a->body;
        size_t len = a->len;

        while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
                len--;
        if (k >= METADATA_TPU_ENV)
                return take_said(f, k, text, len, why);
        return k == METADATA_NAME ? take_name(f, text, len, why) : take_machine_type(f, text, len, why);
}

/* --- The answer --------------------------------------------------------------------------------------- */

static bool is_page(const struct metadata_answer *a) {
        const char *text = a->body;
        size_t i = 0;

        if (a->content_type && strncasecmp(a->content_type, "text/html", strlen("text/html")) == 0)
                return true;
        while (i < a->len && strchr(" \t\r\n", text[i]) && text[i] != '\0')
                i++;
        return i < a->len && text[i] == '<';
}

int metadata_answer_check(const struct metadata_answer *a, char why[static METADATA_WHY_MAX]) {
        why[0] = '\0';
        if (a->status == 429 || (a->status >= 500 && a->status <= 599))
                return text_fail(why, METADATA_WHY_MAX, -EAGAIN, "HTTP status %ld", a->status);
        if (!a->flavored)
                return refuse_value(
                        why, "no 'Metadata-Flavor: Google' in the answer: this is not the metadata server");
        if (a->status != 200) {
                (void) snprintf(why, METADATA_WHY_MAX, "HTTP status %ld", a->status);
                return a->status == 404 ? -ENOENT : -EBADMSG;
        }
        if (a->len > METADATA_BODY_MAX)
                return refuse_value(why, "the answer is too long");
        return is_page(a) ? refuse_value(why, "a page of HTML") : 0;
}

int metadata_take(struct metadata_facts *f, enum metadata_key k, const struct metadata_answer *a,
                  char why[static METADATA_WHY_MAX]) {
        int r = metadata_answer_check(a, why);

        if (r < 0)
                return r;
        return k == METADATA_NICS ? take_nics(f, a, why) : take_text(f, k, a, why);
}

/* --- What is planned ---------------------------------------------------------------------------------- */

#define WORD_MAX 40

/* "window_start_time" is "windowStartTime". */
static bool is_spelled(const char *found, const char *wanted) {
        for (; *found || *wanted; wanted++) {
                found += strspn(found, "_");
                if (tolower((unsigned char) *found) != *wanted)
                        return false;
                found += *found != '\0';
        }
        return true;
}

/* "" when it is not there, or no word. */
static void take_word(const json_t *o, const char *key, char word[static WORD_MAX]) {
        const char *name, *text;
        json_t *v;

        word[0] = '\0';
        json_object_foreach((json_t *) (uintptr_t) o, name, v) {
                text = json_string_value(v);
                if (!is_spelled(name, key) || !text)
                        continue;
                (void) snprintf(word, WORD_MAX, "%s", text);
                for (char *p = word; *p; p++)
                        if (*p < ' ' || *p > '~')
                                *p = '?';
        }
}

bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]) {
        char start[WORD_MAX], end[WORD_MAX], latest[WORD_MAX], type[WORD_MAX], status[WORD_MAX],
                move[WORD_MAX];
        json_t *o = json_loads(value, 0, NULL);

        take_word(o, "windowstarttime", start);
        take_word(o, "windowendtime", end);
        take_word(o, "latestwindowstarttime", latest);
        take_word(o, "type", type);
        if (!type[0])
                take_word(o, "maintenancetype", type);
        take_word(o, "maintenancestatus", status);
        take_word(o, "canreschedule", move);
        json_decref(o);
        if (!start[0])
                return false;
        (void) snprintf(text, METADATA_UPCOMING_MAX, "%s%s%s%s%s%s%s%s%s%s", type, type[0] ? ", " : "",
                        status, status[0] ? ", " : "", start, end[0] ? " to " : "", end,
                        latest[0] ? ", at the latest from " : "", latest,
                        strcasecmp(move, "true") == 0 ? ", can be rescheduled" : "");
        return true;
}

/* --- Facts as a whole ---------------------------------------------------------------------------------- */

static bool said_equal(char *const a[static _IDENTITY_FIELD_MAX],
                       char *const b[static _IDENTITY_FIELD_MAX]) {
        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++) {
                const char *x = a[f], *y = b[f];

                if (!x != !y || (x && !streq(x, y)))
                        return false;
        }
        return true;
}

bool metadata_facts_equal(const struct metadata_facts *a, const struct metadata_facts *b) {
        if (!streq(a->machine_type, b->machine_type) || !streq(a->name, b->name) || a->n_nics != b->n_nics)
                return false;
        for (size_t i = 0; i < a->n_nics; i++)
                if (memcmp(a->nics[i].mac, b->nics[i].mac, sizeof(a->nics[i].mac)) != 0 ||
                    a->nics[i].mtu != b->nics[i].mtu || !streq(a->nics[i].ip, b->nics[i].ip))
                        return false;
        for (enum metadata_key k = METADATA_TPU_ENV; k < _METADATA_KEY_MAX; k++)
                if (!said_equal(a->said[k], b->said[k]))
                        return false;
        return true;
}

void metadata_facts_clear(struct metadata_facts *f) {
        for (enum metadata_key k = 0; k < _METADATA_KEY_MAX; k++)
                for (enum identity_field x = 0; x < _IDENTITY_FIELD_MAX; x++)
                        free(f->said[k][x]);
        *f = (struct metadata_facts){ .n_nics = 0 };
}

int metadata_facts_copy(const struct metadata_facts *f, struct metadata_facts *ret) {
        struct metadata_facts copy = *f;
        bool bad = false;

        for (enum metadata_key k = 0; k < _METADATA_KEY_MAX; k++)
                for (enum identity_field i = 0; i < _IDENTITY_FIELD_MAX; i++) {
                        const char *text = f->said[k][i];

                        copy.said[k][i] = text ? strdup(text) : NULL;
                        bad = bad || (text && !copy.said[k][i]);
                }
        if (bad) {
                metadata_facts_clear(&copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

/* What the parsers took, identity takes: only memory can be missing. */
static int fill_field(struct identity *i, enum identity_field f, const char *text, const char *origin) {
        int r = text && text[0] ? identity_add(i, f, text, origin) : 0;

        return r == -ENOMEM ? r : 0;
}

int metadata_facts_fill(const struct metadata_facts *f, const char *origin, struct identity *i) {
        int r;

        r = fill_field(i, IDENTITY_MACHINE_TYPE, f->machine_type, origin);
        if (r == 0)
                r = fill_field(i, IDENTITY_HOST_NAME, f->name, origin);
        for (enum metadata_key k = METADATA_TPU_ENV; k < _METADATA_KEY_MAX; k++) {
                const char *key = strrchr(metadata_key_path(k), '/') + 1;
                char from[128];

                (void) snprintf(from, sizeof(from), "%.80s (%s)", origin, key);
                for (enum identity_field x = 0; x < _IDENTITY_FIELD_MAX && r == 0; x++)
                        r = fill_field(i, x, f->said[k][x], from);
        }
        return r < 0 ? r : identity_derive(i);
}
