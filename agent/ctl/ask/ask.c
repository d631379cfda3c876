/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <time.h>

#include "ask.h"
#include "clock.h"
#include "config.h"
#include "ctl.h"
#include "host.h"
#include "json_text.h"
#include "table.h"

/* What others say may have several lines: one line here, so that "to do" stays the second. */
static void print_one_line(const char *text) {
        char line[sizeof(((struct problem *) NULL)->text)];

        for (size_t n; *text; text += n) {
                n = strcspn(text, "\n");
                (void) snprintf(line, sizeof(line), "%.*s", (int) n, text);
                print_clean(stderr, line, false);
                n += text[n] == '\n';
                if (text[n])
                        fputs("; ", stderr);
        }
}

int problem_complain(const struct problem *p) {
        fputs("tpuctl: ", stderr);
        print_one_line(p->text);
        if (p->remedy[0]) {
                fputs("\nto do:  ", stderr);
                print_clean(stderr, p->remedy, false);
        }
        fputc('\n', stderr);
        return p->no_answer || p->elsewhere ? EXIT_NO_ANSWER : EXIT_REFUSED;
}

#define VALUE_MAX   255 /* bytes of a parameter */
#define ASK_AS_ROOT "run it as root, or as a member of the socket's group"

/* Names who should have answered, unless the answer has a remedy of its own. remedy: NULL: the caller has
 * one. */
static int ask_json(const struct http_question *q, const char *remedy, json_t **ret,
                    struct problem *problem) {
        int r = http_json(q, ret, problem);

        if (r < 0 && problem->no_answer && !problem->remedy[0])
                (void) snprintf(problem->remedy, sizeof(problem->remedy), "%s",
                                r == -EACCES && q->unix_socket ? ASK_AS_ROOT
                                : remedy                       ? remedy
                                                               : "");
        return r;
}

/* --- tpuctl.conf --------------------------------------------------------------------------------------- */

static int load_from(const struct host *h, const char *file, struct ctl_settings *s) {
        const struct config_item items[] = {
                CONFIG_ITEM("Ctl", "Collector", config_parse_urls, s->collector_url, ""),
                CONFIG_ITEM("Ctl", "CollectorCa", config_parse_string255, s->collector.ca, ""),
                CONFIG_ITEM("Ctl", "CollectorCertificate", config_parse_string255, s->collector.certificate,
                            ""),
                CONFIG_ITEM("Ctl", "CollectorKey", config_parse_string255, s->collector.key, ""),
                CONFIG_ITEM("Ctl", "CollectorCrl", config_parse_string255, s->collector.crl, ""),
                CONFIG_ITEM("Ctl", "AgentCa", config_parse_string255, s->agents.ca, ""),
                CONFIG_ITEM("Ctl", "AgentCertificate", config_parse_string255, s->agents.certificate, ""),
                CONFIG_ITEM("Ctl", "AgentKey", config_parse_string255, s->agents.key, ""),
                CONFIG_ITEM("Ctl", "AgentCrl", config_parse_string255, s->agents.crl, ""),
        };
        struct config config = { .items = items, .n_items = ELEMENTSOF(items) };
        int r = config_load(&config, h, "tpuctl", file);

        config_clear(&config);
        return r;
}

/* What a person's own file says stands before the machine's. */
static void put_before(struct ctl_settings *s, const struct ctl_settings *own) {
        char *to[] = { s->collector_url, s->collector.ca, s->collector.certificate, s->collector.key,
                       s->collector.crl, s->agents.ca, s->agents.certificate, s->agents.key, s->agents.crl };
        const char *from[] = { own->collector_url, own->collector.ca, own->collector.certificate,
                               own->collector.key, own->collector.crl, own->agents.ca,
                               own->agents.certificate, own->agents.key, own->agents.crl };

        for (size_t i = 0; i < ELEMENTSOF(to); i++)
                if (*from[i])
                        memcpy(to[i], from[i], sizeof(s->agents.key));
}

/* NULL: there is none, or no memory. */
static char *own_file(void) {
        const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        char *path = NULL;
        int r = -1;

        if (base && *base == '/')
                r = asprintf(&path, "%s/tpu-hostd/tpuctl.conf", base);
        else if (home && *home == '/')
                r = asprintf(&path, "%s/.config/tpu-hostd/tpuctl.conf", home);
        if (r >= 0 && access(path, F_OK) == 0)
                return path;
        if (r >= 0)
                free(path);
        return NULL;
}

