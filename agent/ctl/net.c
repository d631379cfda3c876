/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl net: the ways of this host's runs to their peers on one screen, the worst first. */
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
#define KERNEL_ROWS_MAX 8
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
}

static int add_link(struct table *t, const json_t *l, double span) {
        const json_t *interval = json_object_get(l, "interval");
        char again[CELL], rtt[CELL], least[CELL], sent[CELL], peer[CELL * 2], n[5][FIELD_TEXT_MAX], why[300];
        const char *address = field_text(l, "address", n[0]), *name = field_text(l, "peer", n[1]);
        const char *cells[] = { json_is_true(json_object_get(l, "bad")) ? "BAD" : "ok",
                                peer,
                                field_text(l, "nic", n[2]),
                                field_text(l, "connections", n[3]),
                                field_text(interval, "timeouts", n[4]),
                                again_cell(interval, again),
                                time_cell(l, "rtt", rtt),
                                time_cell(l, "min_rtt", least),
                                span > 0 ? rate_cell((number(interval, "sent_bytes") +
                                                      number(interval, "received_bytes")) /
                                                             span,
                                                     sent)
                                         : "-",
                                why };

        (void) snprintf(peer, sizeof(peer), "%s%s%s%s", name, streq(name, address) ? "" : " (",
                        streq(name, address) ? "" : address, streq(name, address) ? "" : ")");
        notes(l, why, sizeof(why));
        return table_add(t, cells);
}

static int print_links(const json_t *answer, FILE *out) {
        static const char *const heads[] = { "STATE",      "PEER", "NIC",   "CONNS",   "RTOS",
                                             "SENT AGAIN", "RTT",  "LEAST", "TRAFFIC", "NOTES" };
        _cleanup_table_ struct table t = TABLE_NULL(ELEMENTSOF(heads));
        const json_t *links = json_object_get(answer, "links"), *l;
        size_t i, left = 0;
        int r = table_add(&t, heads);

        if (json_array_size(links) == 0)
                return 0;
        fputc('\n', out);
        json_array_foreach (links, i, l) {
                if (i >= ROWS_MAX)
                        left++;
                else if (r >= 0)
                        r = add_link(&t, l, number(answer, "interval"));
        }
        if (r >= 0)
                r = table_print(&t, out);
        if (left > 0)
                fprintf(out, "and %zu more that are no worse (--json has all, --peer one)\n", left);
        return r;
}

/* What sockets do not tell, and is not there when all is well: timeouts, SYNs, resets, failed connections.
 */
static bool is_of_interest(const json_t *p) {
        return number(p, "timeouts") + number(p, "syns") + number(p, "resets_sent") +
                       number(p, "resets_received") + number(p, "connect_failures") >
               0;
}

static int print_kernel_peers(const json_t *kernel, FILE *out) {
        static const char *const heads[] = { "PEER", "NIC",    "RUN",   "SENT AGAIN", "RTOS",
                                             "SYNS", "RESETS", "BEGUN", "FAILED" },
                                 *const keys[] = { "timeouts", "syns" };
        _cleanup_table_ struct table t = TABLE_NULL(ELEMENTSOF(heads));
        const json_t *p;
        size_t i, n = 0;
        int r = table_add(&t, heads);

        json_array_foreach (json_object_get(kernel, "peers"), i, p) {
                char text[8][FIELD_TEXT_MAX], again[FIELD_TEXT_MAX], resets[FIELD_TEXT_MAX];
                const char *cells[ELEMENTSOF(heads)] = { field_text(p, "peer", text[0]),
                                                         field_text(p, "nic", text[1]),
                                                         field_text(p, "job", text[2]) };

                if (!is_of_interest(p) || n++ >= KERNEL_ROWS_MAX)
                        continue;
                (void) snprintf(again, sizeof(again), "%.0f",
                                number(p, "fast") + number(p, "rto") + number(p, "probes"));
                cells[3] = again;
                for (size_t k = 0; k < ELEMENTSOF(keys); k++)
                        cells[4 + k] = field_text(p, keys[k], text[4 + k]);
                (void) snprintf(resets, sizeof(resets), "%.0f",
                                number(p, "resets_sent") + number(p, "resets_received"));
                cells[6] = resets;
                cells[7] = field_text(p, "connects", text[6]);
                cells[8] = field_text(p, "connect_failures", text[7]);
                if (r >= 0)
                        r = table_add(&t, cells);
        }
        if (n == 0 || r < 0)
                return r;
        fprintf(out, "\nby the kernel's programs, since the agent started:\n");
        return table_print(&t, out);
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

static int print_kernel(const json_t *answer, FILE *out) {
        const json_t *kernel = json_object_get(answer, "kernel"), *d;
        int r = print_kernel_peers(kernel, out);
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
        return r;
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
        return print_kernel(answer, out);
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
