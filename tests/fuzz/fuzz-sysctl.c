/* SPDX-License-Identifier: Apache-2.0 */
/* Any name and value of a sysctl, as the kernel, a profile or another program may have them. Input: the
 * wanted value, NUL, the name, NUL, what was read. */
#include "intent.h"

static void check_path(const char *name) {
        char path[128];

        if (intent_sysctl_path(name, path, sizeof(path)) < 0)
                return;
        if (!startswith(path, "/proc/sys/") || strstr(path, "/../") || strlen(path) >= sizeof(path) ||
            path[strlen("/proc/sys/")] == '/')
                abort();
}

static void check_normal(const char *value) {
        size_t n = strlen(value);

        if (strpbrk(value, "\t\r\n") || strstr(value, "  ") ||
            (n > 0 && (value[0] == ' ' || value[n - 1] == ' ')))
                abort();
}

static void judge(const char *name, const char *wanted, const char *found) {
        struct intent_sysctl s = { .source = "fuzz" };
        struct finding f;
        char normal[4096];

        (void) snprintf(s.name, sizeof(s.name), "%s", name);
        (void) snprintf(s.value, sizeof(s.value), "%s", wanted);
        intent_sysctl_normalize(s.value);
        (void) snprintf(normal, sizeof(normal), "%s", found);
        intent_sysctl_normalize(normal);
        check_normal(normal);
        intent_judge_sysctl(&s, found, 0, &f);
        if ((f.verdict == VERDICT_OK) != (strlen(found) < 1024 && streq(normal, s.value)))
                abort();
        intent_judge_sysctl(&s, NULL, -EIO, &f);
        if (f.verdict != VERDICT_UNKNOWN)
                abort();
        intent_judge_parameter(&s, found, 0, true, &f);
        if (f.verdict != VERDICT_OK && f.verdict != VERDICT_UNKNOWN)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char text[2048] = { 0 };
        const char *wanted = text, *name, *found;

        memcpy(text, data, MIN(size, sizeof(text) - 3)); /* so that three texts end inside it */
        name = wanted + strlen(wanted) + 1;
        found = name + strlen(name) + 1;
        check_path(name);
        judge(name, wanted, found);
        return 0;
}