int ctl_settings_load(const struct options *o, struct ctl_settings *ret) {
        struct ctl_settings s = { 0 }, own = { 0 };
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_free_ char *file = o->config ? NULL : own_file();
        int r = host_open(o->root, &h);

        if (r == 0)
                r = load_from(&h, o->config, &s);
        if (r == 0 && file)
                r = load_from(&h, file, &own);
        if (r < 0)
                return options_fail(o->program, r, "the configuration cannot be read: %s", strerror(-r));
        put_before(&s, &own);
        s.collector_configured = s.collector_url[0] != '\0';
        if (!s.collector_configured)
                memcpy(s.collector_url, COLLECTOR_DEFAULT, sizeof(COLLECTOR_DEFAULT));
        *ret = s;
        return 0;
}

/* --- This host ----------------------------------------------------------------------------------------- */

int hostd_call(const char *root, const char *method, const char *path, usec_t timeout, json_t **ret,
               struct problem *problem) {
        struct http_question q = { .method = method, .timeout = timeout };
        _cleanup_free_ char *socket = NULL, *url = NULL;
        int r = socket_path(root, PATH_HOSTD_SOCKET, &socket);

        if (r == 0 && asprintf(&url, "http://localhost%s", path) < 0)
                r = -ENOMEM;
        if (r < 0)
                return problem_set(problem, r, NULL, "the path of tpu-hostd's socket below --root: %s",
                                   strerror(-r));
        q.unix_socket = socket;
        q.url = url;
        return ask_json(&q, "systemctl status tpu-hostd # of another host: tpuctl fleet", ret, problem);
}

int launchd_garbled(struct problem *problem) {
        return problem_set(problem, -EPROTO, "tpuctl --version; tpu-launchd --version",
                           "tpu-launchd's answer cannot be understood");
}

static int launchd_refused(const struct frame *f, struct problem *p) {
        Local__Error *e = local__error__unpack(NULL, f->len, f->data);
        int r;

        if (!e)
                return launchd_garbled(p);
        r = problem_set(p, e->code > 0 ? -e->code : -EIO, e->remedy, "%s", e->text);
        local__error__free_unpacked(e, NULL);
        return r;
}

/* Where the package cannot be: a pod owns neither the host's network nor its systemd, and
 * Container-Optimized OS has no package manager and a root that cannot be written to. 0: it may be here. */
static int refuse_place(const char *root, struct problem *p) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_close_ int pod = -1;
        char os[1024] = "";

        if (host_open(root, &h) < 0)
                return 0;
        pod = host_open_file(&h, "/run/secrets/kubernetes.io", O_PATH | O_DIRECTORY);
        if (pod >= 0)
                return problem_set(
                        p, -ENOTSUP, "kubectl get jobsets,pods # its runs are those of Kubernetes",
                        "this is a Kubernetes pod, where tpu-hostd neither runs nor starts anything: "
                        "it needs a TPU VM with Debian or Ubuntu");
        (void) host_read(&h, "/etc/os-release", os, sizeof(os), NULL); /* or it says nothing */
        if (strstr(os, "\nID=cos\n") || startswith(os, "ID=cos\n"))
                return problem_set(
                        p, -ENOTSUP, "docker ps # what runs here runs in containers",
                        "this is Container-Optimized OS, where tpu-hostd cannot be installed: it needs "
                        "a TPU VM with Debian or Ubuntu");
        return 0;
}

static int launchd_silent(const char *root, struct problem *p, int error, const char *path) {
        int r = refuse_place(root, p);

        p->no_answer = true;
        if (r < 0)
                return r;
        return problem_set(p, error,
                           error == -EACCES ? ASK_AS_ROOT
                                            : "systemctl status tpu-launchd.socket tpu-launchd "
                                              "# on other hosts: tpuctl runs --fleet",
                           "no answer from tpu-launchd on %s: %s", path, strerror(-error));
}

