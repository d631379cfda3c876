/* SPDX-License-Identifier: Apache-2.0 */
#include "collector.h"
#include "config.h"
#include "host.h"
#include "ctl_settings.h"

static int parse_url(const char *value, void *dest, char why[static 96]) {
        if (!startswith(value, "http://") && !startswith(value, "https://")) {
                (void) snprintf(why, 96, "not an http:// or https:// URL");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

static int parse_url_or_none(const char *value, void *dest, char why[static 96]) {
        return value[0] ? parse_url(value, dest, why) : config_parse_string255(value, dest, why);
}

int ctl_settings_take_url(const char *text, char dest[static 256], char why[static 96]) {
        return parse_url(text, dest, why);
}

int ctl_settings_load(const struct options *o, struct ctl_settings *ret) {
        struct ctl_settings s = { 0 };
        const struct config_item items[] = {
                { "Ctl", "Collector", parse_url_or_none, s.collector_url, "" },
                { "Ctl", "CollectorCa", config_parse_string255, s.collector.ca, "" },
                { "Ctl", "CollectorCertificate", config_parse_string255, s.collector.certificate, "" },
                { "Ctl", "CollectorKey", config_parse_string255, s.collector.key, "" },
                { "Ctl", "AgentCa", config_parse_string255, s.agents.ca, "" },
                { "Ctl", "AgentCertificate", config_parse_string255, s.agents.certificate, "" },
                { "Ctl", "AgentKey", config_parse_string255, s.agents.key, "" },
        };
        struct config config = { .items = items, .n_items = ELEMENTSOF(items) };
        _cleanup_host_ struct host h = HOST_NULL;
        int r;

        r = host_open(o->root, &h);
        if (r == 0)
                r = config_load(&config, &h, "tpuctl", o->config);
        config_clear(&config);
        if (r < 0) {
                fprintf(stderr, "%s: the configuration cannot be read: %s\n", o->program, strerror(-r));
                return r;
        }
        s.collector_configured = s.collector_url[0] != '\0';
        if (!s.collector_configured)
                memcpy(s.collector_url, COLLECTOR_DEFAULT, sizeof(COLLECTOR_DEFAULT));
        *ret = s;
        return 0;
}
