/* SPDX-License-Identifier: Apache-2.0 */
#include "exit_record.h"

#include <fcntl.h>

#include "cgroup.h"
#include "handover.h"
#include "kept_run.h"
#include "json_fields.h"
#include "log.h"
#include "state_file.h"

/* Copies a word of systemd's: short, lower- or upper-case letters, digits and '-'. */
static int copy_word(const char *word, char *dest, size_t size) {
        size_t n = strlen(word);

        if (n >= size ||
            strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+") != n)
                return -EBADMSG;
        memcpy(dest, word, n + 1);
        return 0;
}

/* The record out of $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS (systemd.exec(5)). -EBADMSG without a
 * result. */
static int exit_record_from_environment(const struct host *h, const char *id, struct exit_record *ret) {
        const char *result = getenv("SERVICE_RESULT"), *code = getenv("EXIT_CODE"),
                   *status = getenv("EXIT_STATUS");
        struct exit_record r = { .real = host_now_real(h), .boot = host_now(h) };

        if (!result || !result[0] || copy_word(id, r.id, sizeof(r.id)) < 0 ||
            copy_word(result, r.result, sizeof(r.result)) < 0 ||
            copy_word(code ? code : "", r.code, sizeof(r.code)) < 0 ||
            copy_word(status ? status : "", r.status, sizeof(r.status)) < 0)
                return -EBADMSG;
        (void) host_boot_id(h, r.boot_id); /* empty when unreadable: the id names the run */
        r.oom_kills = cgroup_oom_kills(h);
        *ret = r;
        return 0;
}

#define FIELD(...) JSON_FIELD(struct exit_record, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(WORD, "id", id),
        FIELD(WORD, "result", result),
        FIELD(WORD, "code", code),
        FIELD(WORD, "status", status),
        FIELD(FLAG, "not_executed", not_executed),
        FIELD(WORD, "boot_id", boot_id),
        FIELD(NUMBER, "real_usec", real),
        FIELD(NUMBER, "boot_usec", boot),
        FIELD(NUMBER, "oom_kills", oom_kills),
        FIELD(WORD, "cause", cause),
        FIELD(TEXT, "why", why),
        FIELD(TEXT, "remedy", remedy),
        FIELD(TEXT, "lost_peer", lost_peer),
        FIELD(FLAG, "step_known", step_known),
        FIELD(NUMBER, "last_step", last_step),
};

static const struct state_format format = {
        .what = "exit", .version = 1, .max = 4096, .options = { .mode = 0600 }
};

int exit_record_write(int exits_fd, const char *name, const struct exit_record *r) {
        return state_file_write_json(exits_fd, name, &format,
                                     json_fields_pack(fields, ELEMENTSOF(fields), r));
}

int exit_record_read(int exits_fd, const char *name, const char *id, struct exit_record *ret) {
        struct exit_record record = { 0 };
        json_t *o;
        int r = state_file_load_json(exits_fd, name, &format, &o);

        if (r < 0)
                return r;
        r = json_fields_take(o, fields, ELEMENTSOF(fields), &record);
        json_decref(o);
        if (r < 0 || !record.result[0])
                return -EBADMSG;
        if (!streq(record.id, id))
                return -ENOENT;
        *ret = record;
        return 0;
}

int exit_record_main(const struct host *h, const char *name, const char *id) {
        _cleanup_close_ int exits = -1;
        struct exit_record record;
        int r;

        if (!run_name_is_valid(name))
                return log_error_errno(EINVAL, "--record '%.64s' is not the name of a run", name);
        r = exit_record_from_environment(h, id, &record);
        if (r < 0)
                return log_error_errno(
                        r, "run %s: no exit status: this is for the ExecStopPost= of a run's unit only",
                        name);
        record.not_executed = handover_failed(h, name);
        exits = host_open_file(h, STATE_EXITS, O_RDONLY | O_DIRECTORY);
        if (exits < 0)
                return log_error_errno(exits, "run %s: " STATE_EXITS " cannot be opened: %m", name);
        r = exit_record_write(exits, name, &record);
        if (r < 0)
                return log_error_errno(r, "run %s: its end (%s %s) could not be recorded: %m", name,
                                       record.result, record.status);
        return 0;
}
