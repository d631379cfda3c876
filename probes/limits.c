/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that a run gets. Ours come from its unit (memlock unlimited, RUN_NOFILE files), within what the
 * kernel allows; a training started as any other service gets the manager's defaults, which are told beside.
 */
#include "words.h"
#include "host_stat.h"
#include "paths.h"
#include "system_conf.h"

struct value {
        char text[64];
};

static void keep(const char *value, const char *file, void *userdata) {
        struct value *v = userdata;

        (void) file;
        (void) snprintf(v->text, sizeof(v->text), "%s", value);
        (void) make_printable(v->text);
}

/* What other services get, for a person. */
static int other_services(const struct host *h, const char *key, struct value *ret) {
        struct host_stat st;
        int r;

        *ret = (struct value){ "" };
        r = host_stat(h, "/etc/systemd", &st);
        if (r == 0)
                r = system_conf_visit(h, key, keep, ret);
        if (r == 0 && !ret->text[0])
                (void) snprintf(ret->text, sizeof(ret->text), "systemd's built-in default");
        return r;
}

static void check_nofile(const struct host *h, struct sink *s) {
        struct value others;
        uint64_t most;
        int r = host_read_u64(h, "/proc/sys/fs/nr_open", &most);

        if (r < 0)
                probe_tell(s, WORDS_NOFILE_UNREADABLE, NULL, strerror(-r), "%s", "");
        else if (most < RUN_NOFILE)
                probe_tell(s, WORDS_NOFILE_LOW, NULL, NULL, "%" PRIu64, most);
        else if (other_services(h, "DefaultLimitNOFILE", &others) == 0)
                probe_tell(s, WORDS_NOFILE, NULL, NULL, "%d in a run (other services: %s)", RUN_NOFILE,
                           others.text);
        else
                probe_tell(s, WORDS_NOFILE, NULL, NULL, "%d", RUN_NOFILE);
}

static void check_memlock(const struct host *h, struct sink *s) {
        struct value others;
        int r = other_services(h, "DefaultLimitMEMLOCK", &others);

        if (r < 0)
                probe_tell(s, WORDS_MEMLOCK_UNREADABLE, NULL, strerror(-r), "%s", "");
        else
                probe_tell(s, WORDS_MEMLOCK, NULL, NULL, "unlimited in a run (other services: %s)",
                           others.text);
}

int probe_limits(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        check_nofile(h, s);
        check_memlock(h, s);
        return 0;
}
