/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <time.h>

#include "screen.h"
#include "table.h"

const char *field_text(const json_t *o, const char *key, char buf[static FIELD_TEXT_MAX]) {
        const json_t *v = json_object_get(o, key);

        if (json_is_string(v))
                return json_string_value(v);
        if (json_is_integer(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        else if (json_is_real(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%g", json_real_value(v));
        else if (json_is_boolean(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%s", json_is_true(v) ? "true" : "false");
        else
                return "";
        return buf;
}

double field_left(const json_t *o, const char *key, usec_t now) {
        const char *text = json_string_value(json_object_get(o, key));
        struct tm tm = { 0 };
        const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

        if (!end || (*end != 'Z' && *end != '.'))
                return NAN;
        return (double) timegm(&tm) - (double) (now / USEC_PER_SEC);
}

double field_age(const json_t *o, const char *key, usec_t now) {
        double left = field_left(o, key, now);

        /* A host's clock may be ahead of ours: that is no negative age. */
        return isnan(left) ? left : MAX(-left, 0.0);
}

/* How a job ended: "success", "stopped TERM", "exit-code 3", "signal KILL", "unknown". */
static const char *exit_text(const json_t *job, char *buf, size_t size) {
        char n[FIELD_TEXT_MAX], m[FIELD_TEXT_MAX], k[FIELD_TEXT_MAX];
        const char *cause = field_text(job, "cause", n), *status = field_text(job, "status", m),
                   *state = field_text(job, "state", k);

        if (!streq(state, "exited") && !streq(state, "waiting"))
                return "";
        if (streq(cause, "unknown"))
                return "unknown: no record of its end";
        (void) snprintf(buf, size, "%s%s%s", cause, streq(cause, "success") || !status[0] ? "" : " ",
                        streq(cause, "success") ? "" : status);
        return buf;
}

static int add_job(struct table *t, const json_t *job, usec_t now) {
        char step[FIELD_TEXT_MAX], seconds[FIELD_TEXT_MAX + 4], number[FIELD_TEXT_MAX], age[SPAN_TEXT_MAX],
                end[256], n[4][FIELD_TEXT_MAX], share[16] = "";
        bool exited = streq(field_text(job, "state", number), "exited");
        const char *per_step = field_text(job, "step_seconds", number);
        const json_t *goodput = json_object_get(job, "goodput");

        (void) snprintf(seconds, sizeof(seconds), "%s%s", per_step, per_step[0] ? " s" : "");
        if (json_is_number(goodput))
                (void) snprintf(share, sizeof(share), "%.0f %%", json_number_value(goodput) * 100);
        return table_add(t, (const char *const[]) {
                                    field_text(job, "name", n[0]),
                                    field_text(job, "state", n[1]),
                                    field_text(job, "user", n[2]),
                                    field_text(job, "framework", n[3]),
                                    span_text(field_age(job, exited ? "ended" : "started", now), age),
                                    field_text(job, "step", step),
                                    seconds,
                                    share,
                                    exit_text(job, end, sizeof(end)),
                                    json_string_value(json_object_get(job, "command")),
                            });
}

static bool has_text(const json_t *o, const char *key) {
        const char *text = json_string_value(json_object_get(o, key));

        return text && text[0];
}

/* What a table has no room for: "job1: generation 3; started again 1 of 5 times; CUDA …", then what to do.
 */
static void print_story(const json_t *job, FILE *out) {
        json_int_t generation = json_integer_value(json_object_get(job, "generation")),
                   restarts = json_integer_value(json_object_get(job, "restarts")),
                   most = json_integer_value(json_object_get(job, "restarts_max"));
        bool suspected = has_text(job, "suspicion"), why = has_text(job, "why"),
             remedy = has_text(job, "remedy");
        const char *between = " ";

        if (generation <= 0 && restarts <= 0 && !why && !remedy && !suspected)
                return;
        print_clean(out, json_string_value(json_object_get(job, "name")), true);
        fputc(':', out);
        if (generation > 0) {
                fprintf(out, " generation %lld", (long long) generation);
                between = "; ";
        }
        if (restarts > 0) {
                fprintf(out, "%sstarted again %lld of %lld times", between, (long long) restarts,
                        (long long) most);
                between = "; ";
        }
        if (suspected) {
                fprintf(out, "%smay have stalled: ", between);
                print_clean(out, json_string_value(json_object_get(job, "suspicion")), true);
                between = "; ";
        }
        if (why) {
                fputs(between, out);
                print_clean(out, json_string_value(json_object_get(job, "why")), true);
        }
        if (remedy) {
                fputs("\n  to do: ", out);
                print_clean(out, json_string_value(json_object_get(job, "remedy")), true);
        }
        fputc('\n', out);
}

int screen_jobs(const json_t *answer, usec_t now, FILE *out) {
        const json_t *jobs = json_object_get(answer, "jobs"), *job;
        _cleanup_table_ struct table t = TABLE_NULL(10);
        size_t i;
        int r;

        if (!json_is_array(jobs))
                return -EPROTO;
        if (json_array_size(jobs) == 0) {
                fputs("no runs on this host\n", out);
                return 0;
        }
        r = table_add(&t, (const char *const[]) { "NAME", "STATE", "USER", "FRAMEWORK", "SINCE", "STEP",
                                                 "PER STEP", "GOOD", "END", "COMMAND" });
        json_array_foreach(jobs, i, job)
                if (r == 0)
                        r = add_job(&t, job, now);
        if (r == 0)
                r = table_print(&t, out);
        json_array_foreach(jobs, i, job)
                if (r == 0)
                        print_story(job, out);
        return r;
}

struct sums {
        size_t hosts, silent, n[4];
};
static const char *const states[4] = { "ready", "degraded", "unfit", "unknown" };

static const char *span_of(const json_t *o, const char *key, char buf[static SPAN_TEXT_MAX]) {
        const json_t *seconds = json_object_get(o, key);

        return span_text(json_is_number(seconds) ? json_number_value(seconds) : NAN, buf);
}

/* What is said of a host, each part that is not empty behind the one before. */
static void reason_of(const json_t *host, bool silent, const char *age, char *buf, size_t size) {
        char n[5][FIELD_TEXT_MAX];
        const char *registry = field_text(host, "registry", n[0]),
                   *reasons = field_text(host, "reasons", n[1]), *orders = field_text(host, "orders", n[2]),
                   *state = field_text(host, "state", n[3]);

        if (streq(registry, "missing"))
                (void) snprintf(buf, size, "%s", field_text(host, "missing", n[4]));
        else if (silent)
                (void) snprintf(buf, size, "nothing heard for %s; was %s then%s%s", age,
                                state[0] ? state : "unknown", reasons[0] ? ": " : "", reasons);
        else
                (void) snprintf(buf, size, "%s%s%s%s%s", streq(registry, "none") ? "in no registry" : "",
                                streq(registry, "none") && (orders[0] || reasons[0]) ? "; " : "", orders,
                                orders[0] && reasons[0] ? "; " : "", reasons);
}

static int add_host(struct table *t, const json_t *host, struct sums *sums) {
        char n[5][FIELD_TEXT_MAX], age[SPAN_TEXT_MAX], lag[SPAN_TEXT_MAX], reason[1024];
        const json_t *seconds = json_object_get(host, "age_seconds");
        const char *state = field_text(host, "state", n[0]);
        bool missing = streq(field_text(host, "registry", n[1]), "missing"),
             silent = json_is_number(seconds) && json_number_value(seconds) > HOST_SILENT_SECONDS;
        size_t k = 0;

        (void) span_of(host, "age_seconds", age);
        reason_of(host, silent, age, reason, sizeof(reason));
        while (k < 3 && !streq(states[k], state))
                k++;
        sums->hosts++;
        *(silent || missing ? &sums->silent : &sums->n[k]) += 1;
        return table_add(t, (const char *const[]){ field_text(host, "slice", n[2]),
                                                   field_text(host, "worker_id", n[3]),
                                                   field_text(host, "name", n[4]),
                                                   missing ? "MISSING" : silent ? "SILENT" : state,
                                                   json_string_value(json_object_get(host, "job")),
                                                   field_text(host, "step", n[1]), age,
                                                   span_of(host, "lag_seconds", lag), reason });
}

static void print_sums(const struct sums *s, FILE *out) {
        const char *between = "";

        fprintf(out, "%zu host%s:", s->hosts, s->hosts == 1 ? "" : "s");
        if (s->silent > 0) {
                fprintf(out, " %zu silent", s->silent);
                between = ",";
        }
        for (size_t k = 0; k < ELEMENTSOF(states); k++)
                if (s->n[k] > 0) {
                        fprintf(out, "%s %zu %s", between, s->n[k], states[k]);
                        between = ",";
                }
        fputc('\n', out);
}

int screen_fleet(const json_t *answer, FILE *out) {
        const json_t *hosts = json_object_get(answer, "hosts"), *host;
        _cleanup_table_ struct table t = TABLE_NULL(9);
        struct sums sums = { 0 };
        size_t i;
        int r;

        if (!json_is_array(hosts))
                return -EPROTO;
        if (json_array_size(hosts) == 0) {
                fputs("no host has reported to this collector yet (on a host: tpuctl status shows its "
                      "registry and its uplink)\n",
                      out);
                return 0;
        }
        r = table_add(&t, (const char *const[]) { "SLICE", "WORKER", "HOST", "STATE", "JOB", "STEP", "AGE",
                                                 "LAG", "REASON" });
        json_array_foreach(hosts, i, host)
                if (r == 0)
                        r = add_host(&t, host, &sums);
        if (r == 0)
                r = table_print(&t, out);
        if (r == 0)
                print_sums(&sums, out);
        return r;
}

/* "key=value …" of an event's body, in order; texts of several lines (stacks) by their size only. */
static char *body_text(const json_t *body) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        const char *key, *blank = "";
        json_t *v;

        if (!f)
                return NULL;
        /* jansson's iteration wants it writable, and does not write. */
        json_object_foreach((json_t *) (uintptr_t) body, key, v) {
                char n[FIELD_TEXT_MAX];
                const char *s = field_text(body, key, n);

                if (!s[0])
                        continue;
                if (strchr(s, '\n'))
                        fprintf(f, "%s%s=(%zu bytes of text, see --json)", blank, key, strlen(s));
                else
                        fprintf(f, "%s%s=%s", blank, key, s);
                blank = "  ";
        }
        if (json_is_string(body))
                fputs(json_string_value(body), f);
        if (fclose(f) == EOF) {
                free(text);
                return NULL;
        }
        return text;
}

static const char *event_time(const json_t *e, char time[static FIELD_TEXT_MAX]) {
        char n[FIELD_TEXT_MAX];
        size_t len;

        (void) snprintf(time, FIELD_TEXT_MAX, "%s", field_text(e, "time", n));
        len = strlen(time);
        if (len == 24 && time[19] == '.') /* milliseconds are noise here */
                memcpy(time + 19, "Z", 2);
        return time;
}

int screen_event_line(const json_t *e, FILE *out) {
        char n[3][FIELD_TEXT_MAX], time[FIELD_TEXT_MAX];
        _cleanup_free_ char *body = body_text(json_object_get(e, "body"));
        const char *const fields[] = { event_time(e, time), field_text(e, "severity", n[0]),
                                       field_text(e, "host", n[1]), field_text(e, "name", n[2]), body };

        if (!body)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                fputs(i > 0 ? "  " : "", out);
                print_clean(out, fields[i][0] ? fields[i] : "-", false);
        }
        fputc('\n', out);
        return ferror(out) ? -EPIPE : 0;
}

static int add_event(struct table *t, const json_t *e) {
        char n[4][FIELD_TEXT_MAX], time[FIELD_TEXT_MAX];
        _cleanup_free_ char *body = body_text(json_object_get(e, "body"));

        if (!body)
                return -ENOMEM;
        (void) event_time(e, time);
        return table_add(t, (const char *const[]) { time, field_text(e, "severity", n[1]),
                                                   field_text(e, "host", n[2]), field_text(e, "name", n[3]),
                                                   body });
}

int screen_events(const json_t *events, FILE *out) {
        _cleanup_table_ struct table t = TABLE_NULL(5);
        const json_t *e;
        size_t i;
        int r;

        if (!json_is_array(events))
                return -EPROTO;
        if (json_array_size(events) == 0) {
                fputs("no events\n", out);
                return 0;
        }
        r = table_add(&t, (const char *const[]) { "TIME", "SEVERITY", "HOST", "EVENT", "BODY" });
        json_array_foreach(events, i, e)
                if (r == 0)
                        r = add_event(&t, e);
        return r < 0 ? r : table_print(&t, out);
}
