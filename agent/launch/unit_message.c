/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"
#include "unit_message.h"

/* Each step of a message can fail for lack of memory, or by our own mistake, only: the first error is kept,
 * the rest skipped. */

static int add_string(sd_bus_message *m, const char *key, const char *value) {
        return sd_bus_message_append(m, "(sv)", key, "s", value);
}

static int add_number(sd_bus_message *m, const char *key, uint64_t value) {
        return sd_bus_message_append(m, "(sv)", key, "t", value);
}

static int append_words(sd_bus_message *m, const char *const *words) {
        int r = sd_bus_message_open_container(m, 'a', "s");

        for (size_t i = 0; r >= 0 && words[i]; i++)
                r = sd_bus_message_append_basic(m, 's', words[i]);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int add_flag(sd_bus_message *m, const char *key, bool value) {
        return sd_bus_message_append(m, "(sv)", key, "b", (int) value);
}

/*
 * ExecStart and ExecStopPost: a list of one {path, argv, whether a failure is ignored}. Not ExecStartEx and
 * ExecStopPostEx: up to systemd 252 at least they are written into the unit's file under these very names,
 * which the next daemon-reload (any package's installation) does not know: the run would lose its recorder.
 */
static int add_exec(sd_bus_message *m, const char *key, const char *const *words) {
        int r;

        r = sd_bus_message_open_container(m, 'r', "sv");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', key);
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "a(sasb)");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sasb)");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'r', "sasb");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', PATH_LAUNCHD_TOOL);
        r = r < 0 ? r : append_words(m, words);
        r = r < 0 ? r : sd_bus_message_append(m, "b", 0);
        for (int i = 0; r >= 0 && i < 4; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

static int add_journal_field(sd_bus_message *m, const char *name) {
        char field[64];
        int r;

        (void) snprintf(field, sizeof(field), "TPU_JOB=%s", name);
        r = sd_bus_message_open_container(m, 'r', "sv");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', "LogExtraFields");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "aay");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "ay");
        r = r < 0 ? r : sd_bus_message_append_array(m, 'y', field, strlen(field));
        for (int i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

/* What the run's slice is measured by (probes/metrics): a controller that a unit asks for is there for the slices
 * above it, too. Whatever DefaultIOAccounting= and its like say; of a service they change nothing else. */
static int add_accounting(sd_bus_message *m) {
        static const char *const kinds[] = { "CPUAccounting", "MemoryAccounting", "TasksAccounting", "IOAccounting" };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(kinds); i++)
                r = add_flag(m, kinds[i], true);
        return r;
}

static int add_properties(sd_bus_message *m, const struct unit_spec *s) {
        const char *const start[] = { PATH_LAUNCHD_TOOL, "--exec", s->name, NULL };
        const char *const record[] = { PATH_LAUNCHD_TOOL, "--record", s->name, "--id", s->id, NULL };
        char slice[JOB_UNIT_MAX], description[96];
        int r;

        (void) snprintf(description, sizeof(description), "Training run %s", s->name);
        r = add_string(m, "Description", description);
        r = r < 0 ? r : add_string(m, "Type", "exec");
        r = r < 0 ? r : add_string(m, "Slice", job_slice(s->name, slice));
        r = r < 0 ? r : add_string(m, "User", s->user);
        /* User= is for the command; the recorder is root's. By its age the one property that says so in all
         * versions' unit files; "+" is a flag of the ...Ex properties. */
        r = r < 0 ? r : add_flag(m, "PermissionsStartOnly", true);
        r = r < 0 ? r : add_exec(m, "ExecStart", start);
        r = r < 0 ? r : add_exec(m, "ExecStopPost", record);
        r = r < 0 ? r : add_string(m, "KillMode", "control-group");
        r = r < 0 ? r : add_number(m, "TimeoutStopUSec", UNIT_STOP_TIMEOUT);
        /* The name is free again as soon as the run has ended, however it ended: the record is what
         * remembers. */
        r = r < 0 ? r : add_string(m, "CollectMode", "inactive-or-failed");
        r = r < 0 ? r : add_string(m, "SyslogIdentifier", "tpu-run");
        r = r < 0 ? r : add_number(m, "LogRateLimitIntervalUSec", 0); /* step lines are never dropped */
        r = r < 0 ? r : add_journal_field(m, s->name);
        r = r < 0 ? r : add_accounting(m);
        r = r < 0 ? r : add_number(m, "LimitMEMLOCK", UINT64_MAX); /* libtpu locks its DMA pool in memory */
        r = r < 0 ? r : add_number(m, "LimitNOFILE", RUN_NOFILE);
        return r;
}

int unit_message_new(sd_bus *bus, const struct unit_spec *s, sd_bus_message **ret) {
        sd_bus_message *m = NULL;
        char unit[JOB_UNIT_MAX];
        int r;

        r = sd_bus_message_new_method_call(bus, &m, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                           "StartTransientUnit");
        r = r < 0 ? r : sd_bus_message_append(m, "ss", job_unit(s->name, unit), "fail");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sv)");
        r = r < 0 ? r : add_properties(m, s);
        r = r < 0 ? r : sd_bus_message_close_container(m);
        r = r < 0 ? r : sd_bus_message_append(m, "a(sa(sv))", 0);
        if (r < 0) {
                sd_bus_message_unref(m);
                return r;
        }
        *ret = m;
        return 0;
}
