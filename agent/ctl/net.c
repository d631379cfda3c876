/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl net: the links of this host to its peers in one table, the worst first. */
#include <math.h>
#include <stdarg.h>

#include "clock.h"
#include "ctl.h"
#include "hostd.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

#define ROWS_MAX 24 /* of a screen; --json has all */
#define WATCH_EVERY (2 * USEC_PER_SEC)
#define CELL 48

static double number(const json_t *o, const char *key) {
        return json_number_value(json_object_get(o, key));
}

static const char *time_cell(const json_t *o, const char *key, char buf[static CELL]) {
        double s = number(o, key);

        return short_span_text(s > 0 ? s : NAN, buf);
}

/* As data rates are spoken of: bits, by thousands. */
static const char *rate_cell(double bytes, char buf[static CELL]) {
        static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s" };
        double bits = bytes * 8;
        size_t u = 0;

        if (!(bits > 0))
                return "-";
        for (; bits >= 1000 && u + 1 < ELEMENTSOF(units); u++)
                bits /= 1000;
        (void) snprintf(buf, CELL, "%.3g %s", bits, units[u]);
        return buf;
}

static const char *again_cell(const json_t *interval, char buf[static CELL]) {
        double again = number(interval, "retransmits"), segments = number(interval, "segments");

        if (again <= 0)
                return "0";
        if (segments > 0)
                (void) snprintf(buf, CELL, "%.0f (%.*g %%)", again, again * 10 < segments ? 2 : 3,
                                MIN(100 * again / segments, 100.0));
        else
                (void) snprintf(buf, CELL, "%.0f", again);
        return buf;
}

_printf_(3, 4)
static void note(char *buf, size_t size, const char *format, ...) {
        size_t n = strlen(buf);
        va_list ap;

        if (n > 0 && n + 3 < size)
                n += (size_t) snprintf(buf + n, size - n, ", ");
        va_start(ap, format);
        if (n < size)
                (void) vsnprintf(buf + n, size - n, format, ap);
        va_end(ap);
}

/* What BPF counted and is not there when all is well, or what sockets do not tell. */
static bool has_events(const json_t *l) {
        const json_t *k = json_object_get(l, "kernel");

        return number(k, "timeouts") + number(k, "syns") + number(k, "resets_sent") +
                       number(k, "resets_received") + number(k, "connect_failures") >
               0;
}

static void note_events(const json_t *l, char *buf, size_t size) {
        const json_t *k = json_object_get(l, "kernel");
        double resets = number(k, "resets_sent") + number(k, "resets_received");

        if (!has_events(l))
                return;
        note(buf, size, "BPF: %.0f segments sent again",
             number(k, "fast") + number(k, "rto") + number(k, "probes") + number(k, "syns"));
        if (number(k, "timeouts") > 0)
                note(buf, size, "%.0f RTOs", number(k, "timeouts"));
        if (number(k, "syns") > 0)
                note(buf, size, "%.0f of them SYNs", number(k, "syns"));
        if (resets > 0)
                note(buf, size, "%.0f resets", resets);
        if (number(k, "connect_failures") > 0)
                note(buf, size, "%.0f of %.0f connects failed", number(k, "connect_failures"),
                     number(k, "connects") + number(k, "connect_failures"));
}

/* What holds it, in a few words. */
static void notes(const json_t *l, char *buf, size_t size) {
        const json_t *interval = json_object_get(l, "interval");
        double busy = number(interval, "busy"), silence = number(l, "silence");
        char nic[FIELD_TEXT_MAX];

        buf[0] = '\0';
        if (silence > 0)
                note(buf, size, "nothing acknowledged for %.0f s", silence);
        if (number(interval, "syn_retries") > 0)
                note(buf, size, "SYN sent again %.0f times", number(interval, "syn_retries"));
        if (json_is_string(json_object_get(l, "leaves_by")))
                note(buf, size, "LEAVES BY %s", field_text(l, "leaves_by", nic));
        if (busy > 0 && number(interval, "receive_window_limited") > busy / 10)
                note(buf, size, "%.0f %% held by the peer's window",
                     100 * number(interval, "receive_window_limited") / busy);
        if (busy > 0 && number(interval, "send_buffer_limited") > busy / 10)
                note(buf, size, "%.0f %% held by the send buffer",
                     100 * number(interval, "send_buffer_limited") / busy);
        if (number(l, "receive_buffer_full") > 0)
                note(buf, size, "receive buffer full on %.0f", number(l, "receive_buffer_full"));
        if (number(interval, "drops") > 0)
                note(buf, size, "%.0f received segments dropped", number(interval, "drops"));
        note_events(l, buf, size);
}

