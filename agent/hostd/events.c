/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "clock.h"
#include "events.h"
#include "journal.h"
#include "uplink.h"
#include "utf8.h"

#define BODY_MAX 16

static const struct event_def table[] = {
        [EVENT_AGENT_STARTED] = { "tpu.agent.started", "9f8c50f364354c8bbc7c25c96276f921", OTLP_INFO,
                                  "the host agent started" },
        [EVENT_AGENT_STOPPING] = { "tpu.agent.stopping", "6595cda113484f57894c5a234f244df2", OTLP_INFO,
                                   "the host agent is stopping" },
        [EVENT_HOST_STATE_CHANGED] = { "tpu.host.state_changed", "63c8b045bfee4f76a035171986b2d3b6",
                                       OTLP_WARN, "the host's state changed" },
        [EVENT_CHECK_CHANGED] = { "tpu.check.changed", "2585a6276e994a8b9f110fb86b0cbda8", OTLP_WARN,
                                  "a check changed its settled verdict" },
        [EVENT_JOB_STARTED] = { "tpu.job.started", "c5542efc7a8f4230bad8c778b921fa56", OTLP_INFO,
                                "a training run started on this host" },
        [EVENT_JOB_EXITED] = { "tpu.job.exited", "2360c0b23df94e37ae58ba5008bd8759", OTLP_WARN,
                               "a training run on this host ended" },
        [EVENT_STACK_CAPTURED] = { "tpu.stack.captured", "107fd48d944d4c7cb306a8bb4a2e46fe", OTLP_INFO,
                                   "the stacks of a training run were captured" },
        [EVENT_RUN_CAPTURED] = { "tpu.run.captured", "06afabf25723437aabe4161def013456", OTLP_INFO,
                                 "this host's part of a capture of run" },
        [EVENT_SPOOL_DAMAGED] = { "tpu.spool.damaged", "362c0f9c7cc345e0862dcaf39f7e387d", OTLP_ERROR,
                                  "records of the spool were unreadable and are lost" },
        [EVENT_SPOOL_GAP] = { UPLINK_GAP_EVENT, "ea95a1eb6a704f5fb5e45bc42a13f5a2", OTLP_WARN,
                              "records of the spool did not reach the collector" },
        [EVENT_KERNEL_FAULT] = { "tpu.kernel.fault", "ae2644eb3edc45de9c2a0a20a3079a36", OTLP_ERROR,
                                 "the kernel log tells of a fault" },
        [EVENT_API_ACTED] = { "tpu.api.acted", "c185f3629c7647428f9912635ca01640", OTLP_INFO,
                              "someone asked the agent's API to act" },
        [EVENT_HOST_CORDONED] = { "tpu.host.cordoned", "cdb2021a3fc84beb87164a7a54ac2bec", OTLP_WARN,
                                  "the host is cordoned" },
        [EVENT_HOST_UNCORDONED] = { "tpu.host.uncordoned", "3e76061900a24a53ad384893d413a5db", OTLP_INFO,
                                    "the host is no longer cordoned or draining" },
        [EVENT_HOST_DRAINING] = { "tpu.host.draining", "25b479fcfb894c6286fcc4c43f28f602", OTLP_WARN,
                                  "the host is draining" },
        [EVENT_HOST_DRAINED] = { "tpu.host.drained", "f63af9b91bef42d8a4cb8320818ec92d", OTLP_INFO,
                                 "the host is drained, no run is left" },
        [EVENT_MODE_OBSERVE] = { "tpu.host.observing", "e4eef4024f6a45f1a76e241260deb88d", OTLP_WARN,
                                 "the agents only observe" },
        [EVENT_MODE_REPAIR] = { "tpu.host.repairing", "24a926ab8ab144348b73e15507b3ead2", OTLP_INFO,
                                "the agents act again as configured" },
        [EVENT_CHECK_SILENCED] = { "tpu.check.silenced", "5f7754925d3f47588769ce5b99d8a325", OTLP_WARN,
                                   "a check is silenced:" },
        [EVENT_CHECK_UNSILENCED] = { "tpu.check.unsilenced", "ce319c8e5f6542e1b678d5cb1dcc891d", OTLP_INFO,
                                     "a check counts again:" },
        [EVENT_HEALTH_LOST] = { "tpu.health.lost", "8fbe76fca2ad44f98c01a74d6e4a1598", OTLP_ERROR,
                                "what the agent remembered could not be read" },
        [EVENT_SLICE_CHANGED] = { "tpu.slice.changed", "4beb6ac2c4e040dcb5a32c63c49eba3a", OTLP_INFO,
                                  "the slice of this host is another one now" },
        [EVENT_SLICE_CONFLICT] = { "tpu.slice.conflict", "bc379f538ec241dc839007907b187323", OTLP_ERROR,
                                   "this host's worker id is another machine's" },
        [EVENT_RUN_CHANGED] = { "tpu.run.changed", "bdb2005b44b540ff9dc0fc4c5e0bedcc", OTLP_INFO, "a run over slices is in another state" },
        [EVENT_RUN_REFUSED] = { "tpu.run.refused", "af892abd04de4d0b857200411ede0170", OTLP_WARN, "this host refuses its part in run" },
        [EVENT_RUN_NOTIFIED] = { "tpu.run.notified", "63d64dd6ef324caf991e6882125f39df", OTLP_INFO,
                                 "a run was told that its host is about to go" },
        [EVENT_RUN_STALL_SUSPECTED] = { "tpu.run.stall_suspected", "d43e0a94360149e88d6a72954ae34088", OTLP_WARN,
                                        "a run may have stalled" },
        [EVENT_RUN_RECOVERED] = { "tpu.run.recovered", "3a936a39555a47058c8ebb9d077c3ae4", OTLP_INFO,
                                  "a run is no longer suspected to have stalled" },
        [EVENT_RUN_KILLED_BY] = { "tpu.run.killed_by", "5ae53ce1ce5e4824b0febb54cb62932b", OTLP_WARN,
                                  "a process of a run was ended by a signal" },
        [EVENT_PREEMPTION_NOTICE] = { "tpu.host.preemption_notice", "d3b8f0a41c664e0f9a5e7c21b04d9f63", OTLP_WARN,
                                      "the host is to be taken away" },
        [EVENT_MAINTENANCE_NOTICE] = { "tpu.host.maintenance_notice", "7ac9e15fd2b34386b8f01d6c54e7a29b", OTLP_WARN,
                                       "maintenance of the host is ahead" },
        [EVENT_MAINTENANCE_UPCOMING] = { "tpu.host.maintenance_upcoming", "f609f73ffac14292a6d78d55814cbb96", OTLP_WARN,
                                         "maintenance of the host is planned" },
        [EVENT_STACK_FILE] = { "tpu.stack.file", "df0d4e73d2db4dd0aeaa8340e6f8a41f", OTLP_INFO,
                               "a training program wrote its stacks into a file" },
        [EVENT_NET_DROPS] = { "tpu.net.packets_dropped", "b96168b7dc41477a93c231c1905f3285", OTLP_WARN, "this host drops packets" },
        [EVENT_NET_LINK_BAD] = { "tpu.net.link_bad", "cbcc09d37d1e451cbc28ccd4066878cd", OTLP_WARN,
                                 "a way of a run to a peer loses packets" },
        [EVENT_NET_LINKS_GOOD] = { "tpu.net.links_good", "17fbd08f103f4cdb8d658451942fd0b8", OTLP_INFO,
                                   "no way of a run loses packets any more" },
        [EVENT_RUNTIME_ERROR] = { "tpu.runtime.error", "5215a939995f40668dec5253c4c19601", OTLP_ERROR,
                                  "the TPU runtime says that its slices failed" },
};
_Static_assert(ELEMENTSOF(table) == _EVENT_MAX, "each event has its row");

