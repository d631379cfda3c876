/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"
#include "test.h"

/* A request under construction: fields are written from the innermost outwards. */
struct bytes {
        uint8_t *data;
        size_t len;
};

static struct bytes varint(uint64_t n) {
        struct bytes b = { .data = malloc(10) };

        do
                b.data[b.len++] = (uint8_t) ((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
        while (n >>= 7);
        return b;
}

/* a + b; both are taken. */
static struct bytes join(struct bytes a, struct bytes b) {
        struct bytes c = { .data = malloc(a.len + b.len + 1), .len = a.len + b.len };

        if (a.len)
                memcpy(c.data, a.data, a.len);
        if (b.len)
                memcpy(c.data + a.len, b.data, b.len);
        free(a.data);
        free(b.data);
        return c;
}

static struct bytes field(unsigned number, struct bytes content) {
        return join(join(varint(number << 3 | 2), varint(content.len)), content);
}

static struct bytes text(const char *s) {
        return (struct bytes) { .data = (uint8_t *) strdup(s), .len = strlen(s) };
}

static struct bytes fixed64(unsigned number, uint64_t v) {
        struct bytes b = { .data = malloc(8), .len = 8 };

        memcpy(b.data, &v, 8);
        return join(varint(number << 3 | 1), b);
}

static struct bytes attribute(unsigned number, const char *key, struct bytes any) {
        return field(number, join(field(1, text(key)), field(2, any)));
}

static struct bytes any_text(const char *s) {
        return field(1, text(s));
}

static struct bytes resource(void) {
        return field(1, join(attribute(1, "host.name", any_text("h1")),
                             attribute(1, "tpu.worker.id", any_text("12"))));
}

static struct bytes request(struct bytes leaf) {
        /* the scope stands in front of its resource, which is allowed */
        return field(1, join(field(2, field(2, leaf)), resource()));
}

struct seen {
        char lines[4096];
        unsigned resources, rows, done;
        int answer;
};

_printf_(2, 3) static void note(struct seen *s, const char *fmt, ...) {
        size_t n = strlen(s->lines);
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(s->lines + n, sizeof(s->lines) - n, fmt, ap);
        va_end(ap);
}

static int on_resource(const struct ingest_resource *r, void *userdata) {
        struct seen *s = userdata;

        if (s->resources++ == 0)
                note(s, "%s/%lld/%s ", r->host, (long long) r->worker_id, r->slice);
        return 0;
}

static int on_point(const struct ingest_point *p, void *userdata) {
        struct seen *s = userdata;

        if (s->rows++ < 4)
                note(s, "%s[%s]%s=%g@%llu ", p->name, p->unit, p->attributes, p->d,
                     (unsigned long long) p->time);
        return s->answer;
}

static int on_event(const struct ingest_event *e, void *userdata) {
        struct seen *s = userdata;

        s->rows++;
        note(s, "%s %u %s %s ", e->name, e->severity, e->body, e->attributes);
        return s->answer;
}

static int on_done(void *userdata) {
        ((struct seen *) userdata)->done++;
        return 0;
}

static int run(enum ingest_kind kind, const struct bytes *b, struct seen *s, struct ingest_result *ret) {
        const struct ingest_visitor v = {
                .resource = on_resource,
                .point = on_point,
                .event = on_event,
                .done = on_done,
                .userdata = s,
        };

        return ingest_request(kind, b->data, b->len, &v, ret);
}

static struct bytes gauge(struct bytes points) {
        return join(join(field(1, text("m")), field(3, text("By"))), field(5, points));
}

static struct bytes point(void) {
        struct bytes attributes =
                join(attribute(7, "z", any_text("\"\xff")), attribute(7, "a", any_text("\xc3\xbc")));

        return field(1, join(join(attributes, fixed64(3, 5000)), fixed64(6, 42)));
}

static void good_requests(void) {
        struct bytes b = request(gauge(point()));
        struct ingest_result result;
        struct seen s = { 0 };

        ASSERT_OK(run(INGEST_METRICS, &b, &s, &result));
        ASSERT_STREQ(s.lines, "h1/12/ m[By]{\"a\":\"\xc3\xbc\",\"z\":\"\\\"?\"}=42@5 ");
        ASSERT_EQ(result.rows, 1);
        ASSERT_EQ(result.rejected, 0);
        ASSERT_EQ(s.done, 1);
        free(b.data);

        s = (struct seen) { 0 };
        b = request(join(field(5, any_text("hello\n")), attribute(6, "event.name", any_text("tpu.x"))));
        ASSERT_OK(run(INGEST_LOGS, &b, &s, &result));
        ASSERT_STREQ(s.lines, "h1/12/ tpu.x 0 \"hello\\n\" {\"event.name\":\"tpu.x\"} ");
        free(b.data);

        b = (struct bytes) { 0 };
        ASSERT_OK(run(INGEST_METRICS, &b, &s, &result));
}

/* Every proper beginning is either refused, or (cut between two fields of the request itself) is a smaller
 * request. */
static void truncated(void) {
        struct bytes b = request(gauge(point()));

        for (size_t n = 1; n < b.len; n++) {
                /* in memory of its own size, so that the sanitizer sees one byte too far */
                struct bytes cut = { .data = malloc(n), .len = n };
                struct ingest_result result;
                struct seen s = { 0 };

                memcpy(cut.data, b.data, n);
                ASSERT_EQ(run(INGEST_METRICS, &cut, &s, &result), -EBADMSG);
                ASSERT_TRUE(strstr(result.why, "byte"));
                free(cut.data);
        }
        free(b.data);
}

/* Random changes of a good request and plain noise: any answer, but no crash and bounded rows. */
static void garbage(void) {
        struct bytes good = request(gauge(join(point(), point())));

        srand(test_seed());
        for (unsigned i = 0; i < 20000; i++) {
                struct bytes b = { .data = malloc(good.len), .len = good.len };
                struct ingest_result result;
                struct seen s = { 0 };

                memcpy(b.data, good.data, good.len);
                for (unsigned k = 0; k < 1 + i % 8; k++)
                        b.data[(size_t) rand() % b.len] = (uint8_t) rand();
                if (i % 3 == 0)
                        for (size_t k = 0; k < b.len; k++)
                                b.data[k] = (uint8_t) rand();
                (void) run(i % 2 ? INGEST_METRICS : INGEST_LOGS, &b, &s, &result);
                ASSERT_TRUE(result.rows <= 2);
                free(b.data);
        }
        free(good.data);
}

/* A metric with a field that nobody knows is none of the plain ones, which are read without protobuf-c. */
static struct bytes not_plain(struct bytes metric) {
        return join(metric, field(99, text("")));
}

static int run_twice(const struct bytes *points, struct seen seen[2], struct ingest_result result[2]) {
        int r[2];

        for (unsigned i = 0; i < 2; i++) {
                struct bytes copy = { .data = malloc(points->len + 1), .len = points->len }, b;

                memcpy(copy.data, points->data, points->len);
                b = request(i == 0 ? gauge(copy) : not_plain(gauge(copy)));
                seen[i] = (struct seen) { 0 };
                r[i] = run(INGEST_METRICS, &b, &seen[i], &result[i]);
                free(b.data);
        }
        if (r[0] != r[1])
                test_fail(__FILE__, __LINE__, "%d %s; %d %s", r[0], result[0].why, r[1], result[1].why);
        return r[0];
}

/* The short way says what the long one says, whatever the points are. */
static void both_ways(void) {
        struct bytes good = join(join(point(), field(1, fixed64(4, 0x4000000000000000))), point());
        struct ingest_result result[2];
        struct seen seen[2];
        unsigned fine = 0;

        ASSERT_OK(run_twice(&good, seen, result));
        ASSERT_EQ(result[0].rows, 3);
        ASSERT_STREQ(seen[0].lines, seen[1].lines);
        srand(test_seed());
        for (unsigned i = 0; i < 20000; i++) {
                struct bytes b = { .data = malloc(good.len), .len = good.len };

                memcpy(b.data, good.data, good.len);
                for (unsigned k = 0; k < 1 + i % 3; k++)
                        b.data[(size_t) rand() % b.len] = (uint8_t) (rand() % 3 ? rand() : rand() % 128);
                if (run_twice(&b, seen, result) == 0) {
                        fine++;
                        ASSERT_STREQ(seen[0].lines, seen[1].lines);
                        ASSERT_EQ(result[0].rows, result[1].rows);
                        ASSERT_EQ(result[0].rejected, result[1].rejected);
                }
                free(b.data);
        }
        ASSERT_TRUE(fine > 1000);
        free(good.data);
}

static bool same_key(const struct ingest_point *p, void *userdata) {
        static uint8_t key[1024];
        static size_t len; /* of the point before */
        bool known = p->key_len > 0 && p->key_len == len && memcmp(key, p->key, len) == 0;

        (void) userdata;
        len = p->key_len;
        memcpy(key, p->key, len);
        return known;
}

static int on_known_point(const struct ingest_point *p, void *userdata) {
        struct seen *s = userdata;

        note(s, "%s=%g@%llu ", p->attributes ? p->attributes : "known", p->d, (unsigned long long) p->time);
        return 0;
}

/* A point with the key of the one before comes without attributes, one with another key does not. */
static void known_points(void) {
        struct bytes b = request(gauge(join(join(point(), point()), field(1, fixed64(6, 7)))));
        struct seen s = { 0 };
        const struct ingest_visitor v = { .resource = on_resource,
                                          .point = on_known_point,
                                          .known = same_key,
                                          .event = on_event,
                                          .done = on_done,
                                          .userdata = &s };
        struct ingest_result result;

        ASSERT_OK(ingest_request(INGEST_METRICS, b.data, b.len, &v, &result));
        ASSERT_STREQ(s.lines,
                     "h1/12/ {\"a\":\"\xc3\xbc\",\"z\":\"\\\"?\"}=42@5 known=42@5 {}=7@0 ");
        free(b.data);
}

static void huge_counts(void) {
        struct bytes many = { .data = malloc(4 << 20), .len = 4 << 20 }, b;
        struct ingest_result result;
        struct seen s = { 0 };

        /* two million attributes of two bytes each: 300 MB in protobuf-c's structures */
        for (size_t i = 0; i < many.len; i += 2)
                memcpy(many.data + i, "\x0a\x00", 2);
        b = field(1, field(1, many));
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -E2BIG);
        ASSERT_TRUE(strstr(result.why, "too many parts"));
        free(b.data);
        many = (struct bytes) { .data = malloc(4 << 20), .len = 4 << 20 };
        for (size_t i = 0; i < many.len; i += 2)
                memcpy(many.data + i, "\x0a\x00", 2);
        b = request(field(9, many)); /* points of a histogram */
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -E2BIG);
        ASSERT_TRUE(strstr(result.why, "more than"));
        free(b.data);
        many = (struct bytes) { .data = malloc(4 << 20), .len = 4 << 20 };
        for (size_t i = 0; i < many.len; i += 2)
                memcpy(many.data + i, "\x0a\x00", 2);
        b = request(field(5, many)); /* as a gauge */
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -E2BIG);
        ASSERT_TRUE(strstr(result.why, "more than"));
        free(b.data);

        /* the same bytes as resources of a request */
        b.data = malloc(b.len = 4 << 20);
        for (size_t i = 0; i < b.len; i += 2)
                memcpy(b.data + i, "\x0a\x00", 2);
        s = (struct seen) { 0 };
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -E2BIG);
        ASSERT_EQ(s.resources, INGEST_GROUPS_MAX);
        free(b.data);

        /* more rows than a request may have, each in a metric of its own */
        b = (struct bytes) { .data = malloc((INGEST_ROWS_MAX + 1) * 19) };
        for (unsigned i = 0; i <= INGEST_ROWS_MAX; i++) {
                struct bytes one = field(2, field(5, field(1, fixed64(6, i))));

                memcpy(b.data + b.len, one.data, one.len);
                b.len += one.len;
                free(one.data);
        }
        b = field(1, field(2, b));
        s = (struct seen) { 0 };
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -E2BIG);
        ASSERT_EQ(s.rows, INGEST_ROWS_MAX);
        free(b.data);

        /* a length near 2^64 */
        b = join(varint(1 << 3 | 2), varint(UINT64_MAX));
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -EBADMSG);
        free(b.data);
}

