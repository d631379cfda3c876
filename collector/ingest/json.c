/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>

#include "json.h"
#include "json_number.h"
#include "otlp.pb-c.h"
#include "unpack_wire.h"

#define LENGTH_BYTES  5 /* a length is written as a padded varint, because it is known only afterwards */
#define NAME_MAX_JSON 64

struct out {
        uint8_t *data;
        size_t len, size, max;
        char *why;
};

static int wrong(struct out *o, int r, const char *fmt, ...) _printf_(3, 4);
static int wrong(struct out *o, int r, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(o->why, INGEST_WHY_MAX, fmt, ap);
        va_end(ap);
        return r;
}

static int put(struct out *o, const void *data, size_t len) {
        if (len > o->max - o->len)
                return wrong(o, -E2BIG, "more than %zu bytes as protobuf", o->max);
        if (len > o->size - o->len) {
                size_t size = MIN(o->max, MAX(o->size * 2, o->len + len + 1024));
                uint8_t *more = realloc(o->data, size);

                if (!more)
                        return -ENOMEM;
                o->data = more;
                o->size = size;
        }
        if (len > 0)
                memcpy(o->data + o->len, data, len);
        o->len += len;
        return 0;
}

static int put_varint(struct out *o, uint64_t v) {
        uint8_t bytes[10];
        size_t n = 0;

        for (; v >= 0x80; v >>= 7)
                bytes[n++] = (uint8_t) (v | 0x80);
        bytes[n++] = (uint8_t) v;
        return put(o, bytes, n);
}

static int put_fixed64(struct out *o, uint64_t v) {
        uint8_t bytes[8];

        for (size_t i = 0; i < 8; i++)
                bytes[i] = (uint8_t) (v >> (8 * i));
        return put(o, bytes, sizeof(bytes));
}

static int begin(struct out *o, size_t *ret_at) {
        static const uint8_t room[LENGTH_BYTES];

        *ret_at = o->len + LENGTH_BYTES;
        return put(o, room, sizeof(room));
}