static int add_link(struct table *t, const json_t *l, double span) {
        const json_t *interval = json_object_get(l, "interval");
        char again[CELL], rtt[CELL], least[CELL], rate[CELL], peer[CELL * 2], n[5][FIELD_TEXT_MAX], why[300];
        const char *address = field_text(l, "address", n[0]), *name = field_text(l, "peer", n[1]);
        double bytes = number(interval, "sent_bytes") + number(interval, "received_bytes");
        bool looked = number(l, "connections") > 0 || json_is_true(json_object_get(l, "bad"));
        const char *cells[] = { !looked                                   ? "-"
                                : json_is_true(json_object_get(l, "bad")) ? "BAD"
                                                                          : "ok",
                                peer,
                                field_text(l, "nic", n[2]),
                                looked ? field_text(l, "connections", n[3]) : "-",
                                looked ? field_text(interval, "timeouts", n[4]) : "-",
                                looked ? again_cell(interval, again) : "-",
                                time_cell(l, "rtt", rtt),
                                time_cell(l, "min_rtt", least),
                                span > 0 ? rate_cell(bytes / span, rate) : "-",
                                why };

        (void) snprintf(peer, sizeof(peer), "%s%s%s%s", name, streq(name, address) ? "" : " (",
                        streq(name, address) ? "" : address, streq(name, address) ? "" : ")");
        notes(l, why, sizeof(why));
        return table_add(t, cells);
}

/* A link that only BPF knows is shown when something went wrong on it. */
static int print_links(const json_t *answer, FILE *out) {
        static const char *const heads[] = { "STATE",      "PEER", "NIC",   "CONNS",   "RTOS",
                                             "SENT AGAIN", "RTT",  "LEAST", "TRAFFIC", "NOTES" };
        _cleanup_table_ struct table t = TABLE_NULL(ELEMENTSOF(heads));
        const json_t *l;
        size_t i, left = 0;
        int r = table_add(&t, heads);

        json_array_foreach (json_object_get(answer, "links"), i, l) {
                if (number(l, "connections") == 0 && !json_is_true(json_object_get(l, "bad")) &&
                    !has_events(l))
                        continue;
                if (t.rows > ROWS_MAX)
                        left++;
                else if (r >= 0)
                        r = add_link(&t, l, number(answer, "interval"));
        }
        if (r < 0 || t.rows == 1)
                return r;
        fputc('\n', out);
        r = table_print(&t, out);
        if (left > 0)
                fprintf(out, "and %zu more that are no worse (--json has all, --peer one)\n", left);
        return r;
}

/* Firewalls and strangers make most of these, so there is no line for each; kernels before 5.17 name no reason at all. */
static void print_other_drops(const json_t *kernel, double told, FILE *out) {
        double others = number(kernel, "dropped") - told;

        if (others > 0)
                fprintf(out, "dropped for %s reasons: %.0f packets (by reason and place: metric tpu.net.drops)\n",
                        told > 0 ? "other" : "unsuspicious or unnamed", others);
        if (number(kernel, "unplaced") > 0)
                fprintf(out, "dropped, and not known in which network namespace of this host: %.0f packets\n",
                        number(kernel, "unplaced"));
        if (number(kernel, "uncounted") > 0)
                fprintf(out, "%.0f events found no room in the tables of the kernel's programs: what is told of peers and "
                             "drops is too low by so many\n",
                        number(kernel, "uncounted"));
}

static void print_kernel(const json_t *answer, FILE *out) {
        const json_t *kernel = json_object_get(answer, "kernel"), *d;
        char mean[CELL], n[3][FIELD_TEXT_MAX], text[200];
        double told = 0;
        size_t i;

        if (number(kernel, "connects") > 0)
                fprintf(out, "connections begun: %.0f, failed %.0f, established after %s on average\n",
                        number(kernel, "connects"), number(kernel, "connect_failures"),
                        time_cell(kernel, "connect_mean", mean));
        json_array_foreach (json_object_get(kernel, "drops"), i, d) {
                (void) snprintf(text, sizeof(text),
                                "dropped in %s (%s): %s packets: ", field_text(d, "place", n[0]),
                                field_text(d, "reason", n[1]), field_text(d, "packets", n[2]));
                print_clean(out, text, false);
                print_clean(out, field_text(d, "meaning", n[0]), false);
                fputc('\n', out);
                told += number(d, "packets");
        }
        print_other_drops(kernel, told, out);
}

