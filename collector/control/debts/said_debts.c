/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts said of each other by addresses becomes a graph, and the verdict of that a sentence. */
#include "said_debts.h"

#include <arpa/inet.h>
#include <assert.h>

#include "grow.h"
#include "json_text.h"
#include "texts.h"

/* Below 0: the speaker stands before the host in their order. */
static int compare_speaker(const struct speaker *s, const struct first_word_source *who) {
        return strcmp(s->slice, who->slice ? who->slice : "") ?: strcmp(s->host, who->host);
}

bool speaker_is(const struct speaker *s, const struct first_word_source *who) {
        return compare_speaker(s, who) == 0;
}

/* Where a host is in their order, or would be. */
size_t speaker_place(const struct run_said *r, const struct first_word_source *who) {
        return SORTED_PLACE(r->n, i, compare_speaker(r->speakers[i], who) < 0);
}

/* The host's; NULL: none. */
static const struct speaker *speaker_find(const struct run_said *r, const struct first_word_source *who) {
        size_t at = speaker_place(r, who);

        return at < r->n && speaker_is(r->speakers[at], who) ? r->speakers[at] : NULL;
}

int peer_address_parse(const char *text, struct peer_address *ret) {
        struct peer_address a = { .family = AF_INET };

        if (inet_pton(AF_INET, text, a.bytes) != 1) {
                a.family = AF_INET6;
                if (inet_pton(AF_INET6, text, a.bytes) != 1)
                        return -EBADMSG;
        }
        *ret = a;
        return 0;
}

bool said_is_of_stall(const struct run_said *r, usec_t since) {
        usec_t apart = MAX(FIRST_WORD_APART, FIRST_WORD_STEPS * r->step);

        return r->since > 0 && since + apart > r->since && since < r->since + apart;
}

bool speaker_counts(const struct run_said *r, const struct speaker *s) {
        return s->at > 0 && said_is_of_stall(r, s->since);
}

#define WHO_MAX 168u
#define SEEN_MAX 200u
#define SENTENCE_MAX 600u
#define ADDRESSES_MAX 8u /* of a host, as agents say them (member_records.c) */

/* --- The scene that is judged ---------------------------------------------------------------------- */

struct owner {
        struct peer_address address;
        uint32_t host; /* DEBTS_OUTSIDE: two say that it is theirs */
};

struct node {
        const char *host, *slice;
        int64_t worker;
};

struct view {
        struct node *nodes;
        struct debts_host *hosts;
        size_t n, size;
        struct debt *debts; /* of all hosts */
        struct owner *owners;
        size_t n_owners;
};

static void clear_view(struct view *v) {
        free(v->nodes);
        free(v->hosts);
        free(v->debts);
        free(v->owners);
}

static int compare_owners(const void *a, const void *b) {
        const struct owner *x = a, *y = b;

        return memcmp(&x->address, &y->address, sizeof(x->address)) ?: COMPARE(x->host, y->host);
}

/* An address of several is nobody's. */
static void sort_owners(struct view *v) {
        size_t n = 0;

        qsort(v->owners, v->n_owners, sizeof(*v->owners), compare_owners);
        for (size_t i = 0; i < v->n_owners; i++) {
                struct owner *last = n > 0 ? &v->owners[n - 1] : NULL;

                if (!last || memcmp(&last->address, &v->owners[i].address, sizeof(last->address)) != 0)
                        v->owners[n++] = v->owners[i];
                else if (last->host != v->owners[i].host)
                        last->host = DEBTS_OUTSIDE;
        }
        v->n_owners = n;
}

static uint32_t owner_of(const struct view *v, const struct peer_address *a) {
        size_t at = SORTED_PLACE(v->n_owners, i, memcmp(&v->owners[i].address, a, sizeof(*a)) < 0);

        return at < v->n_owners && memcmp(&v->owners[at].address, a, sizeof(*a)) == 0 ? v->owners[at].host
                                                                                    : DEBTS_OUTSIDE;
}

static uint32_t add_node(struct view *v, const char *host, const char *slice, int64_t worker, bool said) {
        assert(v->n < v->size);
        v->nodes[v->n] = (struct node){ .host = host, .slice = slice, .worker = worker };
        v->hosts[v->n].said = said;
        return (uint32_t) v->n++;
}

