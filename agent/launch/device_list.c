/* SPDX-License-Identifier: Apache-2.0 */
#include "device_list.h"

#include "config.h"
#include "text_list.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:+@"

/* No ".." and nothing that means something to systemd but '*', and that in names of drivers alone. */
static bool is_node(const char *text) {
        const char *driver = startswith(text, "char-")    ? text + 5
                             : startswith(text, "block-") ? text + 6
                                                          : NULL;

        if (driver)
                return driver[0] && strspn(driver, LETTERS "*") == strlen(driver);
        return startswith(text, "/dev/") && text[5] && strspn(text, LETTERS "/") == strlen(text) &&
               !strstr(text, "..") && !strstr(text, "//") && text[strlen(text) - 1] != '/';
}

static size_t count(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]) {
        const char *words[DEVICE_LIST_MAX + 1];
        char nodes[DEVICE_LIST_MAX][DEVICE_NODE_MAX], **all;
        size_t n = count(*list), more = 0;

        for (size_t i = 0; i < n && i < DEVICE_LIST_MAX; i++)
                words[i] = (*list)[i];
        while (*(text += strspn(text, " ,\t"))) {
                size_t len = strcspn(text, " ,\t");

                (void) snprintf(bad, DEVICE_NODE_MAX, "%.*s", (int) MIN(len, (size_t) DEVICE_NODE_MAX),
                                text);
                if (n + more >= DEVICE_LIST_MAX)
                        return -E2BIG;
                if (len >= DEVICE_NODE_MAX || !is_node(bad))
                        return -EINVAL;
                memcpy(nodes[more], bad, len + 1);
                words[n + more] = nodes[more];
                more++;
                text += len;
        }
        if (more == 0)
                return 0;
        all = strings_copy(words, n + more);
        if (!all)
                return -ENOMEM;
        (void) strings_free(*list);
        *list = all;
        return 0;
}

/* --- The configuration --------------------------------------------------------------------------------- */

void device_settings_clear(struct device_settings *s) {
        s->devices = strings_free(s->devices);
}

/* A later line stands for an earlier one, as everywhere. */
static int parse_devices(const char *value, void *dest, char why[static 96]) {
        char bad[DEVICE_NODE_MAX], **list = NULL, ***to = dest;
        int r = device_list_add(value, &list, bad);

        if (r == -EINVAL)
                (void) snprintf(why, 96, "'%.40s' is neither below /dev nor char-NAME or block-NAME", bad);
        else if (r < 0)
                (void) snprintf(why, 96, "%s", r == -E2BIG ? "more than 32" : "out of memory");
        if (r < 0)
                return r;
        (void) strings_free(*to);
        *to = list;
        return 0;
}

int device_settings_load(const struct host *h, const char *config, FILE *show, struct device_settings *ret,
                         unsigned *ret_warnings) {
        _cleanup_device_settings_ struct device_settings s = { .any_device = false };
        static const char *const policies[] = { "tpu", "any", NULL };
        const struct config_item items[] = {
                CONFIG_WORD("Devices", "Policy", config_parse_bool, &s.any_device, "tpu", policies),
                CONFIG_ITEM("Devices", "Allow", parse_devices, &s.devices, ""),
        };
        static const struct config_retired retired[] = {
                { "Logs", "*", NULL, "a run's lines are in the journal, which journald.conf(5) limits" },
                { 0 },
        };
        struct config c = { .items = items, .n_items = ELEMENTSOF(items), .retired = retired };
        int r;

        r = config_load(&c, h, "launchd", config);
        if (r == 0) {
                *ret_warnings += c.warnings;
                if (show)
                        r = config_show(&c, show);
                *ret = s;
                s.devices = NULL;
        }
        config_clear(&c);
        return r;
}
