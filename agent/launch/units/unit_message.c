/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"
#include "paths.h"
#include "secret.h"
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

static int add_journal_field(sd_bus_message *m, const char *key, const char *value) {
        char field[RUN_LABEL_SIZE + 32];
        int n;

        if (!value[0])
                return 0;
        n = snprintf(field, sizeof(field), "%s=%s", key, value);
        return sd_bus_message_append_array(m, 'y', field, (size_t) n);
}

/* What each line of the run carries. TPU_RUN_ID separates the lines of one start from those of the next.
 */
static int add_journal_fields(sd_bus_message *m, const struct unit_spec *s) {
        char generation[24] = "", uid[16];
        int r;

        (void) snprintf(uid, sizeof(uid), "%u", (unsigned) s->kept->uid);

        if (s->kept->generation > 0)
                (void) snprintf(generation, sizeof(generation), "%" PRIu64, s->kept->generation);
        r = sd_bus_message_open_container(m, 'r', "sv");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', "LogExtraFields");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "aay");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "ay");
        r = r < 0 ? r : add_journal_field(m, "TPU_RUN", s->kept->name);
        r = r < 0 ? r : add_journal_field(m, "TPU_RUN_ID", s->kept->id);
        r = r < 0 ? r : add_journal_field(m, RUN_UID_FIELD, uid);
        r = r < 0 ? r : add_journal_field(m, "TPU_GENERATION", generation);
        r = r < 0 ? r : add_journal_field(m, "TPU_INTENT", s->kept->intent);
        r = r < 0 ? r : add_journal_field(m, "TPU_SLICE", s->kept->slice);
        r = r < 0 ? r : add_journal_field(m, "TPU_WORKER", s->kept->worker);
        for (int i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

/* What the run's slice is measured by (probes/metrics): a controller that a unit asks for is there for the
 * slices above it, too. Whatever DefaultIOAccounting= and its like say; of a service they change nothing
 * else. */
static int add_accounting(sd_bus_message *m) {
        static const char *const kinds[] = { "CPUAccounting", "MemoryAccounting", "TasksAccounting",
                                             "IOAccounting" };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(kinds); i++)
                r = add_flag(m, kinds[i], true);
        return r;
}

static int add_set(sd_bus_message *m, const char *key, const char *text) {
        struct number_set set;
        int r;

        if (!text[0])
                return 0;
        r = number_set_parse(text, &set); /* it was parsed before */
        r = r < 0 ? r : sd_bus_message_open_container(m, 'r', "sv");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', key);
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "ay");
        r = r < 0 ? r : sd_bus_message_append_array(m, 'y', set.bits, set.bytes);
        for (int i = 0; r >= 0 && i < 2; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

static int add_number_set(sd_bus_message *m, const char *key, const char *text) {
        int r = add_set(m, key, text);

        if (r >= 0 && text[0] && streq(key, "NUMAMask"))
                r = sd_bus_message_append(m, "(sv)", "NUMAPolicy", "i", 2 /* MPOL_BIND */);
        return r;
}

/* The keys that are properties, of the unit or of its slice; one that is not given and has no default is not
 * said. */
static int add_keys(sd_bus_message *m, const Run__Spec *s, bool slice) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);
                const char *property = slice ? k->slice : k->unit;

                if (!property || !(run_key_given(k, s) || run_key_has_default(k)))
                        continue;
                if (k->kind == RUN_KEY_NUMBERS)
                        r = add_number_set(m, property, run_key_text(k, s));
                else if (run_key_is_text(k))
                        r = add_string(m, property, run_key_text(k, s));
                else if (k->kind == RUN_KEY_FLAG)
                        r = add_flag(m, property, run_key_number(k, s));
                else
                        r = add_number(m, property, run_key_number(k, s));
        }
        return r;
}

static bool limits_slice(const Run__Spec *s) {
        for (size_t i = 0; i < run_keys_count(); i++)
                if (run_key_at(i)->slice && run_key_given(run_key_at(i), s))
                        return true;
        return false;
}

/* A core of a training process is as large as its memory: hundreds of gigabytes. */
static int add_limits(sd_bus_message *m, const Run__Spec *s) {
        int r = add_keys(m, s, false);

        return r < 0 ? r : add_number(m, "LimitCORE", streq(s->core, "keep") ? UINT64_MAX : 0);
}