static void add_owner(struct view *v, const struct peer_address *a, uint32_t host) {
        v->owners[v->n_owners++] = (struct owner){ .address = *a, .host = host };
}

/* Whichever of its addresses the others' connections lead to. */
static void add_addresses(struct view *v, const json_t *list, uint32_t host) {
        const json_t *text;
        size_t i;

        json_array_foreach (list, i, text) {
                const char *s = json_string_value(text);
                struct peer_address a;

                if (i < ADDRESSES_MAX && s && peer_address_parse(s, &a) >= 0)
                        add_owner(v, &a, host);
        }
}

/* Those that have said nothing of this stall are known by the record of the run. */
static void add_silent(struct view *v, const struct run_said *r, const json_t *slices) {
        const json_t *slice, *host;
        size_t i, k;

        json_array_foreach (slices, i, slice)
                json_array_foreach (json_object_get(slice, "hosts"), k, host) {
                        const struct first_word_source who = { .host = json_text_of(host, "host"),
                                                               .slice = json_text_of(slice, "slice") };
                        const struct speaker *s = speaker_find(r, &who);

                        if (v->n == v->size || (s && speaker_counts(r, s)))
                                continue;
                        add_addresses(v, json_object_get(host, "address"),
                                      add_node(v, who.host, who.slice,
                                               json_integer_value(json_object_get(host, "worker")), false));
                }
}

static int make_view(struct view *v, const struct run_said *r, const json_t *slices) {
        size_t total = 0, listed = json_sizes_sum(slices, "hosts");

        for (size_t i = 0; i < r->n; i++)
                total += r->speakers[i]->n;
        *v = (struct view){ .size = MIN(r->n + listed, (size_t) DEBTS_HOSTS_MAX) };
        v->nodes = calloc(v->size + 1, sizeof(*v->nodes));
        v->hosts = calloc(v->size + 1, sizeof(*v->hosts));
        v->debts = calloc(total + 1, sizeof(*v->debts));
        v->owners = calloc(total + ADDRESSES_MAX * listed + 1, sizeof(*v->owners));
        if (!v->nodes || !v->hosts || !v->debts || !v->owners)
                return -ENOMEM;
        for (size_t i = 0; i < r->n; i++) {
                const struct speaker *s = r->speakers[i];
                uint32_t at;

                if (!speaker_counts(r, s))
                        continue;
                at = add_node(v, s->host, s->slice, s->worker, true);
                for (size_t k = 0; k < s->n; k++)
                        add_owner(v, &s->debts[k].local, at);
        }
        add_silent(v, r, slices);
        sort_owners(v);
        return 0;
}

/* With the peers' numbers, now that all are known. */
static void fill_debts(struct view *v, const struct run_said *r) {
        struct debt *next = v->debts;
        uint32_t at = 0;

        for (size_t i = 0; i < r->n; i++) {
                const struct speaker *s = r->speakers[i];

                if (!speaker_counts(r, s))
                        continue;
                v->hosts[at].debts = next;
                for (size_t k = 0; k < s->n; k++) {
                        uint32_t peer = owner_of(v, &s->debts[k].peer);

                        if (peer == at)
                                continue;
                        *next = s->debts[k].debt;
                        next->peer = peer;
                        next++;
                }
                v->hosts[at].n = (size_t) (next - v->hosts[at].debts);
                at++;
        }
}

/* --- The sentence ---------------------------------------------------------------------------------- */

static const char *who_text(const struct view *v, uint32_t host, char buf[static WHO_MAX]) {
        const struct node *n = host < v->n ? &v->nodes[host] : NULL;

        if (!n)
                (void) snprintf(buf, WHO_MAX, "another host");
        else if (*n->slice && n->worker >= 0)
                (void) snprintf(buf, WHO_MAX, "slice %.63s, worker %" PRId64 " (%.63s)", n->slice, n->worker,
                                n->host);
        else
                (void) snprintf(buf, WHO_MAX, "host %.63s", n->host);
        return buf;
}

static const char *short_text(const struct view *v, uint32_t host) {
        return host < v->n ? v->nodes[host].host : "another";
}

