/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "events.h"
#include "lane.h"
#include "log.h"
#include "metadata_token.h"
#include "paths.h"
#include "registry.h"
#include "settings.h"
#include "tcp_address.h"
#include "steps.h"
#include "texts.h"
#include "uplink.h"

#define INTERVAL_MIN (100 * USEC_PER_MSEC)
#define INTERVAL_MAX (3600 * USEC_PER_SEC)
#define BYTES_MIN (UINT64_C(1) << 20)
#define BYTES_MAX (UINT64_C(1) << 40)
#define ADDRESSES_MAX 32

static int parse_expression(const char *value, void *dest, char why[static 96]) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        int r = value[0] ? step_expression_new(value, why, 96, &e) : 0;

        return r < 0 ? r : config_parse_string255(value, dest, why);
}

static int parse_tls_file(const char *value, void *dest, char why[static 96]) {
        const char *name = startswith(value, "credential:") ? value + strlen("credential:") : NULL;

        if (name && (name[0] == 0 || strchr(name, '/')))
                return text_fail(why, 96, -EINVAL, "no name of a credential");
        if (!name && value[0] != 0 && value[0] != '/')
                return text_fail(why, 96, -EINVAL, "neither an absolute path nor credential:NAME");
        return config_parse_string255(value, dest, why);
}

static int parse_listen(const char *value, void *dest, char why[static 96]) {
        struct tcp_address a;

        if (tcp_address_parse(value, &a) < 0)
                return text_fail(why, 96, -EINVAL,
                                 "no ADDRESS:PORT as [::]:9470 or 10.0.0.9:9470; names are not looked up");
        return config_parse_string63(value, dest, why);
}

/* Whoever asks there needs no certificate: so it is for this host alone. */
static int parse_metrics_listen(const char *value, void *dest, char why[static 96]) {
        struct tcp_address a;

        if (value[0] && (tcp_address_parse(value, &a) < 0 || !tcp_address_is_loopback(&a)))
                return text_fail(why, 96, -EINVAL,
                                 "no loopback ADDRESS:PORT as 127.0.0.1:9472; others scrape Listen= by TLS");
        return config_parse_string63(value, dest, why);
}

/* No name: a name would have to be looked up before the network is up. */
static int parse_metadata_host(const char *value, void *dest, char why[static 96]) {
        if (value[0] != 0 && !streq(value, "none") && !metadata_address_is_valid(value))
                return text_fail(why, 96, -EINVAL, "neither an IP address (a port may follow) nor none");
        return config_parse_string255(value, dest, why);
}

static int parse_token_audience(const char *value, void *dest, char why[static 96]) {
        if (value[0] && !metadata_audience_is_valid(value))
                return text_fail(why, 96, -EINVAL, "no URL of at most %d bytes", METADATA_AUDIENCE_MAX);
        return config_parse_string255(value, dest, why);
}

/* 0: each probe has its own. */
static int parse_probe_interval(const char *value, void *dest, char why[static 96]) {
        const struct config_item item =
                CONFIG_WITHIN("", "", config_parse_usec, dest, NULL, INTERVAL_MIN, INTERVAL_MAX);

        if (!streq(value, "0"))
                return config_item_set(&item, value, why);
        *(usec_t *) dest = 0;
        return 0;
}

static int parse_registry_kind(const char *value, void *dest, char why[static 96]) {
        enum registry_kind k;

        if (!streq(value, "auto") && registry_kind_parse(value, &k) < 0)
                return text_fail(why, 96, -EINVAL, "none of auto, static, collector, none");
        return config_parse_string63(value, dest, why);
}

static int check_ip(const char *word, char why[static 96]) {
        union path_address a;

        if (address_parse(word, &a) == 0)
                return 0;
        return text_fail(why, 96, -EINVAL, "'%.48s' is no IP address", word);
}

static int parse_addresses(const char *value, void *dest, char why[static 96]) {
        return config_parse_words(value, ",", ADDRESSES_MAX, check_ip, dest, why);
}

