/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The room has one entry: OTLP requests (protobuf) into rows, one at a time, through a visitor. Pure and
 * bounded: whatever the bytes are, the work is linear in their number and memory stays below
 * INGEST_MEMORY_MAX plus the largest row. A request is malformed or not as a whole, but rows in front of the
 * bad place have been visited by then: the caller puts all of a request into one transaction.
 */
#include <jansson.h>

#include "base.h"

#define INGEST_DEPTH_MAX 32 /* messages inside one metric or log record: about ten maps in one another */
#define INGEST_ROWS_MAX 100000  /* points or events of one request; more is -E2BIG */
#define INGEST_NAME_MAX 256 /* bytes with NUL of every name, unit and identity text; longer ones are cut */
#define INGEST_ATTRIBUTES_MAX 4096 /* bytes of a point's attributes as JSON; with more it is rejected */
/* Bytes of an event's body, and of its attributes, as JSON; more: rejected. */
#define INGEST_EVENT_MAX (4 * 1024 * 1024)
#define INGEST_WHY_MAX 192

/* Who sends: the resource. Texts are never NULL; empty means not given. */
struct ingest_resource {
        char host[INGEST_NAME_MAX]; /* host.name */
        char instance[INGEST_NAME_MAX]; /* service.instance.id */
        char machine[INGEST_NAME_MAX]; /* host.id */
        char service[INGEST_NAME_MAX], version[INGEST_NAME_MAX], boot_id[INGEST_NAME_MAX];
        char slice[INGEST_NAME_MAX], accelerator_type[INGEST_NAME_MAX];
        int64_t worker_id; /* -1: not given */
};

/* The latest value of one series. A histogram comes as two: NAME.count and NAME.sum. */
struct ingest_point {
        const char *name, *unit;
        const char *attributes; /* a JSON object, keys sorted: the same attributes are the same text */
        const json_t *labels;   /* the same, parsed; borrowed */
        const void *key; /* bytes that name service, metric and attributes; the same attributes in another
                            order have another key. Where they are many there is none, and key_len is 0 */
        size_t key_len;
        bool is_int;
        int64_t i;
        double d;    /* also set when is_int; may be NaN or infinite */
        usec_t time; /* real clock; 0: not given */
};

struct ingest_event {
        const char *name;       /* event_name, else the attribute event.name, else "" */
        unsigned severity;      /* OTLP number, 1…24; 0: not given */
        usec_t time;            /* real clock; when not given, when it was observed; 0: neither */
        const char *body;       /* JSON */
        const json_t *content;  /* the same, parsed; borrowed */
        const char *attributes; /* a JSON object */
};

/*
 * resource comes before its rows, done behind them; *r stays valid until done. All return 0, or -errno,
 * which ends the walk and is returned. A row that the visitor cannot take (a limit) is -EDQUOT: it is
 * counted as rejected and the walk goes on.
 */
struct ingest_visitor {
        int (*resource)(const struct ingest_resource *r, void *userdata);
        int (*point)(const struct ingest_point *p, void *userdata);
        /* True: the point may come without attributes and labels (NULL), which cost most. NULL: never. */
        bool (*known)(const struct ingest_point *p, void *userdata);
        int (*event)(const struct ingest_event *e, void *userdata);
        int (*done)(void *userdata);
        void *userdata;
};

struct ingest_result {
        uint64_t rows;            /* taken */
        uint64_t lines;           /* of them, lines that runs printed; the visitor's owner counts them */
        uint64_t rejected;        /* kinds of points that are not supported, oversized rows, -EDQUOT */
        char why[INGEST_WHY_MAX]; /* on failure, or of the last rejected row: for people, with the byte or
                                     the name */
};

#define INGEST_MEMORY_MAX (64 * 1024 * 1024)
#define INGEST_GROUPS_MAX 10000 /* resources of one request; more is -E2BIG */
enum ingest_kind { INGEST_METRICS, INGEST_LOGS };

/* 0, -EBADMSG (malformed), -ELOOP (nested too deep), -E2BIG (too many rows or resources, or too much
 * memory), -ENOMEM, or the visitor's own. */
int ingest_request(enum ingest_kind kind, const void *data, size_t len, const struct ingest_visitor *v,
                   struct ingest_result *ret);