int launchd_ask(const char *root, uint16_t kind, const ProtobufCMessage *m, uint16_t want,
                const ProtobufCMessageDescriptor *type, usec_t timeout, ProtobufCMessage **ret,
                struct problem *problem) {
        _cleanup_free_ char *path = NULL;
        _cleanup_free_ uint8_t *buf = NULL;
        _cleanup_close_ int fd = -1;
        struct frame f;
        int r;

        *problem = (struct problem) { 0 };
        r = socket_path(root, PATH_LAUNCHD_SOCKET, &path);
        if (r < 0)
                return problem_set(problem, r, NULL, "the path of tpu-launchd's socket below --root: %s",
                                   strerror(-r));
        fd = frame_connect(path);
        if (fd < 0)
                return launchd_silent(root, problem, fd, path);
        r = frame_send(fd, kind, m, timeout);
        if (r == 0)
                r = frame_receive(fd, timeout, &f, &buf);
        if (r < 0)
                return launchd_silent(root, problem, r, path);
        if (f.kind == LOCAL__KIND__KIND_ERROR)
                return launchd_refused(&f, problem);
        *ret = f.kind == want ? protobuf_c_message_unpack(type, NULL, f.len, f.data) : NULL;
        return *ret ? 0 : launchd_garbled(problem);
}

static json_t *time_json(uint64_t real) {
        char text[CLOCK_TEXT_MAX];

        return real > 0 ? json_string(clock_text(real, text)) : json_null();
}

static json_t *run_json(const Local__Run *j) {
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:n, s:n, "
                         "s:n, s:n, s:n, s:n, s:I, s:I, s:I, s:s, s:s, s:b, s:s, s:s, s:s}",
                         "name", j->name, "unit", j->unit, "state", j->state, "cause", j->cause, "code",
                         j->code, "status", j->status, "framework", j->framework, "malloc", j->malloc,
                         "user", j->user, "command", j->command, "started", time_json(j->started_real_usec),
                         "ended", time_json(j->ended_real_usec), "main_pid", (json_int_t) j->main_pid,
                         "processes", (json_int_t) j->processes, "step", "step_seconds", "goodput",
                         "spent_seconds", "checkpoint", "suspicion", "generation",
                         (json_int_t) j->generation, "restarts", (json_int_t) j->restarts, "restarts_max",
                         (json_int_t) j->restarts_max, "why", j->why, "remedy", j->remedy,
                         "adopted", j->adopted, "container", j->container, "devices", j->devices, "image",
                         j->image);
}

int runs_of_launchd(const char *root, const char *name, json_t **ret, struct problem *problem) {
        Local__RunListRequest m = LOCAL__RUN_LIST_REQUEST__INIT;
        _cleanup_launchd_reply_ ProtobufCMessage *answer = NULL;
        const Local__RunListReply *reply;
        json_t *list;
        int r;

        if (name)
                m.name = wire_text(name);
        r = launchd_ask(root, LOCAL__KIND__KIND_RUN_LIST_REQUEST, &m.base, LOCAL__KIND__KIND_RUN_LIST_REPLY,
                        &local__run_list_reply__descriptor, HOSTD_TIMEOUT, &answer, problem);
        if (r < 0)
                return r;
        reply = (const Local__RunListReply *) answer;
        list = json_array();
        for (size_t i = 0; i < reply->n_run; i++)
                list = json_list_add(list, run_json(reply->run[i])); /* NULL: text that is no UTF-8 */
        if (!list)
                return launchd_garbled(problem);
        *ret = json_pack("{s:o}", "runs", list);
        return *ret ? 0 : problem_set(problem, -ENOMEM, NULL, "out of memory");
}

/* --- The agent of another host ------------------------------------------------------------------------- */

void agent_request(const struct ctl_certificates *tls, const char *to, const char *path,
                   char url[static AGENT_URL_MAX], struct http_question *q) {
        bool six = strchr(to, ':');

        (void) snprintf(url, AGENT_URL_MAX, "https://%s%s%s:%d%s", six ? "[" : "", to, six ? "]" : "",
                        PORT_HOSTD_API, path);
        q->url = url;
        q->ca = tls->ca;
        q->certificate = tls->certificate;
        q->key = tls->key;
        q->crl = tls->crl;
}

/* --- A collector --------------------------------------------------------------------------------------- */