size_t settings_libtpu_ports(const char *list, uint16_t ret[static SETTINGS_PORTS_MAX]) {
        size_t n = 0;

        for (const char *p = list; *p && n < SETTINGS_PORTS_MAX; p += strspn(p, ", \t")) {
                ret[n++] = (uint16_t) strtoul(p, NULL, 10); /* parse_libtpu_ports() has looked at it */
                p += strcspn(p, ", \t");
        }
        return n;
}

static int check_port(const char *word, char why[static 96]) {
        uint32_t port;

        return config_parse_u32_within(word, 1, UINT16_MAX, &port, why);
}

static int parse_libtpu_ports(const char *value, void *dest, char why[static 96]) {
        if (streq(value, "auto"))
                return config_parse_string255(value, dest, why);
        return config_parse_words(value, CONFIG_BETWEEN, SETTINGS_PORTS_MAX, check_port, dest, why);
}

size_t settings_stack_paths(const char *list,
                            char ret[static SETTINGS_STACK_PATHS_MAX][SETTINGS_STACK_PATH_MAX]) {
        size_t n = 0;

        for (const char *p = list + strspn(list, " \t"); *p && n < SETTINGS_STACK_PATHS_MAX;
             p += strspn(p, " \t")) {
                size_t len = strcspn(p, " \t");

                (void) snprintf(ret[n++], SETTINGS_STACK_PATH_MAX, "%.*s", (int) len, p);
                p += len;
        }
        return n;
}

/* An absolute folder, without "." and "..", and what its files are called. */
static int check_stack_path(const char *word, char why[static 96]) {
        const char *slash = strrchr(word, '/');

        if (word[0] == '/' && slash != word && slash[1] && !strstr(word, "/../") && !strstr(word, "/./"))
                return 0;
        return text_fail(why, 96, -EINVAL, "up to %d of /FOLDER/NAMES, as /tmp/debugging/stack_trace_*.txt",
                         SETTINGS_STACK_PATHS_MAX);
}

static int parse_stack_paths(const char *value, void *dest, char why[static 96]) {
        return config_parse_words(value, " \t", SETTINGS_STACK_PATHS_MAX, check_stack_path, dest, why);
}

/* What each value alone does not show. */
static void check_api(const struct settings_api *a, struct config *c) {
        bool any = a->certificate[0] || a->key[0] || a->client_ca[0];

        if (!any || (a->certificate[0] && a->key[0] && a->client_ca[0]))
                return;
        log_warning("[Api] Certificate=, Key= and ClientCa= belong together: without all of them nothing "
                    "listens on %s",
                    a->listen);
        c->warnings++;
}

static const char *const compressions[] = { "none", "gzip", NULL };

#define FIXED(member) .fixed = sizeof(member)
#define FIXED_TEXT(s, k, p, member, f) CONFIG_ITEM(s, k, p, member, f, FIXED(member))