/* "NICs of run job1: eth0 61 %, eth1 39 %". */
static void print_nics(const json_t *answer, FILE *out) {
        const json_t *nics = json_object_get(answer, "nics"), *n;
        const char *before = NULL;
        size_t i;

        json_array_foreach (nics, i, n) {
                char text[128], buf[2][FIELD_TEXT_MAX];
                const char *job = json_string_value(json_object_get(n, "job"));

                if (!job)
                        continue;
                if (!before || !streq(job, before))
                        (void) snprintf(text, sizeof(text), "\nNICs of run %.64s: ", job);
                else
                        (void) snprintf(text, sizeof(text), ", ");
                print_clean(out, text, true);
                (void) snprintf(text, sizeof(text), "%s %.0f %% of the traffic",
                                field_text(n, "nic", buf[0]), 100 * number(n, "share"));
                print_clean(out, text, false);
                before = job;
        }
        if (before)
                fputc('\n', out);
}

enum verdict net_verdict(const json_t *answer) {
        enum verdict v;

        return verdict_parse(json_string_value(json_object_get(answer, "verdict"))
                                     ? json_string_value(json_object_get(answer, "verdict"))
                                     : "",
                             &v) < 0
                       ? VERDICT_UNKNOWN
                       : v;
}

int screen_net(const json_t *answer, usec_t now, FILE *out) {
        const json_t *receive = json_object_get(answer, "receive_buffer");
        double age = field_age(answer, "looked", now);
        char n[FIELD_TEXT_MAX], span[SPAN_TEXT_MAX];
        const char *text = json_string_value(json_object_get(answer, "text"));
        int r;

        fprintf(out, "%s  ", verdict_name(net_verdict(answer)));
        print_clean(out, text ? text : "-", false);
        fputc('\n', out);
        if (!isnan(age))
                fprintf(out, "      looked at %s ago, over %.0f s; RTOS: retransmission timeouts%s\n",
                        span_text(age, span), number(answer, "interval"),
                        json_is_false(json_object_get(answer, "exact_timeouts"))
                                ? " (this kernel tells at least so many)"
                                : "");
        if (json_is_object(json_object_get(answer, "kernel")))
                fprintf(out, "      BPF: counted by the kernel's programs since the agent started\n");
        r = print_links(answer, out);
        if (r < 0)
                return r;
        print_nics(answer, out);
        text = field_text(receive, "text", n);
        if (text[0]) {
                fprintf(out, "receive buffers: ");
                print_clean(out, text, false);
                fputc('\n', out);
        }
        if (number(answer, "left_out") > 0)
                fprintf(out, "%.0f sockets found no room and are not counted\n", number(answer, "left_out"));
        print_kernel(answer, out);
        return 0;
}

/* --- The verb ------------------------------------------------------------------------------------------ */

/* The peer as a part of a query: what is none of letters, digits, '.', '-', ':' is written by its number. */
static int make_path(const char *peer, char *buf, size_t size) {
        size_t n = (size_t) snprintf(buf, size, "/v1/net%s", peer ? "?peer=" : "");

        for (; peer && *peer && n + 4 < size; peer++)
                n += (size_t) snprintf(
                        buf + n, size - n,
                        strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:", *peer)
                                ? "%c"
                                : "%%%02X",
                        (unsigned char) *peer);
        return peer && *peer ? -E2BIG : 0;
}

static int show(const char *root, const char *path, bool json, bool again) {
        struct problem problem = { 0 };
        enum verdict v;
        json_t *answer;
        int r = hostd_ask(root, path, false, 5 * USEC_PER_SEC, &answer, &problem);

        if (again && isatty(STDOUT_FILENO))
                fputs("\033[H\033[J",
                      stdout); /* the screen is cleared when there is something new to show */
        if (r < 0)
                return problem_complain(&problem);
        v = net_verdict(answer);
        if (json)
                r = report_print_json(stdout, json_incref(answer));
        else
                r = screen_net(answer, clock_real(&clock_system), stdout);
        json_decref(answer);
        (void) fflush(stdout); /* a reader that is gone ends us by SIGPIPE */
        return r < 0 ? EXIT_NO_ANSWER : verdict_exit_code(v);
}

int verb_net(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, watch = false;
        const char *peer = NULL;
        const struct option_def defs[] = {
                { "peer", "PEER", "only the ways to this one: a worker's number or an address", &peer,
                  NULL },
                { "watch", NULL,
                  "show it again every 2 s until it is interrupted; the agent looks every 10 s", NULL,
                  &watch },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = { .program = "tpuctl net",
                             .synopsis = "[--peer PEER] [--watch] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "What the TCP connections of this host's runs went through, by peer "
                                        "and NIC, the worst first. "
                                        "Exit code: 0 no bad way; 1 one is bad; 3 no run, or no answer." };
        char path[512];
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (make_path(peer, path, sizeof(path)) < 0) {
                fprintf(stderr, "tpuctl: '%.40s…' is no peer\n", peer);
                return EXIT_USAGE;
        }
        r = show(o.root, path, json, watch);
        while (watch) {
                (void) usleep(WATCH_EVERY);
                r = show(o.root, path, json, true);
        }
        return r;
}