int collector_open(const struct options *o, const char *given, struct collector *ret) {
        struct collector c = { 0 };
        struct ctl_settings s;
        char why[96], *rest = s.collector_url;
        int r = ctl_settings_load(o, &s);

        if (r < 0)
                return r;
        c.tls = s.collector;
        c.configured = given || s.collector_configured;
        r = given ? config_parse_urls(*given ? given : "?", s.collector_url, why) : 0;
        if (r < 0)
                return options_fail(o->program, r, "--collector '%s': %s", given, why);
        for (const char *url; (url = strsep(&rest, CONFIG_BETWEEN));) {
                size_t n = strlen(url);

                while (n > 0 && url[n - 1] == '/')
                        n--;
                if (n > 0)
                        (void) snprintf(c.urls[c.n++], sizeof(c.urls[0]), "%.*s", (int) n, url);
        }
        if (c.n == 0)
                return options_fail(o->program, -EINVAL, "--collector, Collector=: there is no URL");
        *ret = c;
        return 0;
}

static int call_one(struct collector *c, const char *url, const char *method, const char *path,
                    const char *body, usec_t wait, json_t **ret, struct problem *problem) {
        struct http_question q = { .timeout = COLLECTOR_TIMEOUT + wait,
                                  .method = method,
                                  .body = body,
                                  .ca = c->tls.ca,
                                  .certificate = c->tls.certificate,
                                  .key = c->tls.key,
                                  .crl = c->tls.crl,
                                  .follows = true };
        _cleanup_free_ char *whole = NULL;
        int r;

        if (asprintf(&whole, "%s%s", url, path) < 0) {
                whole = NULL;
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        }
        q.url = whole;
        if (c->configured)
                return ask_json(&q, "systemctl status tpu-collectord # on the collector's machine", ret,
                                problem);
        r = ask_json(&q, NULL, ret, problem);
        return r < 0 && problem->no_answer && !problem->remedy[0]
                       ? problem_set(problem, r, "man tpuctl # FILES: Collector= in tpuctl.conf names it",
                                     "no collector is configured, and %s does not answer", url)
                       : r;
}

static void prefer(struct collector *c, size_t i) {
        char url[sizeof(c->urls[0])];

        memcpy(url, c->urls[i], sizeof(url));
        memmove(c->urls[1], c->urls[0], i * sizeof(c->urls[0]));
        memcpy(c->urls[0], url, sizeof(url));
}

int collector_call(struct collector *c, const char *method, const char *path, const char *body,
                   usec_t wait, json_t **ret, struct problem *problem) {
        bool reads = !method || streq(method, "GET");
        int r = -ENOTCONN;

        assert(c->n > 0);
        for (size_t i = 0; i < c->n; i++) {
                r = call_one(c, c->urls[i], method, path, body, wait, ret, problem);
                if (r >= 0 || !problem->no_answer)
                        prefer(c, i);
                if (r >= 0 || !problem->no_answer || (problem->sent && !reads))
                        break;
        }
        return r;
}

int path_parameter(char *path, size_t size, const char *key, const char *value) {
        size_t n = strlen(path);
        CURL *curl;
        char *escaped;
        int written;

        if (!value)
                return 0;
        if (strlen(value) > VALUE_MAX)
                return -ENAMETOOLONG;
        curl = curl_easy_init(); /* needed before curl 7.82 */
        escaped = curl ? curl_easy_escape(curl, value, 0) : NULL;
        curl_easy_cleanup(curl);
        if (!escaped)
                return -ENOMEM;
        written = snprintf(path + n, size - n, "%c%s=%s", strchr(path, '?') ? '&' : '?', key, escaped);
        curl_free(escaped);
        return written < 0 || (size_t) written >= size - n ? -ENAMETOOLONG : 0;
}

/* --- Asking again -------------------------------------------------------------------------------------- */

static void wait_for(usec_t time) {
        struct timespec left = { .tv_sec = (time_t) (time / USEC_PER_SEC),
                                 .tv_nsec = (long) (time % USEC_PER_SEC) * 1000 };

        while (nanosleep(&left, &left) < 0 && errno == EINTR)
                continue;
}

bool again_wait(struct again *a, const struct problem *p, const char *program) {
        if (p->retry_after == 0 || p->retry_after > AGAIN_MAX - a->waited)
                return false;
        a->waited += p->retry_after;
        if (a->waited > AGAIN_QUIET && !a->said) {
                fprintf(stderr, "%s: ", program);
                print_clean(stderr, p->text, false);
                fprintf(stderr, ": asking again, for %u s at most\n", (unsigned) (AGAIN_MAX / USEC_PER_SEC));
                a->said = true;
        }
        wait_for(p->retry_after);
        return true;
}
