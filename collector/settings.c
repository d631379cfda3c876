/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "options.h"
#include "paths.h"
#include "settings.h"

#define BYTES_MIN (UINT64_C(16) << 20)
#define HEADER_LETTERS /* RFC 9110, token */ \
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct command_line {
        const char *otlp, *api, *database, *page, *diagnose;
        bool insecure, check, show;
};

static int parse_command_line(int argc, char *argv[], struct command_line *c, struct options *o) {
        const struct option_def defs[] = {
                { "listen-otlp", "ADDR:PORT",
                  "where agents send to (default 127.0.0.1:" AS_TEXT(PORT_OTLP) ")", &c->otlp, NULL },
                { "listen-api", "ADDR:PORT",
                  "where people ask (default 127.0.0.1:" AS_TEXT(PORT_COLLECTOR_API) ")", &c->api, NULL },
                { "database", "FILE", "default " PATH_COLLECTOR_STATE "/collector.db", &c->database, NULL },
                { "page", "DIR", "the page's files (default " PATH_COLLECTOR_PAGE ")", &c->page, NULL },
                { "diagnose", "EPISODE", "print the diagnosis of an episode in the database as JSON, end",
                  &c->diagnose, NULL },
                { "insecure-listen", NULL, "allow addresses that others can reach, without TLS", NULL,
                  &c->insecure },
                { "check-config", NULL, "read the configuration, say what is wrong, end", NULL, &c->check },
                { "show-config", NULL, "show what is in force and where it comes from", NULL, &c->show },
        };
        int r;

        *o = (struct options) {
                .program = "tpu-collectord",
                .synopsis = "[OPTIONS]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Receives metrics and events of TPU host agents (OTLP/HTTP), keeps them in "
                           "SQLite and answers questions about them.",
        };
        r = options_parse(o, argc, argv);
        o->defs = NULL;
        if (r < 0)
                return r;
        if (r < argc)
                return options_fail("tpu-collectord", -EINVAL,
                                    "unexpected word '%s'\nTry 'tpu-collectord --help'.", argv[r]);
        return 0;
}

static int override_text(char *dest, size_t size, const char *value, const char *option) {
        if (!value)
                return 0;
        if (strlen(value) >= size || !*value)
                return log_error_errno(-EINVAL, "--%s: '%s' is empty or longer than %zu bytes", option,
                                       value, size - 1);
        memcpy(dest, value, strlen(value) + 1);
        return 0;
}

static int check_address(const char *text, const char *option, const char *key, bool insecure,
                         struct tcp_address *ret) {
        int r = tcp_address_parse(text, ret);

        if (r < 0)
                return log_error_errno(r,
                                       "--%s (%s=): '%s' is no ADDRESS:PORT, for example 127.0.0.1:4318 or "
                                       "[::1]:4318; names are not looked up",
                                       option, key, text);
        if (insecure || tcp_address_is_loopback(ret))
                return 0;
        return log_error_errno(-EPERM,
                               "--%s (%s=): anyone who reaches %s could read and write without TLS, so it "
                               "is refused. Give it certificates (Certificate=, Key=, ClientCa=), or, on a "
                               "network where everyone is trusted, say --insecure-listen "
                               "(InsecureListen=yes)",
                               option, key, text);
}

/* Keys, audience and the names of VMs come together. */
static int check_tokens(struct collector_settings *s) {
        bool keys = s->token_keys[0], audience = s->token_audience[0];
        const char *wrong = NULL;

        if (keys != audience)
                wrong = "TokenKeys= and TokenAudience= belong together: both, or none";
        else if (keys && (!s->agents.hosts || !host_from_takes_tokens(s->agents.hosts)))
                wrong = "TokenKeys= needs HostFrom=" HOST_FROM_TOKEN "PROJECT/ZONE/{host}, or a file: which "
                        "VM is which host";
        else if (!keys && s->agents.hosts && host_from_wants_tokens(s->agents.hosts))
                wrong = "HostFrom=" HOST_FROM_TOKEN "… needs TokenKeys= and TokenAudience=";
        if (wrong)
                return log_error_errno(-EINVAL, "%s", wrong);
        return keys ? token_keys_new(s->token_keys, s->token_audience, &s->agents.tokens) : 0;
}

