/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl net: the links of this host to its peers in one table, the worst first. GET /v1/net */
#include "answer.h"
#include "json_text.h"
#include "live.h"
#include "screens.h"
#include "show.h"
#include "verb_words.h"

#define ROWS_MAX 24 /* of a screen; --json has all */

/* 0 when it is none. */
static double number(const json_t *o, const char *key) {
        return json_number_value(json_object_get(o, key));
}

static bool is_bad(const json_t *l) {
        return json_is_true(json_object_get(l, "bad"));
}

/* What BPF counted and is not there when all is well, or what sockets do not report. */
static bool has_events(const json_t *l) {
        const json_t *k = json_object_get(l, "kernel");

        return number(k, "timeouts") + number(k, "syns") + number(k, "resets_sent") +
                       number(k, "resets_received") + number(k, "connect_failures") >
               0;
}

static void set_number(json_t *o, const char *key, double n) {
        (void) json_object_set_new(o, key, json_real(n)); /* out of memory: it is not shown */
}

/* The share of the time with data to send that something held it; small ones are no news. */
static void set_held(json_t *l, const char *key, const char *by) {
        const json_t *interval = json_object_get(l, "interval");
        double busy = number(interval, "busy"), held = number(interval, by);

        if (busy > 0 && held > busy / 10)
                set_number(l, key, held / busy);
}

/* What the columns show and no field says: sums and shares of others. */
static void add_sums(json_t *l, double span) {
        const json_t *interval = json_object_get(l, "interval"), *k = json_object_get(l, "kernel");
        double again = number(interval, "retransmits"), segments = number(interval, "segments");
        char text[48];

        if (number(l, "connections") > 0 || is_bad(l))
                (void) json_object_set_new(l, "looked", json_true());
        if (again > 0 && segments > 0) {
                (void) snprintf(text, sizeof(text), "%.*g", again * 10 < segments ? 2 : 3,
                                MIN(100 * again / segments, 100.0));
                (void) json_object_set_new(l, "again_percent", json_string(text));
        }
        if (!streq(json_text_of(l, "peer"), json_text_of(l, "address")))
                (void) json_object_set(l, "address_shown", json_object_get(l, "address"));
        if (span > 0)
                set_number(l, "rate",
                           (number(interval, "sent_bytes") + number(interval, "received_bytes")) / span);
        set_held(l, "window_held", "receive_window_limited");
        set_held(l, "buffer_held", "send_buffer_limited");
        if (!has_events(l))
                return;
        set_number(l, "kernel_again",
                   number(k, "fast") + number(k, "rto") + number(k, "probes") + number(k, "syns"));
        set_number(l, "resets", number(k, "resets_sent") + number(k, "resets_received"));
        set_number(l, "connects", number(k, "connects") + number(k, "connect_failures"));
}

static const struct column link_columns[] = {
        { .title = "STATE", .cell = "[{looked?}[{bad?}BAD|ok]]" },
        { .title = "PEER", .cell = "{peer}[{address_shown?} ({address_shown})]" },
        { .title = "NIC", .cell = "{nic}" },
        { .title = "CONNS", .cell = "[{looked?}{connections}]" },
        { .title = "RTOS", .cell = "[{looked?}{interval.timeouts}]" },
        { .title = "RETRANSMITS",
          .cell = "[{looked?}[{interval.retransmits>0}{interval.retransmits:count}[ ({again_percent} "
                  "%)]|0]]" },
        { .title = "RTT", .cell = "[{rtt>0}{rtt:span}]" },
        { .title = "LEAST", .cell = "[{min_rtt>0}{min_rtt:span}]" },
        { .title = "TRAFFIC", .cell = "{rate:bits}" },
        { .title = "NOTES", /* what holds it, in a few words */
          .cell = "[{silence>0}{,}nothing acknowledged for {silence:count} s]"
                  "[{interval.syn_retries>0}{,}SYN retransmitted {interval.syn_retries:count} times]"
                  "[{,}LEAVES BY {leaves_by}]"
                  "[{,}{window_held:percent} held by the peer's window]"
                  "[{,}{buffer_held:percent} held by the send buffer]"
                  "[{receive_buffer_full>0}{,}receive buffer full on {receive_buffer_full:count}]"
                  "[{interval.drops>0}{,}{interval.drops:count} received segments dropped]"
                  "[{,}BPF: {kernel_again:count} segments retransmitted"
                  "[{kernel.timeouts>0}, {kernel.timeouts:count} RTOs]"
                  "[{kernel.syns>0}, {kernel.syns:count} of them SYNs]"
                  "[{resets>0}, {resets:count} resets]"
                  "[{kernel.connect_failures>0}, {kernel.connect_failures:count} of {connects:count} "
                  "connects failed]]",
          .shrinks = true },
};