const struct event_def *event_def(enum event_id id) {
        return &table[id];
}

/* LOG_DEBUG … LOG_CRIT. */
static int event_priority(enum otlp_severity s) {
        switch (s) {
        case OTLP_DEBUG:
                return LOG_DEBUG;
        case OTLP_INFO:
                return LOG_INFO;
        case OTLP_WARN:
                return LOG_WARNING;
        case OTLP_ERROR:
                return LOG_ERR;
        case OTLP_FATAL:
                return LOG_CRIT;
        }
        return LOG_NOTICE;
}

/* "INFO", "WARN", … as in OTLP's severity_text. */
static const char *event_severity_name(enum otlp_severity s) {
        switch (s) {
        case OTLP_DEBUG:
                return "DEBUG";
        case OTLP_INFO:
                return "INFO";
        case OTLP_WARN:
                return "WARN";
        case OTLP_ERROR:
                return "ERROR";
        case OTLP_FATAL:
                return "FATAL";
        }
        return "UNSPECIFIED";
}

/* "main_pid" → "TPU_MAIN_PID=123". Long texts stay out of the journal: false. */
static bool journal_field(const struct otlp_attribute *a, char *buf, size_t size) {
        size_t k;

        if (a->text && strlen(a->text) > EVENT_TEXT_MAX)
                return false;
        k = (size_t) snprintf(buf, size, "TPU_%s=", a->key);
        if (k >= size)
                return false;
        for (size_t i = 0; i < k - 1; i++)
                buf[i] = isalnum((unsigned char) buf[i]) ? (char) toupper((unsigned char) buf[i]) : '_';
        if (a->text)
                (void) snprintf(buf + k, size - k, "%s", a->text);
        else
                (void) snprintf(buf + k, size - k, "%" PRIi64, a->number);
        return true;
}