/* Who may call, and which host an agent's certificate is. */
static int check_callers(struct collector_settings *s) {
        char why[NAME_LIST_WHY_MAX];
        int r = tls_callers_set(&s->agents, s->allow_agents, "", s->deny);

        if (r >= 0)
                r = tls_callers_set(&s->people, s->allow_readers, s->allow_actors, s->deny);
        if (r < 0)
                return log_error_errno(r, "TLS: the lists of certificates: %m");
        if (s->trust_all && s->host_from[0])
                return log_error_errno(-EINVAL,
                                       "HostFrom= and TrustAllAgents=yes exclude each other: a certificate "
                                       "is one host, or may be any; take one of them away");
        r = s->trust_all ? 0
                         : host_from_new(s->host_from[0] ? s->host_from : HOST_FROM_DEFAULT,
                                         &s->agents.hosts, why);
        if (r < 0)
                return log_error_errno(r, "HostFrom=: %s", why);
        r = check_tokens(s);
        return r < 0 ? r : tls_callers_look(&s->agents) && tls_callers_look(&s->people) ? 0 : -EINVAL;
}

/* With none of the three files there is no TLS. */
static int check_tls(struct collector_settings *s) {
        const char *const paths[_TLS_FILE_MAX] = { s->client_ca, s->certificate, s->key, s->crl };
        int r;

        if (!*s->certificate && !*s->key && !*s->client_ca)
                return 0;
        if (!*s->certificate || !*s->key || !*s->client_ca)
                return log_error_errno(-EINVAL, "TLS: Certificate=, Key= and ClientCa= belong together: all "
                                                "of them, or none");
        r = server_certificate_new(paths, &s->tls);
        if (r < 0)
                return log_error_errno(r, "TLS: %m");
        (void) server_certificate_look(s->tls);
        if (!server_certificate_state(s->tls)->usable)
                return log_error_errno(-EINVAL, "TLS: %s", server_certificate_state(s->tls)->error);
        if (!s->allow_agents[0] || !s->allow_readers[0])
                return log_error_errno(-EINVAL,
                                       "TLS: AllowAgents= and AllowReaders= name the URIs of certificates "
                                       "that may send and read; an empty list is nobody");
        return check_callers(s);
}

/* Both keys, and TLS; else a header names nobody. */
static int check_proxies(struct collector_settings *s) {
        size_t n = strspn(s->proxy_header, HEADER_LETTERS);
        int r;

        if (!s->proxies[0] && !s->proxy_header[0])
                return 0;
        if (!s->proxies[0] || !s->proxy_header[0] || !s->tls) {
                log_warning("ProxyUris= and ProxyUserHeader= count together, and with TLS alone: no header "
                            "names a user");
                return 0;
        }
        if (s->proxy_header[n])
                return log_error_errno(-EINVAL, "ProxyUserHeader=: '%s' is no name of a header",
                                       s->proxy_header);
        r = name_list_new(s->proxies, &s->people.proxies);
        if (r < 0)
                return log_error_errno(r, "ProxyUris=: %m");
        return tls_callers_look(&s->people) ? 0 : -EINVAL;
}

static int check_control(const struct collector_settings *s) {
        bool user = s->control.access.user[0], file = s->control.access.password_file[0];
        const char *missing = !s->control.access.members[0]    ? "Etcd= (the URLs of etcd's members)" :
                              !s->control.agents_url[0] ? "AgentsUrl= (how agents reach this collector)" :
                              !s->control.people_url[0] ? "PeopleUrl= (how people reach this collector)" :
                              strlen(s->control.agents_url) >= CONTROL_URL_MAX ||
                                              strlen(s->control.people_url) >= CONTROL_URL_MAX
                                      ? "a shorter AgentsUrl= or PeopleUrl=" :
                              user != file ? "EtcdUser= and EtcdPasswordFile= belong together; one" :
                                             NULL;

        if (!s->control.enabled || !s->control.etcd || !missing)
                return 0;
        return log_error_errno(-EINVAL, "[Control] Store=etcd: %s is missing", missing);
}

static int check_slots(struct collector_settings *s) {
        char why[NAME_LIST_WHY_MAX];
        int r = s->slot_from[0] ? slot_from_new(s->slot_from, &s->slots, why) : 0;

        if (r < 0)
                log_error("SlotFrom=: %s", why);
        return r;
}

static int check_settings(struct collector_settings *s) {
        bool open;
        int r = check_tls(s);

        if (r >= 0)
                r = check_proxies(s);
        if (r >= 0)
                r = check_slots(s);
        if (r >= 0)
                r = check_control(s);
        if (r < 0)
                return r;
        open = s->insecure || s->tls;
        r = check_address(s->otlp, "listen-otlp", "ListenOtlp", open, &s->otlp_address);
        return r < 0 ? r : check_address(s->api, "listen-api", "ListenApi", open, &s->api_address);
}

