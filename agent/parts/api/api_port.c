/* SPDX-License-Identifier: Apache-2.0 */
/* What listens on TCP: the port for certificates (api_tls.c), and that of this host alone for /metrics. */
#include "api_state.h"
#include "check_words.h"
#include "log.h"

/* "[::]" is every address; where the kernel has no IPv6, that is 0.0.0.0. */
static int open_port(struct api_port *t, int *ret_fd) {
        struct tcp_address a;
        char other[sizeof(t->listen) + 16];
        int r;

        r = tcp_address_parse(t->listen, &a);
        if (r >= 0)
                r = tcp_address_listen(&a, ret_fd, t->where);
        if (r != -EAFNOSUPPORT || !startswith(t->listen, "[::]:"))
                return r;
        (void) snprintf(other, sizeof(other), "0.0.0.0:%s", t->listen + strlen("[::]:"));
        r = tcp_address_parse(other, &a);
        return r < 0 ? r : tcp_address_listen(&a, ret_fd, t->where);
}

bool api_port_open(struct api_state *p, struct api_port *t, const struct api_security *tls) {
        bool said = t->why_not[0];
        int fd, r;

        if (t->server)
                return false;
        r = open_port(t, &fd);
        if (r >= 0)
                r = tls ? api_serve(p, fd, tls, &t->server) : api_serve_metrics(p, fd, &t->server);
        if (r >= 0) {
                t->why_not[0] = '\0';
                return true;
        }
        (void) snprintf(t->why_not, sizeof(t->why_not), "%s: %s", t->listen, strerror(-r));
        if (!said)
                log_warning("the API does not listen on TCP: %s; tried again", t->why_not);
        return false;
}

void api_port_judge(const struct api_port *t, const char *subject, struct finding *ret) {
        finding_init(ret, "api.listen", subject);
        finding_set(ret->source, "[Api] of hostd.conf");
        finding_set(ret->wanted, "%s", t->listen);
        finding_set(ret->found, "%s", t->server ? t->where : "nothing");
        ret->verdict = VERDICT_OK;
        if (!t->server)
                check_say(ret, WORDS_API_DEAF,
                          t->why_not[0] ? t->why_not : "no usable certificate: api.certificate");
}

void api_port_close(struct api_port *t) {
        t->server = http_server_free(t->server);
        t->listen[0] = t->why_not[0] = '\0';
}

/* --- /metrics for a Prometheus on this host ------------------------------------------------------------ */

void api_metrics_look(struct api_state *p) {
        const char *wanted = p->bus->settings.api.metrics_listen;
        struct api_port *t = &p->metrics;

        if (!streq(t->listen, wanted)) {
                api_port_close(t);
                (void) snprintf(t->listen, sizeof(t->listen), "%s", wanted);
        }
        if (t->listen[0] && api_port_open(p, t, NULL))
                log_info("/metrics is on %s too, for this host alone", t->where);
}

void api_metrics_report(const struct api_state *p, struct sink *s) {
        struct finding f;

        if (!p->metrics.listen[0])
                return;
        api_port_judge(&p->metrics, "metrics", &f);
        s->finding(s, &f);
}
