/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"
#include "observe_file.h"
#include "paths.h"
#include "runtime.h"
#include "state_file.h"

#define NAME "observe"

static const struct state_format format = {
        .what = NAME, .version = 1, .max = OBSERVE_TEXT_MAX - 1, .options = { .mode = 0644 }
};

/*
 * 0: there is none; 1: there is one, or something that is none (as an order without an end); -errno: nobody
 * knows, ret likewise.
 */
static int load_one(int dir_fd, const char *directory, struct observe *ret) {
        char why[STATE_FILE_WHY_MAX];
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int unread = state_file_read(dir_fd, NAME, &format, &text, &len, why), r = unread;

        if (r == -ENOENT)
                return 0;
        *ret = (struct observe) { .ordered = true };
        if (r == 0) {
                (void) snprintf(why, sizeof(why), "it holds what tpu-netcfg does not write");
                r = observe_parse(text, len, ret);
        }
        if (r < 0)
                (void) log_warning_errno(r,
                                         "%s/" NAME " cannot be read: %s; a person may have ordered to "
                                         "observe, so nothing is changed for an hour, or until tpu-hostd "
                                         "says what stands", directory, why);
        return unread < 0 && unread != -EBADMSG && unread != -EPROTONOSUPPORT ? unread : 1;
}

static int save_one(int dir_fd, const struct observe *o) {
        char text[OBSERVE_TEXT_MAX];

        if (o->ordered)
                return state_file_write(dir_fd, NAME, &format, text, observe_format(o, text));
        if (unlinkat(dir_fd, NAME, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        return fsync(dir_fd) < 0 ? -errno : 0; /* else the order may be back after a power cut */
}

int observe_file_save(const struct host *h, int runtime_fd, const struct observe *o) {
        /* systemd makes it (StateDirectory=); who runs us by hand as root has none yet. */
        _cleanup_close_ int state = runtime_open_directory(h, PATH_NETCFG_STATE, o->ordered);
        int r = state == -ENOENT ? 0 : state < 0 ? state : save_one(state, o);

        if (r < 0)
                (void) log_warning_errno(
                        r, PATH_NETCFG_STATE "/" NAME ": %m; the next boot will not know that %s",
                        o->ordered ? "observing was ordered" : "observing has ended");
        return save_one(runtime_fd, o);
}

void observe_file_load(const struct host *h, int runtime_fd, const char *boot_id, struct observe *ret) {
        _cleanup_close_ int state = runtime_open_directory(h, PATH_NETCFG_STATE, false);
        struct observe o = OBSERVE_NULL;
        int r = state < 0 ? 0 : load_one(state, PATH_NETCFG_STATE, &o);

        if (r == 0)
                r = load_one(runtime_fd, PATH_NETCFG_RUNTIME, &o);
        /* Adopted, it is kept, else the next start takes it over again; but what was not read is nobody's
         * order. */
        if (observe_adopt(&o, boot_id, host_now(h), host_now_real(h)) && r >= 0)
                (void) observe_file_save(h, runtime_fd, &o);
        *ret = o;
}