int settings_load(struct settings *s, struct settings_source *source, const struct host *h,
                  const char *config_file) {
        const struct config_item table[] = {
                FIXED_TEXT("Hostd", "Endpoint", config_parse_urls, s->endpoint, ""),
                CONFIG_WITHIN("Hostd", "MetricsInterval", config_parse_usec, &s->metrics_interval, "10s",
                              INTERVAL_MIN, INTERVAL_MAX),
                CONFIG_ITEM("Hostd", "ProbeInterval", parse_probe_interval, &s->probe_interval, "0"),
                CONFIG_WITHIN("Hostd", "CaptureTimeout", config_parse_usec, &s->capture_timeout, "60s",
                              INTERVAL_MIN, INTERVAL_MAX, FIXED(s->capture_timeout)),
                CONFIG_WITHIN("Hostd", "SpoolBytes", config_parse_bytes, &s->spool_bytes, "256M",
                              BYTES_MIN, BYTES_MAX, FIXED(s->spool_bytes)),
                CONFIG_ITEM("Hostd", "RunLogs", config_parse_bool, &s->run_logs, "yes", FIXED(s->run_logs)),
                CONFIG_WITHIN("Hostd", "RunLogBytes", config_parse_bytes, &s->run_log_bytes, "64M",
                              BYTES_MIN, BYTES_MAX, FIXED(s->run_log_bytes)),
                FIXED_TEXT("Hostd", "StepExpression", parse_expression, s->step_expression, ""),
                FIXED_TEXT("Hostd", "ApiSocket", config_parse_path, s->api_socket, PATH_HOSTD_SOCKET),
                FIXED_TEXT("Hostd", "SpoolDirectory", config_parse_path, s->spool_directory, PATH_SPOOL),
                FIXED_TEXT("Hostd", "LaunchdSocket", config_parse_path, s->launchd_socket, ""),
                FIXED_TEXT("Hostd", "NetcfgSocket", config_parse_path, s->netcfg_socket, ""),
                FIXED_TEXT("Hostd", "Journal", config_parse_path, s->journal, ""),
                CONFIG_ITEM("Api", "Listen", parse_listen, s->api.listen, "[::]:" AS_TEXT(PORT_HOSTD_API)),
                CONFIG_ITEM("Api", "MetricsListen", parse_metrics_listen, s->api.metrics_listen, ""),
                CONFIG_ITEM("Api", "Certificate", parse_tls_file, s->api.certificate, ""),
                CONFIG_ITEM("Api", "Key", parse_tls_file, s->api.key, ""),
                CONFIG_ITEM("Api", "ClientCa", parse_tls_file, s->api.client_ca, ""),
                CONFIG_ITEM("Api", "AllowReaders", config_parse_string255, s->api.readers, ""),
                CONFIG_ITEM("Api", "AllowActors", config_parse_string255, s->api.actors, ""),
                CONFIG_ITEM("Api", "DenyUris", config_parse_string255, s->api.denied, ""),
                CONFIG_ITEM("Api", "Crl", config_parse_string255, s->api.crl, ""),
                CONFIG_ITEM("Api", "AllowTls12", config_parse_bool, &s->api.tls12, "no"),
                FIXED_TEXT("Uplink", "Proxy", config_parse_url, s->uplink.proxy, ""),
                CONFIG_WORD("Uplink", "Compression", config_parse_bool, &s->uplink.compression, "gzip",
                            compressions, FIXED(s->uplink.compression)),
                CONFIG_WITHIN("Uplink", "Timeout", config_parse_usec, &s->uplink.timeout, "30s",
                              INTERVAL_MIN, INTERVAL_MAX, FIXED(s->uplink.timeout)),
                FIXED_TEXT("Uplink", "CaFile", parse_tls_file, s->uplink.ca_file, ""),
                FIXED_TEXT("Uplink", "CertFile", parse_tls_file, s->uplink.cert_file, ""),
                FIXED_TEXT("Uplink", "KeyFile", parse_tls_file, s->uplink.key_file, ""),
                FIXED_TEXT("Uplink", "Crl", parse_tls_file, s->uplink.crl, ""),
                CONFIG_WITHIN("Health", "FailAfter", config_parse_u32, &s->health.fail_after, "2", 1,
                              POLICY_COUNT_MAX),
                CONFIG_WITHIN("Health", "HealAfter", config_parse_u32, &s->health.heal_after, "2", 1,
                              POLICY_COUNT_MAX),
                CONFIG_WITHIN("Health", "Hold", config_parse_usec, &s->health.hold, "10s", 0,
                              POLICY_SPAN_MAX),
                CONFIG_WITHIN("Health", "FlapAfter", config_parse_u32, &s->health.flap_after, "4", 0,
                              HEALTH_FLAPS_MAX),
                CONFIG_WITHIN("Health", "FlapWindow", config_parse_usec, &s->health.flap_window, "10min", 0,
                              POLICY_SPAN_MAX),
                CONFIG_WITHIN("Health", "FlapQuiet", config_parse_usec, &s->health.flap_quiet, "5min", 0,
                              POLICY_SPAN_MAX),
                CONFIG_ITEM("Health", "Check", policies_parse, &s->policies, ""),
                FIXED_TEXT("Health", "StateFile", config_parse_path, s->state_file, ""),
                CONFIG_ITEM("StackFiles", "Path", parse_stack_paths, s->stack_paths,
                            "/tmp/debugging/stack_trace_*.txt"),
                CONFIG_ITEM("Libtpu", "Ports", parse_libtpu_ports, s->libtpu_ports, "auto"),
                FIXED_TEXT("Metadata", "Host", parse_metadata_host, s->metadata_host, ""),
                FIXED_TEXT("Metadata", "TokenAudience", parse_token_audience, s->token_audience, ""),
                FIXED_TEXT("Metadata", "Copy", config_parse_path, s->metadata_copy, ""),
                CONFIG_WITHIN("Metadata", "CopyAfter", config_parse_usec, &s->metadata_copy_after, "10s",
                              INTERVAL_MIN, INTERVAL_MAX),
                CONFIG_ITEM("Registry", "Kind", parse_registry_kind, s->registry.kind, "auto"),
                CONFIG_ITEM("Registry", "Endpoint", config_parse_urls, s->registry.endpoint, ""),
                CONFIG_ITEM("Registry", "Tenant", config_parse_name63, s->registry.tenant, "default"),
                FIXED_TEXT("Registry", "CaFile", parse_tls_file, s->registry.ca_file, ""),
                FIXED_TEXT("Registry", "CertFile", parse_tls_file, s->registry.cert_file, ""),
                FIXED_TEXT("Registry", "KeyFile", parse_tls_file, s->registry.key_file, ""),
                FIXED_TEXT("Registry", "Crl", parse_tls_file, s->registry.crl, ""),
                CONFIG_ITEM("Registry", "Address", parse_addresses, s->registry.address, ""),
                CONFIG_WITHIN("Registry", "Splay", config_parse_usec, &s->registry.splay, "2s", 0,
                              POLICY_SPAN_MAX),
        };
        int r;

        _Static_assert(ELEMENTSOF(table) == SETTINGS_ITEMS, "SETTINGS_ITEMS counts the table");
        memcpy(source->items, table, sizeof(table));
        source->config =
                (struct config) { .items = source->items, .n_items = SETTINGS_ITEMS };
        r = config_load(&source->config, h, "hostd", config_file);
        if (r >= 0)
                check_api(&s->api, &source->config);
        return r;
}

