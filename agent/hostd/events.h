/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The agent's events: stable names, each with a journal MESSAGE_ID that systemd/tpu-hostd.catalog explains,
 * and the ring of the last ones for /v1/events. An event's body is a key-value list with snake_case keys.
 */
#include <jansson.h>

#include "base.h"
#include "otlp.h"

enum event_id {
        EVENT_AGENT_STARTED,
        EVENT_AGENT_STOPPING,
        EVENT_HOST_STATE_CHANGED, /* from, to, reasons */
        EVENT_CHECK_CHANGED,      /* check, subject, from, to, found, wanted, reason, remedy */
        EVENT_JOB_STARTED,        /* job, unit, user, main_pid */
        EVENT_JOB_EXITED,         /* job, unit, cause, code, status, killed_by */
        EVENT_STACK_CAPTURED,     /* verb, node, slice, worker, job, taken, text */
        EVENT_RUN_CAPTURED, /* verb, node, slice, worker, run, generation, episode, round, hosts, slice_hosts, suspicion, taken, late,
                               capture (bytes: gzip of proto/capture.proto; not in the journal) */
        EVENT_SPOOL_DAMAGED,      /* class, damaged */
        EVENT_SPOOL_GAP,          /* spool_id, class, gap, reason, from_seq, to_seq, records, points */
        EVENT_KERNEL_FAULT,       /* fault, meaning, lines, text, level, from, seq, boot_usec */
        EVENT_API_ACTED, /* call, caller, result, and uid, pid or address: the audit record of an acting call */
        EVENT_HOST_CORDONED, /* order, reason, by, until, check, subject, ordered_by: of these and the next
                                seven */
        EVENT_HOST_UNCORDONED,
        EVENT_HOST_DRAINING,
        EVENT_HOST_DRAINED,
        EVENT_MODE_OBSERVE,
        EVENT_MODE_REPAIR,
        EVENT_CHECK_SILENCED,
        EVENT_CHECK_UNSILENCED,
        EVENT_HEALTH_LOST, /* file, reason, kept_as */
        EVENT_SLICE_CHANGED,  /* slice, generation, state, hosts, missing */
        EVENT_SLICE_CONFLICT, /* slice, worker, machine, reason */
        EVENT_RUN_CHANGED, /* run, generation, state, outcome, reason, cause, blame, waits_for, slices */
        EVENT_RUN_REFUSED, /* run, generation, reason, remedy */
        EVENT_RUN_NOTIFIED, /* run, generation, notice, result */
        EVENT_RUN_STALL_SUSPECTED, /* run, generation, slice, kind, last_step, step_msec, silent_msec, why */
        EVENT_RUN_RECOVERED,       /* run, generation, how, kind, last_step, lasted_msec */
        EVENT_RUN_KILLED_BY, /* job, pid, comm, signal, killed_by, sender (process, kernel, unknown), sender_pid, sender_uid,
                                sender_comm, sender_group, out_of_memory */
        EVENT_PREEMPTION_NOTICE,  /* notice, state, text, runs */
        EVENT_MAINTENANCE_NOTICE, /* as above */
        EVENT_MAINTENANCE_UPCOMING, /* as above; state is planned or over, and no run is told */
        EVENT_STACK_FILE, /* verb, node, slice, worker, zone, job, file, uid, kind, reason, threads, written, text */
        EVENT_NET_DROPS,     /* reason, place, packets, interval_usec, meaning, remedy */
        EVENT_NET_LINK_BAD, /* job, nic, peer, address, links, timeouts, retransmits, text */
        EVENT_NET_LINKS_GOOD, /* links */
        EVENT_RUNTIME_ERROR, /* kind, type, job, port, text */
        _EVENT_MAX,
};

struct event_def {
        const char *name;       /* stable: others alert on it */
        const char *message_id; /* 32 hex digits, stable */
        enum otlp_severity severity;
        const char *summary;
};
const struct event_def *event_def(enum event_id id);
/* LOG_DEBUG … LOG_CRIT. */
int event_priority(enum otlp_severity s);
/* "INFO", "WARN", … as in OTLP's severity_text. */
const char *event_severity_name(enum otlp_severity s);

/* Writes one event to the journal: message, and TPU_EVENT= and TPU_KEY=value for each short text or number
 * of the body. */
int event_to_journal(enum event_id id, enum otlp_severity severity, const char *message,
                     const struct otlp_attribute *body, size_t n);

/* A body as a JSON object; texts longer than EVENT_TEXT_MAX are left out (stacks are in the record, not
 * here). New reference or NULL. */
#define EVENT_TEXT_MAX 1024
json_t *event_body_to_json(const struct otlp_attribute *body, size_t n);

#define EVENT_RING 256
struct event_record {
        uint64_t seq; /* from 1, of this start of the agent */
        usec_t time_real;
        enum event_id id;
        enum otlp_severity severity;
        char *body; /* JSON object text */
};
struct event_ring {
        struct event_record records[EVENT_RING]; /* seq lives at seq % EVENT_RING */
        uint64_t next_seq;                       /* what the next event gets */
};
void event_ring_init(struct event_ring *r);
void event_ring_clear(struct event_ring *r);
/* -ENOMEM: nothing was kept. */
int event_ring_add(struct event_ring *r, enum event_id id, enum otlp_severity severity, usec_t time_real,
                   const struct otlp_attribute *body, size_t n);
/* {events: […], next: SEQ, missed: N} of what is kept with seq >= since (0: of all), oldest first; missed: how
 * many since then are kept no more. New reference or NULL. */
json_t *event_ring_to_json(const struct event_ring *r, uint64_t since);
