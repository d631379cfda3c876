/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the parts of tpu-hostd share: who this host is and what is wanted of it, what is known of its checks,
 * samples, events, orders and runs, and the functions by which a part says something. What else a part has
 * for others is a getter in its own header. Each member names who writes it; all others read. Valid from
 * bus_init() to bus_clear(), which enclose the life of all parts.
 */
#include <jansson.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base.h"
#include "checks.h"
#include "event_ring.h"
#include "events.h"
#include "exchange.h"
#include "host.h"
#include "host_runs.h"
#include "identity.h"
#include "intent.h"
#include "machine.h"
#include "metadata.h"
#include "orders.h"
#include "probe.h"
#include "samples.h"
#include "settings.h"
#include "suspicion.h"
#include "telemetry.h"

struct part;

struct bus {
        sd_event *event; /* borrowed, as are the next two */
        const struct host *host;
        const char *config_file; /* NULL: the usual ones */
        struct settings settings; /* agent.c, at a reload */

        /* The part "identity". */
        struct identity identity;
        struct intent intent;
        struct machine_type machine; /* read once, and at a reload */
        struct probe_context context;
        char name[HOST_NAME_SIZE], boot_id[BOOT_ID_MAX], machine_id[40];
        char instance_id[24]; /* as it is known, or was when this host was asked last; empty: never */
        struct exchange_bearer bearer; /* the instance token, where the site wants one */
        int spool_closed; /* errno: the spool is another machine's, and could not be set aside */
        bool undecided; /* what lies on the disk may be another machine's: nothing of it is sent */
        /* real clock; boot_real: when this boot began, what counters count from */
        usec_t started_real, boot_real;

        const struct host_runs *runs; /* the part "runs": what tpu-launchd reports; never NULL */
        /* likewise: its last question, from 1; a list whose question is greater was asked for later */
        uint64_t runs_asked;
        struct orders orders;         /* the part "orders" */

        /* This file's own. */
        struct check_table checks;
        enum host_state state; /* as it was reported last */
        bool watching;         /* agent.c: the parts have started; before that, the state is no news */
        bool orders_changed;   /* the part "orders": since the state was reported */
        bool status_stale;     /* likewise, and agent.c: systemctl status shows what is no longer so */
        struct sample_store samples;
        struct event_ring ring;
        struct telemetry telemetry; /* its uplink: the part "uplink", from its start() to its stop() */
        uint64_t table_full;
        unsigned round;   /* agent.c: of samples and findings that are taken in the tick */
        unsigned sources; /* that were given away */

        const struct part *const *parts; /* agent.c: n_parts, in the order of their dependencies */
        void **states;                   /* likewise */
        size_t n_parts;
};

/* Probes are sources 0 to SOURCE_PROBES_MAX - 1 (checks.h, samples.h); part number i is SOURCE_PROBES_MAX +
 * i. */
#define SOURCE_PROBES_MAX 32u

/* -ENOMEM. */
int bus_init(struct bus *b);
void bus_clear(struct bus *b);

/* n numbers for findings and samples that a part gives outside of sample(), in rounds of its own. Returns
 * the first. */
unsigned bus_sources(struct bus *b, unsigned n);

/* --- Events -------------------------------------------------------------------------------------------- */

/* To the journal, the ring and the uplink: between start() and stop() of the part "uplink". ret_seq (may be
 * NULL): the record's. Returns what the uplink said. */
int bus_emit(struct bus *b, const struct event *e, uint64_t *ret_seq);
/* To the journal and the ring alone: what another program reports to the fleet. */
void bus_note(struct bus *b, const struct event *e);
/* All records are described by the identity as it is now. -ENOMEM. */
int bus_describe(struct bus *b);

/* --- Findings, and the state of the host that follows from them ---------------------------------------- */

