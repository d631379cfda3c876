/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pushes are stored. The known numbers of one spool, class and sender are runs [first, last] that
 * neither overlap nor touch.
 */
#include "statement.h"

struct range {
        int64_t first, last;
};

/* "BOOT HOST" */
#define SENDER_MAX 544
static const char *sender_text(const struct store_record *r, char buf[static SENDER_MAX]) {
        (void) snprintf(buf, SENDER_MAX, "%.256s %.256s", r->boot, r->host);
        for (char *p = buf; p < buf + MIN(strlen(r->boot), (size_t) 256); p++)
                if (*p == ' ') /* the first blank ends the boot */
                        *p = '_';
        return buf;
}

static int put_range(struct store *s, const struct store_record *r, const struct range *run, usec_t now) {
        char sender[SENDER_MAX];

        return store_run(s, ST_RANGE_ADD,
                         BIND(TEXT(r->spool), TEXT(r->class), TEXT(sender_text(r, sender)), INT(run->first),
                              INT(run->last), TIME(now), TEXT(r->machine)));
}

static int drop_range(struct store *s, const struct store_record *r, int64_t first) {
        char sender[SENDER_MAX];

        return store_run(s, ST_RANGE_DELETE,
                         BIND(TEXT(r->spool), TEXT(r->class), TEXT(sender_text(r, sender)), INT(first)));
}

static int ask_range(struct store *s, enum statement st, const struct store_record *r, int64_t n,
                     struct range *ret) {
        char sender[SENDER_MAX];

        return store_ask(s, st, BIND(TEXT(r->spool), TEXT(r->class), TEXT(sender_text(r, sender)), INT(n)),
                         &ret->first, &ret->last);
}

/*
 * Keeps the number of runs of this spool, class and sender, which is n, bounded, and those of the host:
 * what is forgotten is stored again when it comes again. Never is a number known that did not come.
 */
static int forget_runs(struct store *s, const struct store_record *r, int64_t n) {
        struct range low, of_host;
        int q;

        if (n > STORE_RANGES_MAX) {
                q = ask_range(s, ST_RANGE_LOWEST, r, 0, &low);
                return q <= 0 ? q : drop_range(s, r, low.first);
        }
        if (n > 1) /* a new spool, class or boot is looked at, which a host rarely has */
                return 0;
        q = store_ask(s, ST_RANGES_OF_HOST, BIND(TEXT(r->host)), &of_host.first, NULL);
        if (q <= 0 || of_host.first <= STORE_RANGES_OF_HOST)
                return q;
        return store_run(s, ST_RANGES_FORGET,
                         BIND(TEXT(r->host), INT(of_host.first - STORE_RANGES_OF_HOST)));
}

/* A run that is new, and so what others are compared with. */
static int new_range(struct store *s, const struct store_record *r) {
        struct range count;
        int q = ask_range(s, ST_RANGE_COUNT, r, 0, &count);

        if (q > 0)
                q = forget_runs(s, r, count.first);
        return q < 0 ? q : count.first == 1 ? STORE_FIRST_RECORD : STORE_NEW_RUN;
}

int store_take_record(struct store *s, const struct store_record *r, usec_t now) {
        int64_t seq = (int64_t) r->seq;
        struct range run = { seq, seq }, below, above;
        bool grows = false;
        int q = ask_range(s, ST_RANGE_BELOW, r, seq, &below);

        if (q < 0)
                return q;
        if (q > 0 && below.last >= seq)
                return 0;
        if (q > 0 && below.last == seq - 1) {
                run.first = below.first;
                grows = true;
        }
        if (seq < INT64_MAX) {
                q = ask_range(s, ST_RANGE_ABOVE, r, seq + 1, &above);
                if (q > 0) {
                        run.last = above.last;
                        grows = true;
                        q = drop_range(s, r, above.first);
                }
                if (q < 0)
                        return q;
        }
        q = put_range(s, r, &run, now);
        if (q < 0)
                return q;
        return grows ? STORE_KNOWN_RUN : new_range(s, r);
}

/* --- Other senders of the same spool ------------------------------------------------------------------ */

/* How one other sender has used the spool; back: it has sent this number, too. */
struct other {
        const char *boot, *host, *machine;
        size_t boot_len;
        bool back;
};

static enum store_clash compare_senders(const struct store_record *r, const struct other *o, bool first) {
        bool same_boot = o->boot_len > 0 && strlen(r->boot) == o->boot_len &&
                         memcmp(r->boot, o->boot, o->boot_len) == 0;

        if (same_boot) /* it has another name since */
                return STORE_NO_CLASH;
        if (streq(r->host, o->host))
                return o->back ? STORE_WENT_BACK : STORE_NO_CLASH;
        if (o->back || (first && !(*r->machine && streq(r->machine, o->machine))))
                return STORE_SHARED;
        return STORE_NO_CLASH;
}

int store_record_clash(struct store *s, const struct store_record *r, bool first, enum store_clash *ret,
                       char ret_host[static STORE_HOST_MAX]) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        enum store_clash clash = STORE_NO_CLASH;
        char sender[SENDER_MAX];
        int k = store_query(s, ST_RANGE_OTHERS,
                            BIND(TEXT(r->spool), TEXT(r->class), TEXT(sender_text(r, sender)),
                                 INT((int64_t) r->seq)),
                            &q);

        while (k >= 0 && (k = store_row(q)) > 0) {
                const char *text = column_text(q, 0), *space = strchr(text, ' ');
                const struct other o = { .boot = text,
                                         .boot_len = space ? (size_t) (space - text) : 0,
                                         .host = space ? space + 1 : text,
                                         .machine = column_text(q, 1),
                                         .back = column_int(q, 2) > 0 };
                enum store_clash now = compare_senders(r, &o, first);

                if (now > clash) {
                        clash = now;
                        (void) snprintf(ret_host, STORE_HOST_MAX, "%s", o.host);
                }
                if (streq(o.host, r->host) && clash == STORE_SHARED)
                        clash = STORE_NO_CLASH; /* it is no news of this host */
                first = first && !streq(o.host, r->host);
        }
        *ret = clash;
        return k < 0 ? k : 0;
}
