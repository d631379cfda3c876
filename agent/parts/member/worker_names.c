/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_names.h"

#include <arpa/inet.h>
#include <netdb.h>

#include "check_words.h"
#include "child.h"
#include "json_text.h"

#define FOUND_MAX (WORKER_NAMES_MAX * 64)

/* --- Judged -------------------------------------------------------------------------------------------- */

static const char *name_at(const char *list, unsigned worker, char buf[static 256]) {
        for (unsigned i = 0; i < worker && list; i++) {
                list = strchr(list, ',');
                list = list ? list + 1 : NULL;
        }
        (void) snprintf(buf, 256, "%.*s", list ? (int) MIN(strcspn(list, ","), (size_t) 255) : 0,
                        list ? list : "");
        return buf;
}

static bool has_address(const json_t *member, const char *address) {
        return json_list_has(json_object_get(member, "address"), address);
}

/* The member of that id; where worker is negative, whose address it is. NULL: there is none. */
static const json_t *member_of_roster(const json_t *roster, long worker, const char *address) {
        const json_t *v;
        size_t i;

        json_array_foreach(roster, i, v)
                if (worker < 0 ? has_address(v, address)
                               : json_object_size(v) > 0 && json_number_of(v, "worker") == (uint64_t) worker)
                        return v;
        return NULL;
}

static const char *first_address(const json_t *member) {
        const char *text = json_string_value(json_array_get(json_object_get(member, "address"), 0));

        return text ? text : "";
}

static void judge_name(const char *list, const json_t *roster, unsigned worker, const char *address,
                       struct finding *f) {
        const json_t *right = member_of_roster(roster, worker, NULL),
                     *stranger = member_of_roster(roster, -1, address);
        char name[256], id[16];

        if (!right || !first_address(right)[0] || has_address(right, address) || f->verdict == VERDICT_FAIL)
                return;
        (void) name_at(list, worker, name);
        (void) snprintf(id, sizeof(id), "%u", worker);
        if (stranger)
                check_tell(f, WORDS_NAME_OF_ANOTHER, "", name, address, json_text_of(stranger, "host"), id,
                           first_address(right));
        else if (f->verdict == VERDICT_OK)
                check_tell(f, WORDS_NAME_UNKNOWN, "", name, address, id, first_address(right));
}

void worker_names_judge(const char *list, const json_t *roster, const char *found, struct finding *ret) {
        unsigned n = 0, worker;
        char address[64];
        int len;

        finding_init(ret, "preflight.names", "");
        ret->verdict = VERDICT_OK;
        for (; sscanf(found, "%u %63s%n", &worker, address, &len) == 2; found += len, n++)
                judge_name(list, roster, worker, address, ret);
        finding_set(ret->found, "%u names looked up", n);
}

/* --- Looked up ----------------------------------------------------------------------------------------- */

struct worker_names {
        struct child *child;
        char *list;
        json_t *roster;
        unsigned worker, n;
        void (*done)(const struct finding *f, void *userdata);
        void *userdata;
};

/* In the child: "WORKER ADDRESS", each as soon as it is there. */
static int look_up_workers(int fd, const void *data) {
        const struct worker_names *w = data;

        for (unsigned i = 1; i <= MIN(w->n - 1, (unsigned) WORKER_NAMES_MAX); i++) {
                const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
                unsigned worker = (w->worker + i) % w->n;
                char name[256], address[64];
                struct addrinfo *all;

                if (getaddrinfo(name_at(w->list, worker, name), NULL, &hints, &all) != 0)
                        continue; /* the check "path" says that it is no name */
                if (getnameinfo(all->ai_addr, all->ai_addrlen, address, sizeof(address), NULL, 0,
                                NI_NUMERICHOST) == 0)
                        (void) dprintf(fd, "%u %s\n", worker, address); /* else one less */
                freeaddrinfo(all);
        }
        return 0;
}

static void on_workers(int result, const char *answer, size_t len, void *userdata) {
        struct worker_names *w = userdata;
        struct finding f;

        (void) result, (void) len; /* what came in time counts */
        worker_names_judge(w->list, w->roster, answer ? answer : "", &f);
        w->done(&f, w->userdata); /* and w may be gone */
}

int worker_names_new(sd_event *e, const char *list, const json_t *roster, unsigned worker,
                     void (*done)(const struct finding *f, void *userdata), void *userdata,
                     struct worker_names **ret) {
        _cleanup_(worker_names_freep) struct worker_names *w = calloc(1, sizeof(*w));
        struct child_work work = { .name = "worker-names",
                                   .timeout = WORKER_NAMES_TIME,
                                   .run = look_up_workers,
                                   .max = FOUND_MAX,
                                   .done = on_workers };
        int r;

        if (!w)
                return -ENOMEM;
        if (!list || !*list || json_array_size(roster) == 0)
                return -ENODATA;
        w->list = strdup(list);
        w->roster = json_deep_copy(roster);
        w->worker = worker;
        w->done = done;
        w->userdata = userdata;
        for (w->n = 1; *list; list++)
                w->n += *list == ',';
        if (!w->list || !w->roster)
                return -ENOMEM;
        work.data = work.userdata = w;
        r = child_start(e, &work, &w->child);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

struct worker_names *worker_names_free(struct worker_names *w) {
        if (!w)
                return NULL;
        w->child = child_free(w->child);
        json_decref(w->roster);
        free(w->list);
        free(w);
        return NULL;
}
