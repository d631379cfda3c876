/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"
#include "gate.h"

static void print_escaped(FILE *f, const char *text, const char *as_they_are) {
        for (; *text; text++)
                if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                    (*text >= '0' && *text <= '9') || strchr(as_they_are, *text))
                        fputc(*text, f);
                else
                        fprintf(f, "%%%02X", (unsigned char) *text);
}

struct printed {
        FILE *f;
        char between;
};

static int print_parameter(const char *key, const char *value, void *userdata) {
        struct printed *p = userdata;

        fputc(p->between, p->f);
        print_escaped(p->f, key, "-._~");
        fputc('=', p->f);
        print_escaped(p->f, value, "-._~:/");
        p->between = '&';
        return 0;
}

/* NULL: out of memory. */
static char *same_at(const char *url, const struct http_request *q) {
        char *text = NULL;
        size_t size, n = strlen(url);
        struct printed p = { .f = open_memstream(&text, &size), .between = '?' };

        if (!p.f)
                return NULL;
        while (n > 0 && url[n - 1] == '/')
                n--;
        fprintf(p.f, "%.*s", (int) n, url);
        print_escaped(p.f, q->path, "-._~/:@");
        (void) http_query(q, print_parameter, &p);
        if (memstream_close(p.f, &text))
                return text;
        free(text);
        return NULL;
}

void gate_go_to_leader(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *url = registry_control(a->registry)->people_url;
        char *location = *url ? same_at(url, q) : NULL;

        if (!location) {
                api_reply_error(reply, 503, "no collector leads",
                                "try again; see docs/operations.md, No leader");
                reply->retry_after = 1;
                return;
        }
        api_reply(reply, 307,
                  json_pack("{s:s, s:s}", "error", "this collector does not lead", "leader", url));
        if (reply->status == 307)
                reply->location = location;
        else
                free(location);
}