int event_to_journal(enum event_id id, enum otlp_severity severity, const char *message,
                     const struct otlp_attribute *body, size_t n) {
        char texts[BODY_MAX + 1][EVENT_TEXT_MAX + 64];
        const char *fields[BODY_MAX + 1];
        size_t k = 1;

        (void) snprintf(texts[0], sizeof(texts[0]), "TPU_EVENT=%s", table[id].name);
        fields[0] = texts[0];
        for (size_t i = 0; i < n && k < ELEMENTSOF(fields); i++)
                if (journal_field(&body[i], texts[k], sizeof(texts[k]))) {
                        fields[k] = texts[k];
                        k++;
                }
        return journal_event(event_priority(severity), table[id].message_id, message, fields, k);
}

json_t *event_body_to_json(const struct otlp_attribute *body, size_t n) {
        json_t *o = json_object();

        for (size_t i = 0; o && i < n; i++) {
                json_t *value;

                if (body[i].text && strlen(body[i].text) > EVENT_TEXT_MAX)
                        continue;
                value = body[i].text ? json_string(body[i].text) : json_integer(body[i].number);
                if (!value || json_object_set_new(o, body[i].key, value) < 0) {
                        json_decref(o);
                        return NULL;
                }
        }
        return o;
}

void event_ring_init(struct event_ring *r) {
        *r = (struct event_ring) { .next_seq = 1 };
}

void event_ring_clear(struct event_ring *r) {
        for (size_t i = 0; i < EVENT_RING; i++)
                free(r->records[i].body);
        event_ring_init(r);
}

int event_ring_add(struct event_ring *r, enum event_id id, enum otlp_severity severity, usec_t time_real,
                   const struct otlp_attribute *body, size_t n) {
        struct event_record *slot = &r->records[r->next_seq % EVENT_RING];
        json_t *o = event_body_to_json(body, n);
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        if (!text)
                return -ENOMEM;
        free(slot->body);
        *slot = (struct event_record) {
                .seq = r->next_seq++,
                .time_real = time_real,
                .id = id,
                .severity = severity,
                .body = text,
        };
        return 0;
}

static json_t *record_to_json(const struct event_record *e) {
        char time[CLOCK_TEXT_MAX];

        return json_pack("{s:I, s:s, s:s, s:s, s:o}", "seq", (json_int_t) e->seq, "time",
                         clock_text(e->time_real, time), "name", table[e->id].name, "severity",
                         event_severity_name(e->severity), "body", json_loads(e->body, 0, NULL));
}

json_t *event_ring_to_json(const struct event_ring *r, uint64_t since) {
        uint64_t oldest = r->next_seq > EVENT_RING ? r->next_seq - EVENT_RING : 1;
        json_t *list = json_array();

        for (uint64_t seq = MAX(since, oldest); list && seq < r->next_seq; seq++)
                if (json_array_append_new(list, record_to_json(&r->records[seq % EVENT_RING])) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list ? json_pack("{s:o, s:I, s:I}", "events", list, "next", (json_int_t) r->next_seq, "missed",
                                (json_int_t) (since > 0 && since < oldest ? oldest - since : 0))
                    : NULL;
}
