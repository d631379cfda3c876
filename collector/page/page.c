/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <dirent.h>
#include <fcntl.h>

#include "crc32c.h"
#include "gzip.h"
#include "io.h"

#define POLICY                                                                                              \
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "    \
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " \
        "trusted-types 'none'"

#define HEADERS_MAX 16 /* names and values, with the NULL */

struct body {
        void *data;
        size_t len;
        const char *headers[HEADERS_MAX];
};

struct file {
        char name[PAGE_NAME_MAX], tag[32];
        const char *type;
        struct body plain, packed; /* packed.data NULL: it does not pay */
        const char *same[HEADERS_MAX]; /* of 304 */
};

struct page {
        struct file files[PAGE_FILES_MAX];
        size_t n;
};

/* --- Reading ------------------------------------------------------------------------------------------- */

/* NULL: it is none of ours. */
static const char *type_of(const char *name) {
        static const struct {
                const char *end, *type;
        } types[] = {
                { ".html", "text/html; charset=utf-8" },
                { ".css", "text/css; charset=utf-8" },
                { ".js", "text/javascript; charset=utf-8" },
                { ".svg", "image/svg+xml" },
        };
        size_t len = strlen(name), n;

        if (len >= PAGE_NAME_MAX || name[0] == '.' ||
            name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")])
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                n = strlen(types[i].end);
                if (len > n && streq(name + len - n, types[i].end))
                        return types[i].type;
        }
        return NULL;
}

/* A browser asks each time whether it has the file as it is: a new version is there at once. */
static void set_headers(const struct file *f, const char *encoding, const char *headers[HEADERS_MAX]) {
        const char *const all[] = { "ETag", f->tag,
                                    "Cache-Control", "no-cache",
                                    "Vary", "Accept-Encoding",
                                    "Content-Security-Policy", POLICY,
                                    "X-Content-Type-Options", "nosniff",
                                    "Referrer-Policy", "no-referrer",
                                    encoding ? "Content-Encoding" : NULL, encoding };

        _Static_assert(ELEMENTSOF(all) < HEADERS_MAX, "with the NULL");
        memcpy(headers, all, sizeof(all));
}

static int add_file(struct page *p, int dir, const char *name, const char *type) {
        struct file *f;
        char *text;
        int r;

        if (p->n == ELEMENTSOF(p->files))
                return -E2BIG;
        f = &p->files[p->n];
        r = durable_read(dir, name, PAGE_FILE_MAX, &text, &f->plain.len);
        if (r < 0)
                return r;
        p->n++;
        (void) snprintf(f->name, sizeof(f->name), "%s", name);
        f->type = type;
        f->plain.data = text;
        (void) snprintf(f->tag, sizeof(f->tag), "\"%08" PRIx32 "-%zx\"", crc32c(0, text, f->plain.len),
                        f->plain.len);
        f->packed.data = malloc(f->plain.len + 1);
        if (!f->packed.data)
                return -ENOMEM;
        f->packed.len = gzip_pack(text, f->plain.len, f->packed.data, f->plain.len);
        set_headers(f, NULL, f->plain.headers);
        set_headers(f, "gzip", f->packed.headers);
        set_headers(f, NULL, f->same);
        return 0;
}

static const struct file *find_file(const struct page *p, const char *name) {
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->files[i].name, name))
                        return &p->files[i];
        return NULL;
}

int page_new(const char *directory, struct page **ret) {
        _cleanup_(page_freep) struct page *p = calloc(1, sizeof(*p));
        DIR *dir = p ? opendir(directory) : NULL;
        int r = p ? 0 : -ENOMEM;

        if (p && !dir)
                return -errno;
        for (struct dirent *e; r == 0 && (e = readdir(dir));)
                if (type_of(e->d_name))
                        r = add_file(p, dirfd(dir), e->d_name, type_of(e->d_name));
        if (dir)
                (void) closedir(dir); /* it was only read */
        if (r == 0 && !find_file(p, PAGE_INDEX))
                r = -ENOENT;
        if (r == 0)
                *ret = TAKE_PTR(p);
        return r;
}

struct page *page_free(struct page *p) {
        for (size_t i = 0; p && i < p->n; i++) {
                free(p->files[i].plain.data);
                free(p->files[i].packed.data);
        }
        free(p);
        return NULL;
}

/* --- Sending ------------------------------------------------------------------------------------------- */

static void keep_body(void *body) {
        (void) body; /* the page's own */
}

/* "gzip;q=0" alone refuses it; whoever writes that gets what is larger. */
static bool takes_gzip(const struct http_request *q) {
        const char *list = http_header(q, "Accept-Encoding"), *at = list ? strstr(list, "gzip") : NULL;

        return at && !startswith(at, "gzip;q=0");
}

bool page_reply(const struct page *p, const char *name, const struct http_request *q,
                struct http_reply *reply) {
        const struct file *f = find_file(p, name);
        const char *has = f ? http_header(q, "If-None-Match") : NULL;
        const struct body *b;

        if (!f)
                return false;
        if (has && strstr(has, f->tag)) {
                *reply = (struct http_reply){ .status = 304, .headers = f->same };
                return true;
        }
        b = f->packed.len > 0 && takes_gzip(q) ? &f->packed : &f->plain;
        *reply = (struct http_reply){ .status = 200,
                                      .content_type = f->type,
                                      .body = b->data,
                                      .release = keep_body,
                                      .len = b->len,
                                      .headers = b->headers };
        return true;
}
