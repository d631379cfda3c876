/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/runs/NAME/logs: what a run printed, on all its hosts or some. */
#include "api_json.h"

struct listing {
        json_t *list;
        size_t bytes;
        int64_t last; /* id of the last line */
        bool newest_first;
};

static int on_line(const struct store_line_row *row, void *userdata) {
        struct listing *l = userdata;
        const struct store_line *e = &row->line;
        json_t *v;

        l->bytes += strlen(e->text);
        if (l->bytes > API_EVENTS_BYTES && json_array_size(l->list) > 0)
                return 1;
        v = json_pack("{s:I, s:o, s:s, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:o}", "id", (json_int_t) row->id, "time",
                      api_time(e->time), "host", row->host, "slice", api_text(e->slice), "worker_id",
                      api_number(e->worker_id), "generation", api_number(e->generation), "invocation", e->invocation,
                      "number", (json_int_t) e->number, "missing", (json_int_t) row->missing, "priority",
                      (json_int_t) e->priority, "text", api_text(e->text));
        l->last = MAX(l->last, row->id);
        return l->newest_first ? json_array_insert_new(l->list, 0, v) : json_array_append_new(l->list, v);
}

int api_list_lines(const struct api *a, const struct store_line_filter *f, struct http_reply *reply) {
        struct listing l = { .newest_first = f->since < 0, .last = MAX(f->since, 0), .list = json_array() };
        int r, n;

        r = l.list ? store_list_lines(a->store, f, on_line, &l) : -ENOMEM;
        n = (int) json_array_size(l.list);
        api_reply_result(reply, a, MIN(r, 0),
                         json_pack("{s:s, s:o, s:I}", "run", f->run, "lines", l.list, "next", (json_int_t) l.last));
        return r < 0 ? r : n;
}

/* "SLICE/N", or "N" of any slice. */
static int parse_worker(const char *text, char slice[static 64], struct store_line_filter *f) {
        const char *number = strrchr(text, '/');
        char *end;
        size_t n = number ? (size_t) (number - text) : 0;

        if (number && (n == 0 || n >= 64))
                return -EINVAL;
        memcpy(slice, text, n);
        slice[n] = '\0';
        f->slice = number ? slice : NULL;
        number = number ? number + 1 : text;
        if (*number < '0' || *number > '9' || strlen(number) > 6)
                return -EINVAL;
        f->worker = strtol(number, &end, 10);
        return *end ? -EINVAL : 0;
}

void api_lines(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_line_filter f = { .run = route_part(q, 0),
                                       .worker = -1,
                                       .host = route_text(q, "host"),
                                       .since = route_number(q, "since", -1),
                                       .limit = route_number(q, "limit", API_LINES_DEFAULT) };
        const char *worker = route_text(q, "worker");
        int64_t wait = route_number(q, "wait", 0);
        char slice[64];
        int r;

        if (worker && parse_worker(worker, slice, &f) < 0) {
                api_reply_error(reply, 400, "worker= must be SLICE/NUMBER or NUMBER", "see docs/api.md");
                return;
        }
        r = api_list_lines(a, &f, reply);
        if (r != 0 || wait <= 0 || f.since < 0 ||
            follow_add(a->follow, &(struct follow_what){ .lines = true, .line = f }, (unsigned) wait, q->call) < 0)
                return;
        free(reply->body);
        *reply = (struct http_reply) { .later = true };
}