/* One point takes no more memory for its attributes than they may be long. */
static void long_attributes(void) {
        /* nothing; a key of three bytes */
        static const char *const units[] = { "\x3a\x00", "\x3a\x05\x0a\x03" };

        for (unsigned u = 0; u < ELEMENTSOF(units); u++) {
                struct bytes many = { .data = malloc(1 << 20) }, b;
                struct ingest_result result;
                struct seen s = { 0 };
                char key[4];

                for (unsigned i = 0; many.len + 7 <= 1 << 20; i++) {
                        memcpy(many.data + many.len, units[u], u == 0 ? 2 : 4);
                        (void) snprintf(key, sizeof(key), "%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26,
                                        'a' + i / 676 % 26);
                        memcpy(many.data + many.len + 4, key, 3);
                        many.len += u == 0 ? 2 : 7;
                }
                b = request(gauge(field(1, join(many, fixed64(6, 42)))));
                ASSERT_OK(run(INGEST_METRICS, &b, &s, &result));
                ASSERT_TRUE(result.rows == 0 && result.rejected == 1);
                ASSERT_TRUE(strstr(result.why, "too long"));
                free(b.data);
        }
}

/* What a later version adds beside the points is passed over. */
static void later_fields(void) {
        struct bytes b = request(gauge(join(field(77, text("later")), point())));
        struct ingest_result result;
        struct seen s = { 0 };

        ASSERT_OK(run(INGEST_METRICS, &b, &s, &result));
        ASSERT_EQ(result.rows, 1);
        free(b.data);
}

