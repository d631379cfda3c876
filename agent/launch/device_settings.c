/* SPDX-License-Identifier: Apache-2.0 */
#include "device_settings.h"

#include "config.h"
#include "device_list.h"
#include "texts.h"

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