/* A link that only BPF knows is shown when something went wrong on it. */
static int print_links(const json_t *answer, usec_t now, FILE *out) {
        json_t *rows = json_array(), *l;
        size_t i, left = 0;
        int r = rows ? 0 : -ENOMEM;

        json_array_foreach(json_object_get(answer, "links"), i, l) {
                if (number(l, "connections") == 0 && !is_bad(l) && !has_events(l))
                        continue;
                if (json_array_size(rows) == ROWS_MAX)
                        left++;
                else if (r == 0)
                        r = json_array_append(rows, l) < 0 ? -ENOMEM : 0;
                add_sums(l, number(answer, "interval"));
        }
        if (r == 0 && json_array_size(rows) > 0) {
                fputc('\n', out);
                r = show_table(out, rows, now, link_columns, ELEMENTSOF(link_columns));
        }
        if (left > 0)
                fprintf(out, "and %zu more that are no worse (--json has all, --peer one)\n", left);
        json_decref(rows);
        return r;
}

/* Firewalls and strangers make most of the other drops, so there is no line for each; kernels before 5.17
 * name no reason at all. */
static void print_kernel(const json_t *answer, usec_t now, FILE *out) {
        json_t *kernel = json_object_get(answer, "kernel");
        const json_t *drops = json_object_get(kernel, "drops"), *d;
        double named = 0;
        size_t i;

        if (!json_is_object(kernel))
                return;
        json_array_foreach(drops, i, d)
                named += number(d, "packets");
        set_number(kernel, "named", named);
        set_number(kernel, "others", number(kernel, "dropped") - named);
        show(out, kernel, now,
             "[{connects>0}connections begun: {connects:count}, failed [{connect_failures:count}|0], "
             "established after [{connect_mean>0}{connect_mean:span}|-] on average\n]");
        show_each(out, drops, now, "dropped in {place} ({reason}): {packets} packets: {meaning}\n");
        show(out, kernel, now,
             "[{others>0}dropped for [{named>0}other|unsuspicious or unnamed] reasons: {others:count} "
             "packets (by reason and place: metric tpu.net.drops)\n]"
             "[{unplaced>0}dropped, and not known in which network namespace of this host: {unplaced:count} "
             "packets\n]"
             "[{uncounted>0}{uncounted:count} events found no room in the tables of the kernel's programs: "
             "the numbers of peers and drops are too low by so many\n]");
}

/* "NICs of run train: eth0 61 %, eth1 39 %". */
static void print_nics(const json_t *answer, usec_t now, FILE *out) {
        const char *before = NULL;
        const json_t *n;
        size_t i;

        json_array_foreach(json_object_get(answer, "nics"), i, n) {
                const char *run = json_string_value(json_object_get(n, "run"));

                if (!run)
                        continue;
                show(out, n, now, before && streq(run, before) ? ", " : "\nNICs of run {run}: ");
                show(out, n, now, "{nic} {share:percent} of the traffic");
                before = run;
        }
        if (before)
                fputc('\n', out);
}

static enum verdict net_verdict(const json_t *answer) {
        enum verdict v;

        return verdict_parse(json_text_of(answer, "verdict"), &v) < 0 ? VERDICT_UNKNOWN : v;
}

int screen_net(json_t *answer, usec_t now, FILE *out) {
        int r;

        fprintf(out, "%s  ", verdict_name(net_verdict(answer)));
        show(out, answer, now,
             "[{text}|-]\n"
             "[      looked at {looked:age} ago, over [{interval:count}|0] s; RTOS: retransmission timeouts"
             "[{exact_timeouts=false} (this kernel reports at least so many)]\n]");
        if (json_is_object(json_object_get(answer, "kernel")))
                fputs("      BPF: counted by the kernel's programs since the agent started\n", out);
        r = print_links(answer, now, out);
        if (r < 0)
                return r;
        print_nics(answer, now, out);
        show(out, answer, now,
             "[receive buffers: {receive_buffer.text}\n]"
             "[{left_out>0}{left_out:count} sockets found no room and are not counted\n]");
        print_kernel(answer, now, out);
        return 0;
}

/* --- The verb ------------------------------------------------------------------------------------------ */

struct view {
        const struct options *o;
        const char *path;
        bool json;
};

static int draw_net(void *userdata) {
        const struct view *v = userdata;

        return answer_of_hostd(v->o, v->path, HOSTD_TIMEOUT,
                               &(struct answer_as){ v->json, screen_net, net_verdict });
}

int verb_net(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, watch = false;
        const char *peer = NULL;
        const struct option_def defs[] = {
                { "peer", "PEER", "only the paths to this one: a worker's number or an address", &peer,
                  NULL },
                { "watch", NULL,
                  "show it again every 2 s until it is interrupted; the agent looks every 10 s", NULL,
                  &watch },
                OPTION_JSON(&json),
        };
        struct options o = VERB_OPTIONS(
                "net", "[--peer PEER] [--watch] [--json]", defs,
                "Shows losses and round trips of the TCP connections of this host's runs, by peer and "
                "NIC, the worst first. Exit code: 0 no bad path; 1 one is bad; 3 no run, or no answer.");
        char path[512] = "/v1/net";
        struct view v;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        if (path_parameter(path, sizeof(path), "peer", peer) < 0)
                return options_fail("tpuctl", EXIT_USAGE, "'%.40s…' is no peer", peer);
        v = (struct view){ &o, path, json };
        return watch ? live_show(draw_net, &v) : draw_net(&v);
}