/* The TPU's nodes, by the names that the accel and vfio drivers have in /proc/devices, and those that are
 * there by path: a driver may have another name. "closed" lets in the pseudo devices, terminals among them.
 */
static int add_devices(sd_bus_message *m, const struct unit_spec *s) {
        static const char *const drivers[] = { "char-accel*", "char-vfio*" };
        const char *rights = kept_run_has_image(s->kept) ? "rwm" : "rw"; /* m: a container's own nodes */
        int r;

        if (streq(s->kept->spec->devices, "any"))
                return 0;
        r = add_string(m, "DevicePolicy", "closed");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'r', "sv");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', "DeviceAllow");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "a(ss)");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(ss)");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(drivers); i++)
                r = sd_bus_message_append(m, "(ss)", drivers[i], rights);
        for (size_t i = 0; r >= 0 && s->devices && s->devices[i]; i++)
                r = sd_bus_message_append(m, "(ss)", s->devices[i], rights);
        for (int i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

/* LoadCredential=, from 247 on: systemd copies the file into memory that only the run's user can read. Not
 * SetCredential=: what it is given stands in the unit's file, which is for everybody. */
static int add_secrets(sd_bus_message *m, const struct unit_spec *s) {
        char path[128];

        if (!s->secrets)
                return 0;
        (void) snprintf(path, sizeof(path), STATE_SECRETS "/%s", s->kept->name);
        return sd_bus_message_append(m, "(sv)", "LoadCredential", "a(ss)", 1, SECRETS_CREDENTIAL, path);
}

/*
 * What a person's run may do is what the person may do, sudo included. A run that came through tpu-hostd may
 * not: many a user of these machines has sudo without a password, and whoever owns hostd must not own the
 * host. Of a container the engine's client is root's, and makes control groups below the unit's; what may be
 * done inside is in its command line (engine.h).
 */
static int add_user(sd_bus_message *m, const struct unit_spec *s) {
        int r;

        if (kept_run_has_image(s->kept))
                return add_flag(m, "Delegate", true);
        r = add_string(m, "User", s->kept->user);
        return r < 0 || !s->kept->remote ? r : add_flag(m, "NoNewPrivileges", true);
}

static int add_command(sd_bus_message *m, const struct unit_spec *s) {
        const char *const start[] = { PATH_LAUNCHD_TOOL, "--exec", s->kept->name, NULL };
        const char *const record[] = {
                PATH_LAUNCHD_TOOL, "--record", s->kept->name, "--id", s->kept->id, NULL
        };
        int r;

        r = add_string(m, "Type", "exec");
        r = r < 0 ? r : add_user(m, s);
        /* User= is for the command; the recorder is root's. By its age the one property that says so in all
         * versions' unit files; "+" is a flag of the ...Ex properties. */
        r = r < 0 ? r : add_flag(m, "PermissionsStartOnly", true);
        r = r < 0 ? r : add_exec(m, "ExecStart", start);
        return r < 0 ? r : add_exec(m, "ExecStopPost", record);
}

static int add_properties(sd_bus_message *m, const struct unit_spec *s) {
        char slice[RUN_UNIT_MAX], description[96];
        int r;

        (void) snprintf(description, sizeof(description), "Training run %s", s->kept->name);
        r = add_string(m, "Description", description);
        r = r < 0 ? r : add_string(m, "Slice", run_slice(s->kept->name, slice));
        r = r < 0 ? r : add_command(m, s);
        /* An engine's client hands TERM on, and says then how the container ended. */
        r = r < 0 ? r : add_string(m, "KillMode", kept_run_has_image(s->kept) ? "mixed" : "control-group");
        /* The name is free again as soon as the run has ended, however it ended: the record is what
         * remembers. */
        r = r < 0 ? r : add_string(m, "CollectMode", "inactive-or-failed");
        r = r < 0 ? r : add_string(m, "SyslogIdentifier", "tpu-run");
        /* No step line is dropped in a training's noise, and one that prints without end does not push the
         * host's own records out of the journal within minutes. systemd's own limit is 10,000. */
        r = r < 0 ? r : add_number(m, "LogRateLimitIntervalUSec", RUN_LINES_EVERY);
        r = r < 0 ? r : sd_bus_message_append(m, "(sv)", "LogRateLimitBurst", "u", RUN_LINES_MOST);
        r = r < 0 ? r : add_journal_fields(m, s);
        r = r < 0 ? r : add_accounting(m);
        r = r < 0 ? r : add_limits(m, s->kept->spec);
        r = r < 0 ? r : add_devices(m, s);
        return r < 0 ? r : add_secrets(m, s);
}

/* No recorder, and the run's limits of time: it has until the run's own end. */
static int add_properties_beside(sd_bus_message *m, const struct unit_spec *s) {
        char slice[RUN_UNIT_MAX], description[96], handover[RUN_NAME_MAX + 16];
        const char *const start[] = { PATH_LAUNCHD_TOOL, "--exec", handover, NULL };
        int r;

        (void) snprintf(description, sizeof(description), "Preemption of training run %s", s->kept->name);
        (void) snprintf(handover, sizeof(handover), "%s%s", s->kept->name, HANDOVER_PREEMPT);
        r = add_string(m, "Description", description);
        r = r < 0 ? r : add_string(m, "Slice", run_slice(s->kept->name, slice));
        r = r < 0 ? r : add_string(m, "User", s->kept->user);
        r = r < 0 ? r : add_exec(m, "ExecStart", start);
        r = r < 0 ? r : add_string(m, "CollectMode", "inactive-or-failed");
        r = r < 0 ? r : add_string(m, "SyslogIdentifier", "tpu-run");
        r = r < 0 ? r : add_number(m, "RuntimeMaxUSec", s->kept->spec->grace);
        if (r >= 0 && s->kept->remote)
                r = add_flag(m, "NoNewPrivileges", true);
        r = r < 0 ? r : add_journal_fields(m, s);
        r = r < 0 ? r : add_devices(m, s);
        return r < 0 ? r : add_secrets(m, s);
}

/* The slice, as a unit beside the service. It is stopped after the run's end (run_sweep()), and gone with
 * its limits. */
static int add_slice(sd_bus_message *m, const struct unit_spec *s) {
        char slice[RUN_UNIT_MAX], description[96];
        int r;

        (void) snprintf(description, sizeof(description), "Training run %s and its containers",
                        s->kept->name);
        r = sd_bus_message_open_container(m, 'r', "sa(sv)");
        r = r < 0 ? r : sd_bus_message_append_basic(m, 's', run_slice(s->kept->name, slice));
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sv)");
        r = r < 0 ? r : add_string(m, "Description", description);
        r = r < 0 ? r : add_keys(m, s->kept->spec, true);
        r = r < 0 ? r : sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* What is made together with the unit: its slice where that has limits, else systemd makes one by itself. */
static int add_beside(sd_bus_message *m, const struct unit_spec *s, bool slice) {
        int r = sd_bus_message_open_container(m, 'a', "(sa(sv))");

        if (r >= 0 && slice)
                r = add_slice(m, s);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int new_message(sd_bus *bus, const char *unit, const struct unit_spec *s,
                       int (*add)(sd_bus_message *m, const struct unit_spec *s), bool slice,
                       sd_bus_message **ret) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_call(bus, &m, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                           "StartTransientUnit");
        r = r < 0 ? r : sd_bus_message_append(m, "ss", unit, "fail");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sv)");
        r = r < 0 ? r : add(m, s);
        r = r < 0 ? r : sd_bus_message_close_container(m);
        r = r < 0 ? r : add_beside(m, s, slice);
        if (r < 0) {
                sd_bus_message_unref(m);
                return r;
        }
        *ret = m;
        return 0;
}

int unit_message_new(sd_bus *bus, const struct unit_spec *s, sd_bus_message **ret) {
        char unit[RUN_UNIT_MAX];

        return new_message(bus, run_unit(s->kept->name, unit), s, add_properties,
                           limits_slice(s->kept->spec),
                           ret);
}

int unit_message_beside(sd_bus *bus, const struct unit_spec *s, sd_bus_message **ret) {
        char unit[RUN_UNIT_MAX + 8];

        (void) snprintf(unit, sizeof(unit), PREEMPT_UNIT_PREFIX "%s.service", s->kept->name);
        return new_message(bus, unit, s, add_properties_beside, false, ret);
}