static void end(struct out *o, size_t at) {
        size_t len = o->len - at;

        for (size_t i = 0; i < LENGTH_BYTES; i++)
                o->data[at - LENGTH_BYTES + i] =
                        (uint8_t) ((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

/* as_int and AsInt are not asInt: only the JSON name is. */
static void json_name(const char *field, char ret[static NAME_MAX_JSON]) {
        size_t n = 0;

        for (; *field && n < NAME_MAX_JSON - 1; field++)
                if (*field == '_' && field[1] >= 'a' && field[1] <= 'z')
                        ret[n++] = (char) (*++field - 'a' + 'A');
                else
                        ret[n++] = *field;
        ret[n] = '\0';
}

static int put_text(struct out *o, const char *text, size_t len) {
        int r = put_varint(o, len);

        return r < 0 ? r : put(o, text, len);
}

static int put_bytes(struct out *o, const ProtobufCFieldDescriptor *f, const char *text, size_t len) {
        _cleanup_free_ uint8_t *bytes = malloc(len + 1);
        bool hex = streq(f->name, "trace_id") || streq(f->name, "span_id");
        ssize_t n;

        if (!bytes)
                return -ENOMEM;
        n = hex ? json_hex(text, len, bytes) : json_base64(text, len, bytes);
        if (n < 0)
                return wrong(o, -EBADMSG, "%s: not %s", f->name, hex ? "hex digits" : "base64");
        return put_text(o, (const char *) bytes, (size_t) n);
}

static int put_message(struct out *o, const ProtobufCMessageDescriptor *d, json_t *v);

static int put_nested(struct out *o, const ProtobufCFieldDescriptor *f, json_t *v) {
        size_t at;
        int r;

        r = begin(o, &at);
        if (r == 0)
                r = put_message(o, f->descriptor, v);
        if (r == 0)
                end(o, at);
        return r;
}

static int put_number(struct out *o, const ProtobufCFieldDescriptor *f, json_t *v) {
        uint64_t bits;
        double d;

        if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
                if (json_number_double(v, &d) < 0)
                        return wrong(o, -EBADMSG, "%s: not a number", f->name);
                memcpy(&bits, &d, sizeof(bits));
                return put_fixed64(o, bits);
        }
        if (json_number_integer(v, f->type == PROTOBUF_C_TYPE_FIXED64, &bits) < 0)
                return wrong(o, -EBADMSG, "%s: not an integer, or out of range", f->name);
        if (f->type == PROTOBUF_C_TYPE_FIXED64 || f->type == PROTOBUF_C_TYPE_SFIXED64)
                return put_fixed64(o, bits);
        if (f->type == PROTOBUF_C_TYPE_FIXED32) {
                uint8_t four[4];

                for (size_t i = 0; i < 4; i++)
                        four[i] = (uint8_t) (bits >> (8 * i));
                return put(o, four, sizeof(four));
        }
        return put_varint(o, bits);
}

static enum wire_type wire_of(const ProtobufCFieldDescriptor *f) {
        switch ((int) f->type) { /* the contract has no others */
        case PROTOBUF_C_TYPE_MESSAGE:
        case PROTOBUF_C_TYPE_STRING:
        case PROTOBUF_C_TYPE_BYTES:
                return WIRE_BYTES;
        case PROTOBUF_C_TYPE_DOUBLE:
        case PROTOBUF_C_TYPE_FIXED64:
        case PROTOBUF_C_TYPE_SFIXED64:
                return WIRE_FIXED64;
        case PROTOBUF_C_TYPE_FIXED32:
                return WIRE_FIXED32;
        default:
                return WIRE_VARINT;
        }
}

static int put_value(struct out *o, const ProtobufCFieldDescriptor *f, json_t *v) {
        int r;

        r = put_varint(o, (uint64_t) f->id << 3 | wire_of(f));
        if (r < 0)
                return r;
        switch ((int) f->type) {
        case PROTOBUF_C_TYPE_MESSAGE:
                return put_nested(o, f, v);
        case PROTOBUF_C_TYPE_STRING:
                if (!json_is_string(v))
                        return wrong(o, -EBADMSG, "%s: not a text", f->name);
                return put_text(o, json_string_value(v), json_string_length(v));
        case PROTOBUF_C_TYPE_BYTES:
                if (!json_is_string(v))
                        return wrong(o, -EBADMSG, "%s: not a text", f->name);
                return put_bytes(o, f, json_string_value(v), json_string_length(v));
        case PROTOBUF_C_TYPE_BOOL:
                if (!json_is_boolean(v))
                        return wrong(o, -EBADMSG, "%s: neither true nor false", f->name);
                return put_varint(o, json_is_true(v));
        default:
                return put_number(o, f, v);
        }
}

static int put_field(struct out *o, const ProtobufCFieldDescriptor *f, json_t *v) {
        size_t i;
        json_t *item;
        int r = 0;

        if (json_is_null(v))
                return 0;
        if (f->label != PROTOBUF_C_LABEL_REPEATED)
                return put_value(o, f, v);
        if (!json_is_array(v))
                return wrong(o, -EBADMSG, "%s: not an array", f->name);
        json_array_foreach(v, i, item) {
                r = put_value(o, f, item); /* numbers one by one: packed or not is the writer's choice */
                if (r < 0)
                        break;
        }
        return r;
}

static int put_message(struct out *o, const ProtobufCMessageDescriptor *d, json_t *v) {
        int r = 0;

        if (!json_is_object(v))
                return wrong(o, -EBADMSG, "a %s is not an object", d->short_name);
        for (unsigned i = 0; r == 0 && i < d->n_fields; i++) {
                char name[NAME_MAX_JSON];
                json_t *member;

                json_name(d->fields[i].name, name);
                member = json_object_get(v, name);
                if (member)
                        r = put_field(o, &d->fields[i], member);
        }
        return r;
}

/* Before jansson builds anything: it takes 50 times the text in memory, and recurses. */
static int check_size(struct out *o, const char *text, size_t len) {
        size_t values = 0, depth = 0;
        bool quoted = false;

        for (size_t i = 0; i < len; i++) {
                char c = text[i];

                if (quoted) {
                        if (c == '\\')
                                i++;
                        else if (c == '"')
                                quoted = false;
                        continue;
                }
                if (c == '"')
                        quoted = true;
                else if (c == '[' || c == '{' || c == ',') {
                        if (c != ',' && ++depth > JSON_DEPTH_MAX)
                                return wrong(o, -ELOOP, "JSON nested deeper than %d brackets",
                                             JSON_DEPTH_MAX);
                        if (++values > JSON_VALUES_MAX)
                                return wrong(o, -E2BIG, "more than %d JSON values in one request",
                                             JSON_VALUES_MAX);
                } else if ((c == ']' || c == '}') && depth > 0)
                        depth--;
        }
        return 0;
}

int json_to_protobuf(enum ingest_kind kind, const void *data, size_t len, size_t max, uint8_t **ret,
                     size_t *ret_len, char why[static INGEST_WHY_MAX]) {
        struct out o = { .max = max, .why = why };
        json_error_t error;
        json_t *v;
        int r;

        r = check_size(&o, data, len);
        if (r < 0)
                return r;
        v = json_loadb(data, len, JSON_ALLOW_NUL, &error);
        if (!v)
                return wrong(&o, -EBADMSG, "byte %d: not JSON: %.100s", error.position, error.text);
        r = put_message(&o,
                        kind == INGEST_METRICS ? &otlp__export_metrics_service_request__descriptor
                                               : &otlp__export_logs_service_request__descriptor,
                        v);
        json_decref(v);
        if (r < 0) {
                free(o.data);
                return r;
        }
        *ret = o.data;
        *ret_len = o.len;
        return 0;
}