/* What is seen at the host itself. */
static void evidence_text(const struct view *v, const struct debts_verdict *d, char *buf, size_t size) {
        *buf = '\0';
        if (d->unread > 0)
                (void) snprintf(buf, size, ", %" PRIu64 " bytes lie unread there (most of them %s's)",
                                d->unread, short_text(v, d->unread_of));
        if (d->owes > 0)
                text_append(buf, size, "", ", it received data %.2f s after it had last sent",
                            (double) d->owes / 1000);
}

/* {host}, {peer}: without the slice. */
static const char *const sentences[] = {
        [DEBTS_OWES] = "{who} {holds} it up: it has what it needs and sends nothing{seen}; {wait} for it "
                       "directly",
        [DEBTS_WANTED] = "{who} probably holds it up: {have} sent there and got no answer{seen}",
        [DEBTS_INFERRED] = "{who} probably holds it up: {peer} has the data of its other peers, and only "
                           "this one's can be missing",
        [DEBTS_SILENT] = "{who} probably holds it up: {wait} for it, and nothing is heard from there",
        [DEBTS_PATH] = "the network of {who}: what goes between it and {n} others is not acknowledged",
        [DEBTS_PAIR] = "the path between {who} and {other}: what is sent there is not acknowledged; either "
                       "end, or what lies between",
        [DEBTS_SEVERAL] = "nobody alone: others wait for {host} and for {peer}",
        [DEBTS_ONE_OF] = "nobody alone: {host} has the data of some, and waits for one of several",
        [DEBTS_CHAIN] = "nobody alone: each waits for the next one, up to {host}; with several batches "
                        "between them, any of the chain may hold it up",
        [DEBTS_ROUND] = "nobody: each waits for another",
        [DEBTS_NOTHING] = "nobody: no host is seen to wait for another",
};

static void put_sentence(const struct view *v, const struct debts_verdict *d,
                         char buf[static SENTENCE_MAX]) {
        char who[WHO_MAX], other[WHO_MAX], seen[SEEN_MAX], n[24];
        const struct {
                const char *word, *value;
        } fills[] = { { "{holds}", d->says == DEBTS_CLEAR ? "holds" : "probably holds" },
                      { "{wait}", d->waiting == 1 ? "{n} waits" : "{n} wait" },
                      { "{have}", d->waiting == 1 ? "{n} host has" : "{n} hosts have" },
                      { "{n}", n },
                      { "{seen}", seen },
                      { "{host}", short_text(v, d->host) },
                      { "{peer}", short_text(v, d->other) },
                      { "{who}", who_text(v, d->host, who) },
                      { "{other}", who_text(v, d->other, other) } };

        evidence_text(v, d, seen, sizeof(seen));
        (void) snprintf(n, sizeof(n), "%zu", d->waiting);
        (void) snprintf(buf, SENTENCE_MAX, "%s", sentences[d->why]);
        for (size_t i = 0; i < ELEMENTSOF(fills); i++)
                placeholder_fill(buf, SENTENCE_MAX, fills[i].word, fills[i].value);
}

int said_judge(const struct run_said *r, const json_t *slices, size_t known, struct first_word *ret) {
        struct first_word word = { .generation = r->generation, .since = r->since, .worker = -1 };
        char text[SENTENCE_MAX];
        struct debts_verdict d;
        struct view v;
        int k = make_view(&v, r, slices);

        if (k == 0) {
                fill_debts(&v, r);
                k = debts_judge(v.hosts, v.n, &d);
        }
        if (k == 0) {
                memcpy(word.run, r->name, sizeof(word.run));
                word.says = d.says;
                word.said = d.said;
                word.hosts = MAX(known, v.n);
                if (d.says != DEBTS_NOBODY && d.why != DEBTS_PAIR && d.host < v.n) {
                        (void) snprintf(word.host, sizeof(word.host), "%.63s", v.nodes[d.host].host);
                        (void) snprintf(word.slice, sizeof(word.slice), "%.63s", v.nodes[d.host].slice);
                        word.worker = v.nodes[d.host].worker;
                }
                put_sentence(&v, &d, text);
                (void) snprintf(word.text, sizeof(word.text),
                                "first word, from sockets alone (%zu of %zu hosts): %s", word.said,
                                word.hosts, text);
                *ret = word;
        }
        clear_view(&v);
        return k;
}