void bus_take_finding(struct bus *b, unsigned source, unsigned round, const struct finding *f);
/* The round is over: checks and series that the source did not give in it are forgotten. */
void bus_end_round(struct bus *b, unsigned source, unsigned round);
/* The same for its checks alone, and for its series alone. */
void bus_settle(struct bus *b, unsigned source, unsigned round);
void bus_end_samples(struct bus *b, unsigned source, unsigned round);
/* Reports the host's state and the orders, to systemd and as an event, where they changed. */
void bus_report_state(struct bus *b);
/* Which checks are silenced: bus->orders has changed. */
void bus_mark_silenced(struct bus *b);
/* Whether the agents of this host change nothing: by configuration, or by order. */
bool bus_observes(const struct bus *b);

/* There is no list any more: the part "runs" ends. */
void bus_forget_runs(struct bus *b);

/* --- Samples ------------------------------------------------------------------------------------------- */

/* start_real: since when a counter counts. */
void bus_take_sample(struct bus *b, unsigned source, unsigned round, const struct sample *m,
                     usec_t start_real);

/* Where a part puts what it found in this round. */
struct bus_sink {
        struct sink sink; /* the first member */
        struct bus *bus;
        unsigned source, round;
        usec_t start_real; /* since when counters count: the start of tpu-hostd, unless the part sets it */
};
struct bus_sink bus_sink(struct bus *b, unsigned source, unsigned round);
/* What was sampled goes to the uplink. */
void bus_push(struct bus *b);

/* --- What parts tell each other ------------------------------------------------------------------------ */

enum bus_topic {
        BUS_EVENT,       /* an event is in the ring */
        BUS_DURABLE,     /* durable: records of a class of the uplink */
        BUS_CHECKS,      /* a check settled at another verdict */
        BUS_MEMBER,      /* something that a member report holds has changed: state, orders, notices, runs */
        BUS_IDENTITY,    /* identity and wanted values were read again */
        BUS_DECIDED,     /* bus->undecided is false from now on */
        BUS_TOKEN,       /* bus->bearer is there for the first time, or will not be soon */
        BUS_NOTICE,      /* notice: of the metadata server */
        BUS_RUNS,        /* bus->runs is another list */
        BUS_ASK_RUNS,    /* bus->runs is asked for again, unless a question is open: BUS_RUNS follows */
        BUS_RUN_STARTED, /* run */
        BUS_RUN_ENDED,   /* run */
        BUS_LINE,        /* line: of a run */
        BUS_SUSPICION,   /* suspicion: it began, counts now, or ended */
        BUS_REGISTRY,    /* registry: its state changed, or it may be another one */
        BUS_RECORD,      /* record: of the registry, about this host's slice */
};

struct run_log_line;
struct bus_news {
        enum bus_topic topic;
        union { /* borrowed, as is all they point to */
                struct {
                        enum uplink_class class;
                        uint64_t seq; /* all up to it */
                } durable;
                struct {
                        enum metadata_notice kind;
                        bool ahead;       /* false: it is over */
                        const char *text; /* the server's word */
                } notice;
                const struct host_run *run;
                const struct run_log_line *line;
                struct {
                        const char *run;
                        uint64_t generation;
                        const struct suspicion *now; /* NULL: it ended */
                } suspicion;
                struct {
                        bool other; /* another registry altogether */
                } registry;
                struct {
                        const char *key;
                        const json_t *value; /* NULL: it is gone */
                        bool fresh;          /* it came while the registry was there */
                } record;
        };
};
/* To every part that hears, in the order of the table. */
void bus_publish(struct bus *b, const struct bus_news *n);
/* A topic that has nothing with it. */
void bus_tell(struct bus *b, enum bus_topic topic);

/* --- Of this machine ----------------------------------------------------------------------------------- */

/* What is configured, else this machine's own; with another root nothing of the machine is that host's:
 * NULL. */
const char *bus_own(const struct bus *b, const char *configured, const char *own);
/* NULL: nobody answers there. */
const char *bus_launchd_socket(const struct bus *b);
