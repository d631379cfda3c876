/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"
#include "lane.h"
#include "log.h"
#include "metadata.h"
#include "paths.h"
#include "registry.h"
#include "settings.h"
#include "tcp_address.h"
#include "steps.h"
#include "uplink.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static int check_url(const char *value, char why[static 96]) {
        const char *host;

        if (startswith(value, "http://"))
                host = value + strlen("http://");
        else if (startswith(value, "https://"))
                host = value + strlen("https://");
        else {
                (void) snprintf(why, 96, "not an http:// or https:// URL");
                return -EINVAL;
        }
        if (host[0] == 0 || host[0] == '/' || memchr(host, '@', strcspn(host, "/"))) {
                (void) snprintf(why, 96, "needs a host, and takes no user or password");
                return -EINVAL;
        }
        return 0;
}

static int parse_url(const char *value, void *dest, char why[static 96]) {
        int r = value[0] ? check_url(value, why) : 0;

        if (r == 0 && strpbrk(value, " \t")) {
                (void) snprintf(why, 96, "holds a blank");
                r = -EINVAL;
        }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

static int parse_urls(const char *value, const char *between, size_t most, char dest[static 256],
                      char why[static 96]) {
        char list[256];
        char *word, *rest = list;
        size_t n = 0;
        int r = config_parse_string255(value, list, why);

        while (r == 0 && (word = strsep(&rest, between))) {
                if (!*word)
                        continue;
                r = check_url(word, why);
                if (r == 0 && ++n > most) {
                        (void) snprintf(why, 96, "more than %zu endpoints", most);
                        r = -E2BIG;
                }
        }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

static int parse_endpoints(const char *value, void *dest, char why[static 96]) {
        return parse_urls(value, " \t", UPLINK_ENDPOINTS_MAX, dest, why);
}

static int parse_expression(const char *value, void *dest, char why[static 96]) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        int r = value[0] ? step_expression_new(value, why, 96, &e) : 0;

        return r < 0 ? r : config_parse_string255(value, dest, why);
}

static int parse_compression(const char *value, void *dest, char why[static 96]) {
        if (!streq(value, "gzip") && !streq(value, "none")) {
                (void) snprintf(why, 96, "neither gzip nor none");
                return -EINVAL;
        }
        *(bool *) dest = streq(value, "gzip");
        return 0;
}

static int parse_tls_file(const char *value, void *dest, char why[static 96]) {
        const char *name = startswith(value, "credential:") ? value + strlen("credential:") : NULL;

        if (name && (name[0] == 0 || strchr(name, '/'))) {
                (void) snprintf(why, 96, "no name of a credential");
                return -EINVAL;
        }
        if (!name && value[0] != 0 && value[0] != '/') {
                (void) snprintf(why, 96, "neither an absolute path nor credential:NAME");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

static int parse_listen(const char *value, void *dest, char why[static 96]) {
        struct tcp_address a;

        if (tcp_address_parse(value, &a) < 0) {
                (void) snprintf(why, 96, "no ADDRESS:PORT as [::]:9470 or 10.0.0.9:9470; names are not looked up");
                return -EINVAL;
        }
        return config_parse_string63(value, dest, why);
}

/* No name: a name would have to be looked up before the network is up. */
static int parse_metadata_host(const char *value, void *dest, char why[static 96]) {
        if (value[0] != 0 && !streq(value, "none") && !metadata_address_is_valid(value)) {
                (void) snprintf(why, 96, "neither an IP address (a port may follow) nor none");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

static int parse_path(const char *value, void *dest, char why[static 96]) {
        if (value[0] != 0 && value[0] != '/') {
                (void) snprintf(why, 96, "not an absolute path");
                return -EINVAL;
        }
        return config_parse_string255(value, dest, why);
}

/* A span from least to most; dest stays as it is when it is not. */
static int parse_between(const char *value, usec_t least, usec_t most, usec_t *dest, char why[static 96]) {
        usec_t span;
        int r = config_parse_usec(value, &span, why);

        if (r < 0)
                return r;
        if (span < least || span > most) {
                (void) snprintf(why, 96, "must be from %" PRIu64 "ms to %" PRIu64 "s", least / USEC_PER_MSEC,
                                most / USEC_PER_SEC);
                return -ERANGE;
        }
        *dest = span;
        return 0;
}

static int parse_interval(const char *value, void *dest, char why[static 96]) {
        return parse_between(value, 100 * USEC_PER_MSEC, 3600 * USEC_PER_SEC, dest, why);
}

static int parse_probe_interval(const char *value, void *dest, char why[static 96]) {
        if (streq(value, "0")) {
                *(usec_t *) dest = 0;
                return 0;
        }
        return parse_interval(value, dest, why);
}

static int parse_registry_kind(const char *value, void *dest, char why[static 96]) {
        enum registry_kind k;

        if (streq(value, "etcd")) {
                (void) snprintf(why, 96, "collectors speak to etcd now, with Store=etcd in [Control] of collectord.conf");
                return -EINVAL;
        }
        if (!streq(value, "auto") && registry_kind_parse(value, &k) < 0) {
                (void) snprintf(why, 96, "none of auto, static, collector, none");
                return -EINVAL;
        }
        return config_parse_string63(value, dest, why);
}

static int parse_registry_endpoint(const char *value, void *dest, char why[static 96]) {
        return parse_urls(value, ", \t", REGISTRY_ENDPOINTS_MAX, dest, why);
}

static int parse_tenant(const char *value, void *dest, char why[static 96]) {
        size_t len = strlen(value);

        if (len == 0 || value[0] == '.' ||
            strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != len) {
                (void) snprintf(why, 96, "no name of letters, digits, '.', '_' and '-'");
                return -EINVAL;
        }
        return config_parse_string63(value, dest, why);
}

static int parse_addresses(const char *value, void *dest, char why[static 96]) {
        char list[256];
        char *word, *rest = list;
        union path_address a;
        int r = config_parse_string255(value, list, why);

        while (r == 0 && value[0] && (word = strsep(&rest, ",")))
                if (address_parse(word, &a) < 0) {
                        (void) snprintf(why, 96, "'%.48s' is no IP address", word);
                        return -EINVAL;
                }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

size_t settings_libtpu_ports(const char *list, uint16_t ret[static SETTINGS_PORTS_MAX]) {
        size_t n = 0;

        for (const char *p = list; *p && n < SETTINGS_PORTS_MAX; p += strspn(p, ", \t")) {
                ret[n++] = (uint16_t) strtoul(p, NULL, 10); /* parse_libtpu_ports() has looked at it */
                p += strcspn(p, ", \t");
        }
        return n;
}

static int parse_libtpu_ports(const char *value, void *dest, char why[static 96]) {
        char list[256];
        char *word, *rest = list;
        size_t n = 0;
        int r = config_parse_string255(value, list, why);

        if (r < 0 || streq(value, "auto"))
                return config_parse_string255(value, dest, why);
        while (r == 0 && (word = strsep(&rest, ", \t"))) {
                uint32_t port;

                if (!*word)
                        continue;
                r = config_parse_u32_within(word, 1, UINT16_MAX, &port, why);
                if (r == 0 && ++n > SETTINGS_PORTS_MAX) {
                        (void) snprintf(why, 96, "more than %d ports", SETTINGS_PORTS_MAX);
                        r = -E2BIG;
                }
        }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

size_t settings_stack_paths(const char *list, char ret[static SETTINGS_STACK_PATHS_MAX][SETTINGS_STACK_PATH_MAX]) {
        size_t n = 0;

        for (const char *p = list + strspn(list, " \t"); *p && n < SETTINGS_STACK_PATHS_MAX;
             p += strspn(p, " \t")) {
                size_t len = strcspn(p, " \t");

                (void) snprintf(ret[n++], SETTINGS_STACK_PATH_MAX, "%.*s", (int) len, p);
                p += len;
        }
        return n;
}

/* Each: an absolute folder, without "." and "..", and what its files are called. */
static int parse_stack_paths(const char *value, void *dest, char why[static 96]) {
        char list[256];
        char *word, *rest = list;
        size_t n = 0;
        int r = config_parse_string255(value, list, why);

        while (r == 0 && (word = strsep(&rest, " \t"))) {
                const char *slash = strrchr(word, '/');

                if (!*word)
                        continue;
                if (word[0] != '/' || slash == word || !slash[1] || strstr(word, "/../") || strstr(word, "/./") ||
                    ++n > SETTINGS_STACK_PATHS_MAX) {
                        (void) snprintf(why, 96, "up to %d of /FOLDER/NAMES, as /tmp/debugging/stack_trace_*.txt",
                                        SETTINGS_STACK_PATHS_MAX);
                        r = -EINVAL;
                }
        }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

static int parse_spool_bytes(const char *value, void *dest, char why[static 96]) {
        uint64_t n;
        int r = config_parse_bytes(value, &n, why);

        if (r < 0)
                return r;
        if (n < 1024 * 1024 || n > (uint64_t) 1 << 40) {
                (void) snprintf(why, 96, "must be from 1M to 1024G");
                return -ERANGE;
        }
        *(uint64_t *) dest = n;
        return 0;
}

/* What each value alone does not show. */
static void check_api(const struct settings_api *a, struct config *c) {
        bool any = a->certificate[0] || a->key[0] || a->client_ca[0];

        if (!any || (a->certificate[0] && a->key[0] && a->client_ca[0]))
                return;
        log_warning("[Api] Certificate=, Key= and ClientCa= belong together: without all of them nothing listens on %s",
                    a->listen);
        c->warnings++;
}

#define RENEWED_FILES \
        "the agent asks no authority; let a renewer write the files of CertFile= and KeyFile=, which are " \
        "read when they change"
static const struct config_retired retired[] = {
        { "Hook", "*", NULL,
          "the hook went with its brake; events go to Endpoint= (OTLP) and into the journal, and alert rules "
          "there call what acts" },
        { "Uplink", "CertificateUrl", NULL, RENEWED_FILES },
        { "Uplink", "CertificateAudience", NULL, RENEWED_FILES },
        { "Uplink", "CertificateFile", NULL, RENEWED_FILES },
        { 0 },
};

int settings_load(struct settings *s, struct settings_source *source, const struct host *h,
                  const char *config_file) {
        const struct config_item table[] = {
                { "Hostd", "Endpoint", parse_endpoints, s->endpoint, "" },
                { "Hostd", "MetricsInterval", parse_interval, &s->metrics_interval, "10s" },
                { "Hostd", "ProbeInterval", parse_probe_interval, &s->probe_interval, "0" },
                { "Hostd", "CaptureTimeout", parse_interval, &s->capture_timeout, "60s" },
                { "Hostd", "SpoolBytes", parse_spool_bytes, &s->spool_bytes, "256M" },
                { "Hostd", "RunLogs", config_parse_bool, &s->run_logs, "yes" },
                { "Hostd", "RunLogBytes", parse_spool_bytes, &s->run_log_bytes, "64M" },
                { "Hostd", "StepExpression", parse_expression, s->step_expression, "" },
                { "Hostd", "ApiSocket", parse_path, s->api_socket, PATH_HOSTD_SOCKET },
                { "Hostd", "SpoolDirectory", parse_path, s->spool_directory, PATH_SPOOL },
                { "Hostd", "LaunchdSocket", parse_path, s->launchd_socket, "" },
                { "Hostd", "NetcfgSocket", parse_path, s->netcfg_socket, "" },
                { "Hostd", "Journal", parse_path, s->journal, "" },
                { "Api", "Listen", parse_listen, s->api.listen, "[::]:" TEXT(PORT_HOSTD_API) },
                { "Api", "Certificate", parse_tls_file, s->api.certificate, "" },
                { "Api", "Key", parse_tls_file, s->api.key, "" },
                { "Api", "ClientCa", parse_tls_file, s->api.client_ca, "" },
                { "Api", "AllowReaders", config_parse_string255, s->api.readers, "" },
                { "Api", "AllowActors", config_parse_string255, s->api.actors, "" },
                { "Uplink", "Proxy", parse_url, s->uplink.proxy, "" },
                { "Uplink", "Compression", parse_compression, &s->uplink.compression, "gzip" },
                { "Uplink", "Timeout", parse_interval, &s->uplink.timeout, "30s" },
                { "Uplink", "CaFile", parse_tls_file, s->uplink.ca_file, "" },
                { "Uplink", "CertFile", parse_tls_file, s->uplink.cert_file, "" },
                { "Uplink", "KeyFile", parse_tls_file, s->uplink.key_file, "" },
                { "Health", "FailAfter", policies_parse_count, &s->fail_after, "2" },
                { "Health", "HealAfter", policies_parse_count, &s->heal_after, "2" },
                { "Health", "Hold", policies_parse_span, &s->hold, "10s" },
                { "Health", "FlapAfter", policies_parse_flaps, &s->flap_after, "4" },
                { "Health", "FlapWindow", policies_parse_span, &s->flap_window, "10min" },
                { "Health", "FlapQuiet", policies_parse_span, &s->flap_quiet, "5min" },
                { "Health", "Check", policies_parse, &s->policies, "" },
                { "Health", "StateFile", parse_path, s->state_file, "" },
                { "StackFiles", "Path", parse_stack_paths, s->stack_paths, "/tmp/debugging/stack_trace_*.txt" },
                { "Libtpu", "Ports", parse_libtpu_ports, s->libtpu_ports, "auto" },
                { "Metadata", "Host", parse_metadata_host, s->metadata_host, "" },
                { "Metadata", "Copy", parse_path, s->metadata_copy, "" },
                { "Metadata", "CopyAfter", parse_interval, &s->metadata_copy_after, "10s" },
                { "Registry", "Kind", parse_registry_kind, s->registry.kind, "auto" },
                { "Registry", "Endpoint", parse_registry_endpoint, s->registry.endpoint, "" },
                { "Registry", "Tenant", parse_tenant, s->registry.tenant, "default" },
                { "Registry", "CaFile", parse_tls_file, s->registry.ca_file, "" },
                { "Registry", "CertFile", parse_tls_file, s->registry.cert_file, "" },
                { "Registry", "KeyFile", parse_tls_file, s->registry.key_file, "" },
                { "Registry", "Address", parse_addresses, s->registry.address, "" },
                { "Registry", "Splay", policies_parse_span, &s->registry.splay, "2s" },
        };
        int r;

        _Static_assert(ELEMENTSOF(table) == SETTINGS_ITEMS, "SETTINGS_ITEMS counts the table");
        memcpy(source->items, table, sizeof(table));
        source->config =
                (struct config) { .items = source->items, .n_items = SETTINGS_ITEMS, .retired = retired };
        r = config_load(&source->config, h, "hostd", config_file);
        if (r >= 0)
                check_api(&s->api, &source->config);
        return r;
}

unsigned settings_keep_fixed(struct settings *s, const struct settings *old) {
        struct {
                const char *key;
                char *now;
                const char *before;
        } texts[] = {
                { "Endpoint", s->endpoint, old->endpoint },
                { "Proxy", s->uplink.proxy, old->uplink.proxy },
                { "CaFile", s->uplink.ca_file, old->uplink.ca_file },
                { "CertFile", s->uplink.cert_file, old->uplink.cert_file },
                { "KeyFile", s->uplink.key_file, old->uplink.key_file },
                { "ApiSocket", s->api_socket, old->api_socket },
                { "SpoolDirectory", s->spool_directory, old->spool_directory },
                { "StepExpression", s->step_expression, old->step_expression },
                { "LaunchdSocket", s->launchd_socket, old->launchd_socket },
                { "NetcfgSocket", s->netcfg_socket, old->netcfg_socket },
                { "Journal", s->journal, old->journal },
                { "StateFile", s->state_file, old->state_file },
                { "Host", s->metadata_host, old->metadata_host },
                { "Copy", s->metadata_copy, old->metadata_copy },
                { "[Registry] CaFile", s->registry.ca_file, old->registry.ca_file },
                { "[Registry] CertFile", s->registry.cert_file, old->registry.cert_file },
                { "[Registry] KeyFile", s->registry.key_file, old->registry.key_file },
        };
        unsigned kept = 0;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (!streq(texts[i].now, texts[i].before)) {
                        log_warning("%s= changed: restart tpu-hostd for it to take effect",
                                    texts[i].key);
                        (void) snprintf(texts[i].now, sizeof(s->endpoint), "%s", texts[i].before);
                        kept++;
                }
        if (s->spool_bytes != old->spool_bytes || s->capture_timeout != old->capture_timeout ||
            s->uplink.compression != old->uplink.compression || s->uplink.timeout != old->uplink.timeout ||
            s->run_logs != old->run_logs || s->run_log_bytes != old->run_log_bytes) {
                log_warning("SpoolBytes=, RunLogs=, RunLogBytes=, CaptureTimeout=, Compression= or Timeout= changed: "
                            "restart tpu-hostd for it to take effect");
                s->run_logs = old->run_logs;
                s->run_log_bytes = old->run_log_bytes;
                s->uplink.timeout = old->uplink.timeout;
                s->uplink.compression = old->uplink.compression;
                s->spool_bytes = old->spool_bytes;
                s->capture_timeout = old->capture_timeout;
                kept++;
        }
        return kept;
}

struct health_policy settings_policy(const struct settings *s, const char *check) {
        const struct health_policy all = {
                .fail_after = s->fail_after,
                .heal_after = s->heal_after,
                .hold = s->hold,
                .flap_after = s->flap_after,
                .flap_window = s->flap_window,
                .flap_quiet = s->flap_quiet,
        };

        return policies_for(&s->policies, &all, check);
}
