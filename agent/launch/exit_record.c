/* SPDX-License-Identifier: Apache-2.0 */
#include "exit_record.h"

#include <fcntl.h>
#include <jansson.h>

#include "cgroup.h"
#include "durable.h"
#include "job.h"
#include "log.h"
#include "state.h"

#define RECORD_VERSION 1
#define RECORD_SIZE_MAX 4096

/* Copies a word of systemd's: short, lower- or upper-case letters, digits and '-'. */
static int copy_word(const char *word, char *dest, size_t size) {
        size_t n = strlen(word);

        if (n >= size ||
            strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+") != n)
                return -EBADMSG;
        memcpy(dest, word, n + 1);
        return 0;
}

int exit_record_from_environment(const struct host *h, const char *id, struct exit_record *ret) {
        const char *result = getenv("SERVICE_RESULT"), *code = getenv("EXIT_CODE"),
                   *status = getenv("EXIT_STATUS");
        struct exit_record r = { .real = host_now_real(h), .boot = host_now(h) };

        if (!result || !result[0] || copy_word(id, r.id, sizeof(r.id)) < 0 ||
            copy_word(result, r.result, sizeof(r.result)) < 0 ||
            copy_word(code ? code : "", r.code, sizeof(r.code)) < 0 ||
            copy_word(status ? status : "", r.status, sizeof(r.status)) < 0)
                return -EBADMSG;
        (void) host_boot_id(h, r.boot_id); /* empty when unreadable: the id tells the run */
        r.oom_kills = cgroup_oom_kills(h);
        *ret = r;
        return 0;
}

static int add_cause(json_t *o, const struct exit_record *r) {
        json_t *cause;
        int k;

        if (!r->cause[0])
                return 0;
        cause = json_pack("{s:s, s:s, s:s}", "cause", r->cause, "why", r->why, "remedy", r->remedy);
        k = cause ? json_object_update(o, cause) : -1;
        json_decref(cause);
        if (k == 0 && r->step_known)
                k = json_object_set_new(o, "last_step", json_integer((json_int_t) r->last_step));
        return k < 0 ? -ENOMEM : 0;
}

int exit_record_write(int exits_fd, const char *name, const struct exit_record *r) {
        _cleanup_free_ char *text = NULL;
        json_t *o;

        o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "version", RECORD_VERSION, "id",
                      r->id, "result", r->result, "code", r->code, "status", r->status, "boot_id",
                      r->boot_id, "real_usec", (json_int_t) r->real, "boot_usec", (json_int_t) r->boot,
                      "oom_kills", (json_int_t) r->oom_kills);
        if (o && add_cause(o, r) < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        if (!o)
                return -ENOMEM;
        text = json_dumps(o, JSON_COMPACT);
        json_decref(o);
        if (!text)
                return -ENOMEM;
        return durable_write(exits_fd, name, text, strlen(text), 0600);
}

static int copy_text(const char *text, char *dest, size_t size) {
        if (strlen(text) >= size)
                return -EBADMSG;
        (void) snprintf(dest, size, "%s", text);
        return 0;
}

/* What the recorder does not write. */
static int parse_cause(json_t *o, struct exit_record *ret) {
        const char *cause = "", *why = "", *remedy = "";
        json_int_t step = -1;

        if (json_unpack(o, "{s?s, s?s, s?s, s?I}", "cause", &cause, "why", &why, "remedy", &remedy,
                        "last_step", &step) < 0)
                return -EBADMSG;
        if (copy_word(cause, ret->cause, sizeof(ret->cause)) < 0 ||
            copy_text(why, ret->why, sizeof(ret->why)) < 0 ||
            copy_text(remedy, ret->remedy, sizeof(ret->remedy)) < 0)
                return -EBADMSG;
        ret->step_known = step >= 0;
        ret->last_step = step >= 0 ? (uint64_t) step : 0;
        return 0;
}

static int parse(json_t *o, const char *id, struct exit_record *ret) {
        const char *rid, *result, *code, *status, *boot_id;
        struct exit_record r = { 0 };
        json_int_t real, boot, oom_kills;
        int version;

        if (json_unpack(o, "{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "version", &version, "id", &rid,
                        "result", &result, "code", &code, "status", &status, "boot_id", &boot_id,
                        "real_usec", &real, "boot_usec", &boot, "oom_kills", &oom_kills) < 0)
                return -EBADMSG;
        if (!streq(rid, id))
                return -ENOENT;
        if (version < 1 || real < 0 || boot < 0 || oom_kills < 0 || copy_word(rid, r.id, sizeof(r.id)) < 0 ||
            copy_word(result, r.result, sizeof(r.result)) < 0 ||
            copy_word(code, r.code, sizeof(r.code)) < 0 ||
            copy_word(status, r.status, sizeof(r.status)) < 0 ||
            copy_word(boot_id, r.boot_id, sizeof(r.boot_id)) < 0 || !r.result[0])
                return -EBADMSG;
        r.real = (usec_t) real;
        r.boot = (usec_t) boot;
        r.oom_kills = (uint32_t) MIN(oom_kills, (json_int_t) UINT32_MAX);
        *ret = r;
        return parse_cause(o, ret);
}

int exit_record_read(int exits_fd, const char *name, const char *id, struct exit_record *ret) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        json_t *o;
        int r;

        r = durable_read(exits_fd, name, RECORD_SIZE_MAX, &text, &len);
        if (r < 0)
                return r == -E2BIG ? -EBADMSG : r;
        o = json_loadb(text, len, 0, NULL);
        if (!o)
                return -EBADMSG;
        r = parse(o, id, ret);
        json_decref(o);
        return r;
}

int exit_record_main(const struct host *h, const char *name, const char *id) {
        _cleanup_close_ int exits = -1;
        struct exit_record record;
        int r;

        if (!job_name_is_valid(name))
                return log_error_errno(EINVAL, "--record '%.64s' is not the name of a run", name);
        r = exit_record_from_environment(h, id, &record);
        if (r < 0)
                return log_error_errno(
                        r, "run %s: no exit status: this is for the ExecStopPost= of a run's unit only",
                        name);
        exits = host_open_file(h, STATE_EXITS, O_RDONLY | O_DIRECTORY);
        if (exits < 0)
                return log_error_errno(exits, "run %s: " STATE_EXITS " cannot be opened: %m", name);
        r = exit_record_write(exits, name, &record);
        if (r < 0)
                return log_error_errno(r, "run %s: its end (%s %s) could not be recorded: %m", name,
                                       record.result, record.status);
        return 0;
}