static struct bytes nested(unsigned depth) {
        struct bytes b = any_text("x");

        for (unsigned i = 0; i < depth; i++)
                b = field(5, field(1, b));
        return b;
}

static void deep_nesting(void) {
        struct ingest_result result;
        struct seen s = { 0 };
        struct bytes b;

        b = request(field(5, nested(10)));
        ASSERT_OK(run(INGEST_LOGS, &b, &s, &result));
        ASSERT_TRUE(strstr(s.lines, "[[[[[[[[[[\"x\"]]]]]]]]]]"));
        free(b.data);
        b = request(field(5, nested(3000)));
        ASSERT_EQ(run(INGEST_LOGS, &b, &s, &result), -ELOOP);
        free(b.data);
}

static void visitors_answers(void) {
        struct bytes b = request(gauge(join(point(), point())));
        struct ingest_result result;
        struct seen s = { .answer = -EDQUOT };

        ASSERT_OK(run(INGEST_METRICS, &b, &s, &result));
        ASSERT_EQ(result.rejected, 2);
        ASSERT_EQ(result.rows, 0);
        s = (struct seen) { .answer = -ENOSPC };
        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -ENOSPC);
        ASSERT_EQ(s.rows, 1);
        ASSERT_EQ(s.done, 0);
        free(b.data);
}

static void second_resource_is_refused(void) {
        struct bytes b = field(1, join(resource(), resource()));
        struct ingest_result result;
        struct seen s = { 0 };

        ASSERT_EQ(run(INGEST_METRICS, &b, &s, &result), -EBADMSG);
        free(b.data);
}

TEST_MAIN(good_requests, truncated, garbage, both_ways, known_points, huge_counts, long_attributes,
          later_fields, deep_nesting,
          visitors_answers, second_resource_is_refused)