unsigned settings_keep_fixed(struct settings *s, const struct settings_source *source,
                             const struct settings *old) {
        unsigned kept = 0;

        for (size_t i = 0; i < SETTINGS_ITEMS; i++) {
                const struct config_item *item = &source->items[i];
                char *now = item->dest;
                const char *before = (const char *) old + (now - (const char *) s);
                bool text = item->fixed > sizeof(uint64_t); /* no number is as long */

                if (item->fixed == 0 || (text ? streq(now, before) : memcmp(now, before, item->fixed) == 0))
                        continue;
                log_warning("[%s] %s= changed: restart tpu-hostd for it to take effect", item->section,
                            item->key);
                memcpy(now, before, item->fixed);
                kept++;
        }
        return kept;
}

struct health_policy settings_policy(const struct settings *s, const char *check) {
        return policies_for(&s->policies, &s->health, check);
}

/* --- What belongs to one machine ---------------------------------------------------------------------- */

/* path itself, or name beside it; path NULL: nowhere. */
static size_t add_state(const char *path, const char *name, size_t n,
                        char ret[static SETTINGS_STATE_MAX][MACHINE_PATH_MAX]) {
        const char *slash = path ? strrchr(path, '/') : NULL;

        if (!slash)
                return n;
        assert(n < SETTINGS_STATE_MAX);
        (void) snprintf(ret[n], MACHINE_PATH_MAX, "%.*s/%s", (int) (slash - path), path,
                        name ? name : slash + 1);
        return n + 1;
}

size_t settings_state(const struct settings *s, bool own,
                      char ret[static SETTINGS_STATE_MAX][MACHINE_PATH_MAX]) {
        const char *spool = s->spool_directory,
                   *health = s->state_file[0] ? s->state_file : own ? PATH_HEALTH_STATE : NULL,
                   *copy = s->metadata_copy[0] ? s->metadata_copy : own ? PATH_METADATA_COPY : NULL;
        size_t n = add_state(spool, NULL, 0, ret);

        n = add_state(spool, "captures", n, ret);
        n = add_state(health, NULL, n, ret);
        n = add_state(health, "prepared.json", n, ret);
        n = add_state(copy, NULL, n, ret);
        return add_state(spool, MACHINE_STATE_NAME, n, ret);
}