/* Loads, and answers --check-config and --show-config: 1 to go on, 0 when that was all. */
static int load_settings(const struct command_line *c, const struct options *o,
                         struct collector_settings *s) {
        static const char *const stores[] = { "sqlite", "etcd", NULL },
                                 *const protocols[] = { "prometheus", "otlp", NULL },
                                 *const preflights[] = { "hosts", "pairs", NULL };
        const struct config_item items[] = {
                CONFIG_ITEM("Collector", "ListenOtlp", config_parse_string63, s->otlp,
                            "127.0.0.1:" AS_TEXT(PORT_OTLP)),
                CONFIG_ITEM("Collector", "ListenApi", config_parse_string63, s->api,
                            "127.0.0.1:" AS_TEXT(PORT_COLLECTOR_API)),
                CONFIG_ITEM("Collector", "Database", config_parse_string255, s->database,
                            PATH_COLLECTOR_STATE "/collector.db"),
                CONFIG_ITEM("Collector", "Page", config_parse_string255, s->page, PATH_COLLECTOR_PAGE),
                CONFIG_ITEM("Collector", "InsecureListen", config_parse_bool, &s->insecure, "no"),
                CONFIG_ITEM("Collector", "Certificate", config_parse_string255, s->certificate, ""),
                CONFIG_ITEM("Collector", "Key", config_parse_string255, s->key, ""),
                CONFIG_ITEM("Collector", "ClientCa", config_parse_string255, s->client_ca, ""),
                CONFIG_ITEM("Collector", "AllowAgents", config_parse_string255, s->allow_agents, ""),
                CONFIG_ITEM("Collector", "AllowReaders", config_parse_string255, s->allow_readers, ""),
                CONFIG_ITEM("Collector", "AllowActors", config_parse_string255, s->allow_actors, ""),
                CONFIG_ITEM("Collector", "ProxyUris", config_parse_string255, s->proxies, ""),
                CONFIG_ITEM("Collector", "ProxyUserHeader", config_parse_string63, s->proxy_header, ""),
                CONFIG_ITEM("Collector", "DenyUris", config_parse_string255, s->deny, ""),
                CONFIG_ITEM("Collector", "Crl", config_parse_path, s->crl, ""),
                CONFIG_ITEM("Collector", "HostFrom", config_parse_string255, s->host_from, ""),
                CONFIG_ITEM("Collector", "TokenKeys", config_parse_path, s->token_keys, ""),
                CONFIG_ITEM("Collector", "TokenAudience", config_parse_string255, s->token_audience, ""),
                CONFIG_ITEM("Collector", "SlotFrom", config_parse_string255, s->slot_from, ""),
                CONFIG_ITEM("Collector", "TrustAllAgents", config_parse_bool, &s->trust_all, "no"),
                CONFIG_ITEM("Collector", "AllowTls12", config_parse_bool, &s->tls12, "no"),
                CONFIG_WITHIN("Collector", "CapturePatience", config_parse_usec, &s->patience, "20s",
                              USEC_PER_SEC,
                              300 * USEC_PER_SEC),
                CONFIG_WITHIN("Collector", "RetainDays", config_parse_u32, &s->retention.days, "30", 1,
                              3650),
                CONFIG_WITHIN("Collector", "RunLogBytes", config_parse_bytes, &s->retention.line_bytes,
                              "1G", BYTES_MIN, UINT64_MAX),
                CONFIG_WITHIN("Collector", "RetainBytes", config_parse_bytes, &s->retention.bytes, "8G",
                              BYTES_MIN, UINT64_MAX),
                CONFIG_ITEM("Control", "Enabled", config_parse_bool, &s->control.enabled, "yes"),
                CONFIG_WORD("Control", "Store", config_parse_bool, &s->control.etcd, "sqlite", stores),
                CONFIG_ITEM("Control", "Tenant", config_parse_name63, s->control.tenant, REGISTRY_TENANT),
                CONFIG_WITHIN("Control", "Lease", config_parse_usec, &s->control.lease, "15s",
                              3 * USEC_PER_SEC,
                              120 * USEC_PER_SEC),
                CONFIG_WORD("Control", "Preflight", config_parse_bool, &s->control.preflight_pairs, "hosts",
                            preflights),
                CONFIG_ITEM("Control", "AgentsUrl", config_parse_url, s->control.agents_url, ""),
                CONFIG_ITEM("Control", "PeopleUrl", config_parse_url, s->control.people_url, ""),
                CONFIG_ITEM("Control", "Etcd", config_parse_string255, s->control.access.members, ""),
                CONFIG_ITEM("Control", "EtcdUser", config_parse_string63, s->control.access.user, ""),
                CONFIG_ITEM("Control", "EtcdPasswordFile", config_parse_string255,
                            s->control.access.password_file, ""),
                CONFIG_ITEM("Control", "EtcdCa", config_parse_string255, s->control.access.ca, ""),
                CONFIG_ITEM("Control", "EtcdCertificate", config_parse_string255,
                            s->control.access.certificate, ""),
                CONFIG_ITEM("Control", "EtcdKey", config_parse_string255, s->control.access.key, ""),
                CONFIG_ITEM("Control", "EtcdCrl", config_parse_path, s->control.access.crl, ""),
                CONFIG_ITEM("Telemetry", "Enabled", config_parse_bool, &s->telemetry.enabled, "yes"),
                CONFIG_ITEM("Telemetry", "Elsewhere", config_parse_url, s->telemetry.elsewhere, ""),
                CONFIG_ITEM("RemoteWrite", "Url", config_parse_url, s->remote.url, ""),
                CONFIG_WORD("RemoteWrite", "Protocol", config_parse_bool, &s->remote.otlp, "prometheus",
                            protocols),
                CONFIG_ITEM("RemoteWrite", "CaFile", config_parse_path, s->remote.ca, ""),
                CONFIG_ITEM("RemoteWrite", "CertFile", config_parse_path, s->remote.certificate, ""),
                CONFIG_ITEM("RemoteWrite", "KeyFile", config_parse_path, s->remote.key, ""),
                CONFIG_ITEM("RemoteWrite", "AuthorizationFile", config_parse_path, s->remote.authorization,
                            ""),
        };
        _cleanup_(config_clear) struct config config = { .items = items,
                                                         .n_items = ELEMENTSOF(items) };
        _cleanup_host_ struct host host = HOST_NULL;
        int r = host_open(o->root, &host);

        if (r < 0)
                return log_error_errno(r, "--root %s: %m", o->root ?: "/");
        r = config_load(&config, &host, "collectord", o->config);
        if (r < 0)
                return log_error_errno(r, "%s: %m", o->config ?: "configuration");
        s->control.lease -= s->control.lease % USEC_PER_SEC; /* etcd counts in seconds */
        if (c->show)
                return config_show(&config, stdout);
        if (override_text(s->otlp, sizeof(s->otlp), c->otlp, "listen-otlp") < 0 ||
            override_text(s->api, sizeof(s->api), c->api, "listen-api") < 0 ||
            override_text(s->database, sizeof(s->database), c->database, "database") < 0 ||
            override_text(s->page, sizeof(s->page), c->page, "page") < 0 ||
            override_text(s->diagnose, sizeof(s->diagnose), c->diagnose, "diagnose") < 0)
                return -EINVAL;
        if (s->diagnose[0])
                return 1;
        s->insecure = s->insecure || c->insecure;
        r = check_settings(s);
        if (r < 0)
                return r;
        if (s->remote.url[0] && !s->telemetry.enabled)
                log_warning("[RemoteWrite] Url= has nothing to hand on: [Telemetry] Enabled=no");
        if (!s->control.enabled && !s->telemetry.enabled)
                log_warning("[Control] Enabled=no and [Telemetry] Enabled=no: this collector does nothing");
        if (c->check)
                return config.warnings > 0 ? -EINVAL : 0;
        if (s->trust_all && s->tls)
                log_warning("TrustAllAgents=yes: whoever has a certificate of AllowAgents= speaks for any "
                            "host; HostFrom= says which host one is");
        if (s->control.enabled && s->tls && !s->slots)
                log_notice("SlotFrom= is not set: a free worker slot goes to the host that claims it first, "
                           "one to each host; tpuctl fleet release gives it to another");
        return 1;
}

int collector_settings_load(int argc, char *argv[], struct collector_settings *ret, int *ret_exit) {
        struct command_line c = { 0 };
        struct options o;
        int r = parse_command_line(argc, argv, &c, &o);

        if (r < 0) {
                *ret_exit = options_exit(r);
                return 0;
        }
        r = load_settings(&c, &o, ret);
        *ret_exit = r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        return r > 0;
}
