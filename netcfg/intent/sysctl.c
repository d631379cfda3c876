/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "check_words.h"
#include "sysctl.h"

#define READ_MAX 1024 /* longer than any sysctl that has a wanted value */

static void judge_value(const char *check, const struct intent_sysctl *s, const char *value, int error,
                        struct finding *ret) {
        char text[READ_MAX];
        int n;

        finding_init(ret, check, s->name);
        finding_set(ret->wanted, "%s", s->value);
        finding_set(ret->source, "%s", s->source);
        if (!value || (error < 0 && error != -EROFS)) {
                finding_set(ret->reason, "cannot be read: %s", strerror(error < 0 ? -error : EIO));
                return;
        }
        n = snprintf(text, sizeof(text), "%s", value);
        intent_sysctl_normalize(text);
        finding_set(ret->found, "%s", text);
        /* What was cut is no wanted value, whatever its beginning. */
        ret->verdict = VERDICT_FAIL;
        if (n >= 0 && (size_t) n < sizeof(text) && streq(text, s->value))
                ret->verdict = VERDICT_OK;
}

void intent_judge_sysctl(const struct intent_sysctl *s, const char *value, int error, struct finding *ret) {
        judge_value("sysctl", s, value, error, ret);
        if (error == -ENOENT)
                finding_set(ret->reason, "this kernel has no such sysctl");
        else if (ret->verdict == VERDICT_FAIL && error == -EROFS) {
                ret->verdict = VERDICT_UNKNOWN;
                finding_set(ret->reason,
                            "read-only in this network namespace: it is the machine's, not ours");
        } else if (ret->verdict == VERDICT_FAIL)
                check_say(ret, WORDS_REPAIR);
}

void intent_judge_parameter(const struct intent_sysctl *s, const char *value, int error, bool container,
                            struct finding *ret) {
        judge_value("module.parameter", s, value, error, ret);
        if (ret->verdict == VERDICT_OK)
                return;
        if (container) { /* no setting of this host, and nothing it could be blamed for */
                ret->verdict = VERDICT_UNKNOWN;
                finding_set(ret->reason,
                            "read-only here: it is the machine's, and this is a container on it");
        } else if (error == -ENOENT)
                finding_set(ret->reason, "this kernel has no such parameter, or its module is not loaded");
        else if (ret->verdict == VERDICT_FAIL)
                check_say(ret, WORDS_PARAMETER_WRONG);
}

int intent_read_sysctl(const struct host *h, const char *name, char *buf, size_t size) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        char path[128];
        int r;

        r = intent_sysctl_path(name, path, sizeof(path));
        if (r < 0)
                return r;
        fd = host_open_file(h, path, O_RDONLY);
        r = fd < 0 ? fd : host_read_file(fd, buf, size, NULL);
        if (r < 0)
                return r;
        intent_sysctl_normalize(buf);
        /* A mode without any w: another namespace's. Rights that are missing look otherwise. */
        return fstat(fd, &st) == 0 && (st.st_mode & 0222) == 0 ? -EROFS : 0;
}

int intent_parameter_path(const char *name, char buf[static 128]) {
        const char *dot = strchr(name, '.');

        if (!dot || dot == name || strchr(name, '/'))
                return -EINVAL;
        (void) snprintf(buf, 128, "/sys/module/%.*s/parameters/%.63s", (int) MIN(dot - name, 63), name,
                        dot + 1);
        return 0;
}

int intent_read_parameter(const struct host *h, const char *name, char *buf, size_t size) {
        _cleanup_close_ int fd = -1;
        char path[128];
        int r;

        if (intent_parameter_path(name, path) < 0)
                return -EINVAL;
        r = host_read(h, path, buf, size, NULL);
        if (r < 0)
                return r;
        intent_sysctl_normalize(buf);
        fd = host_open_file(h, path, O_WRONLY); /* the file's mode says who may */
        return fd < 0 ? -EROFS : 0;
}

bool intent_in_container(const struct host *h) {
        _cleanup_close_ int fd = host_open_file(h, "/run/systemd/container", O_PATH);

        return fd >= 0;
}

static bool is_separator(char c) {
        return c == '.' || c == '/';
}

int intent_sysctl_path(const char *name, char *buf, size_t size) {
        static const char prefix[] = "/proc/sys/";
        size_t n = strlen(name), p = strlen(prefix), first = strcspn(name, "./");

        if (n == 0 || name[first] == '/' || is_separator(name[0]) || is_separator(name[n - 1]) ||
            name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-")])
                return -EINVAL;
        for (size_t i = 0; i + 1 < n; i++)
                if (is_separator(name[i]) && is_separator(name[i + 1]))
                        return -EINVAL;
        if (p + n >= size)
                return -ENAMETOOLONG;
        memcpy(buf, prefix, p);
        for (size_t i = 0; i <= n; i++)
                buf[p + i] = name[i];
        for (size_t i = 0; i < n; i++)
                if (is_separator(name[i]))
                        buf[p + i] = name[i] == '.' ? '/' : '.';
        return 0;
}

void intent_sysctl_normalize(char *value) {
        char *to = value;

        for (const char *from = value; *from; from++) {
                if (strchr(" \t\r\n", *from)) {
                        if (to != value && to[-1] != ' ')
                                *to++ = ' ';
                } else
                        *to++ = *from;
        }
        if (to != value && to[-1] == ' ')
                to--;
        *to = '\0';
}
