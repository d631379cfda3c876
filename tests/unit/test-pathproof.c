/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of the path proof: the schedule against a simulated network, foreign answers, words and
 * texts. */
#include <arpa/inet.h>

#include "lane.h"
#include "path_report.h"
#include "proof.h"
#include "test.h"

#define FULL 8896

/* --- A network that is simulated ----------------------------------------------------------------------- */

struct network {
        uint32_t there, back; /* largest packet each way; UINT32_MAX: any */
        unsigned loss; /* each way, percent */
        usec_t rtt;
        bool udp, fragments; /* answers UDP; the peer fragments its answers to `back` */
};

struct in_flight {
        usec_t at;
        struct proof_packet packet;
        uint32_t fragment;
};

struct run {
        struct proof *proof;
        struct in_flight *flight;
        size_t n_flight, size;
        usec_t now, started;
        size_t packets, in_slot, udp_of_first;
        usec_t slot;
};

static bool lost(const struct network *w) {
        return (unsigned) (rand() % 100) < w->loss;
}

static void carry(struct run *r, const struct network *w, const struct proof_packet *p) {
        struct in_flight answer = { .at = r->now + w->rtt, .packet = *p };
        bool udp = p->kind == PROOF_UDP;

        if (p->size > w->there || lost(w) || lost(w) || (udp && !w->udp))
                return;
        if (!udp && p->size > w->back) {
                if (!w->fragments)
                        return;
                answer.fragment = w->back;
        }
        if (r->n_flight == r->size) {
                r->size = MAX(r->size * 2, (size_t) 1024);
                r->flight = reallocarray(r->flight, r->size, sizeof(*r->flight));
                ASSERT_TRUE(r->flight);
        }
        r->flight[r->n_flight++] = answer;
}

static void deliver(struct run *r) {
        size_t left = 0;

        for (size_t i = 0; i < r->n_flight; i++)
                if (r->flight[i].at <= r->now)
                        proof_answered(r->proof, &r->flight[i].packet, r->flight[i].fragment);
                else
                        r->flight[left++] = r->flight[i];
        r->n_flight = left;
}

/* Runs n targets on one lane to the end, in steps of 1 ms. which(i) picks the network of target i. */
static usec_t simulate(struct run *r, size_t n, const struct network *first, const struct network *others) {
        struct proof_target *targets = calloc(n, sizeof(*targets));
        struct proof_packet packet;
        usec_t wake = 0;

        ASSERT_TRUE(targets);
        for (size_t i = 0; i < n; i++)
                targets[i].full = FULL;
        *r = (struct run){ .started = 12345678, .now = 12345678 };
        ASSERT_OK(proof_new(targets, n, &r->proof));
        free(targets);
        while (wake != USEC_INFINITY) {
                deliver(r);
                while (proof_next(r->proof, r->now, &packet, &wake) > 0) {
                        if (r->slot != r->now / PROOF_SLOT)
                                r->in_slot = 0;
                        r->slot = r->now / PROOF_SLOT;
                        ASSERT_TRUE(++r->in_slot <= PROOF_SLOT_PACKETS);
                        ASSERT_TRUE(packet.target < n && packet.size <= FULL && packet.size >= PROOF_SMALL);
                        r->packets++;
                        r->udp_of_first += packet.target == 0 && packet.kind == PROOF_UDP;
                        carry(r, packet.target == 0 ? first : others, &packet);
                }
                if (wake == USEC_INFINITY)
                        break;
                ASSERT_TRUE(wake > r->now);
                r->now += USEC_PER_MSEC;
        }
        ASSERT_TRUE(r->now - r->started <= PROOF_DEADLINE + USEC_PER_MSEC);
        return r->now - r->started;
}

static struct proof_result result_of(const struct run *r, size_t i) {
        struct proof_result x;

        proof_result(r->proof, i, &x);
        return x;
}

static void end(struct run *r) {
        (void) proof_free(r->proof);
        free(r->flight);
}

static const struct network well = { .there = UINT32_MAX, .back = UINT32_MAX, .rtt = 300, .udp = true };

static void test_well(void) {
        struct run r;
        usec_t took = simulate(&r, 256, &well, &well);

        ASSERT_EQ(r.packets, 256 * (1 + PROOF_ECHOES));
        ASSERT_TRUE(took < 500 * USEC_PER_MSEC);
        for (size_t i = 0; i < 256; i++) {
                ASSERT_EQ(result_of(&r, i).answer, PROOF_PASSES);
                ASSERT_EQ(result_of(&r, i).passes, FULL);
                ASSERT_EQ(result_of(&r, i).echoes, PROOF_ECHOES);
                ASSERT_EQ(result_of(&r, i).lost, 0);
        }
        end(&r);
}

/* Every size that a path may end at is found exactly, and so is the direction. */
static void test_every_size(void) {
        for (uint32_t mtu = PROOF_SMALL; mtu < FULL; mtu += mtu < 1600 || mtu > 8800 ? 1 : 7) {
                struct network w = well;
                struct proof_result x;
                struct run r;

                if (mtu % 2 == 0)
                        w.there = mtu;
                else
                        w.back = mtu;
                (void) simulate(&r, 1, &w, &well);
                x = result_of(&r, 0);
                ASSERT_EQ(x.answer, PROOF_SMALLER);
                ASSERT_EQ(x.passes, mtu);
                ASSERT_TRUE(x.exact);
                ASSERT_EQ(x.direction, mtu % 2 == 0 ? PROOF_THERE : PROOF_BACK);
                ASSERT_TRUE(r.udp_of_first <= PROOF_UDP_MAX);
                ASSERT_TRUE(r.packets < 100);
                end(&r);
        }
}

static void test_256_black_holes(void) {
        static const uint32_t sizes[] = { 1460, 1500, 2777, 8895, 129 };

        for (size_t k = 0; k < ELEMENTSOF(sizes); k++) {
                struct network w = well;
                struct run r;
                usec_t took;

                w.there = sizes[k];
                took = simulate(&r, 256, &w, &w);
                printf("256 peers that end at %u: %.2f s, %zu packets\n", sizes[k], (double) took / 1e6,
                       r.packets);
                for (size_t i = 0; i < 256; i++) {
                        ASSERT_EQ(result_of(&r, i).passes, sizes[k]);
                        ASSERT_EQ(result_of(&r, i).direction, PROOF_THERE);
                }
                end(&r);
        }
}

/* Lost packets are no verdict: ten percent each way, 256 peers, a hundred times; one peer is really behind
 * 1500. */
static void test_loss(void) {
        const struct network lossy = {
                .there = UINT32_MAX, .back = UINT32_MAX, .rtt = 300, .udp = true, .loss = 10
        };
        struct network bad = lossy;

        bad.there = 1500;
        srand(test_seed());
        for (unsigned round = 0; round < 100; round++) {
                struct proof_result x;
                struct run r;

                (void) simulate(&r, 256, &bad, &lossy);
                for (size_t i = 1; i < 256; i++)
                        ASSERT_EQ(result_of(&r, i).answer, PROOF_PASSES);
                x = result_of(&r, 0);
                ASSERT_EQ(x.answer, PROOF_SMALLER);
                ASSERT_TRUE(x.passes <= 1500 && x.passes >= PROOF_SMALL);
                ASSERT_TRUE(x.direction != PROOF_BACK);
                end(&r);
        }
}

static void test_late_silent_and_pieces(void) {
        struct network late = well, silent = { .rtt = 1 }, pieces = well, no_udp = well;
        struct run r;

        late.rtt = 700 * USEC_PER_MSEC;
        (void) simulate(&r, 1, &late, &well);
        ASSERT_EQ(result_of(&r, 0).answer, PROOF_PASSES);
        end(&r);
        (void) simulate(&r, 1, &silent, &well);
        ASSERT_EQ(result_of(&r, 0).answer, PROOF_SILENT);
        ASSERT_EQ(r.udp_of_first, 0);
        end(&r);
        pieces.back = 1460;
        pieces.fragments = true;
        (void) simulate(&r, 1, &pieces, &well);
        ASSERT_EQ(result_of(&r, 0).answer, PROOF_PIECES);
        ASSERT_EQ(result_of(&r, 0).passes, 1460);
        end(&r);
        no_udp.there = 1500;
        no_udp.udp = false;
        (void) simulate(&r, 1, &no_udp, &well);
        ASSERT_EQ(result_of(&r, 0).answer, PROOF_SMALLER);
        ASSERT_EQ(result_of(&r, 0).direction, PROOF_DIRECTION_UNKNOWN);
        end(&r);
}

static void test_bounds_and_refusal(void) {
        const struct proof_target bad[] = { { PROOF_SMALL, 0 },
                                            { UINT16_MAX + 1, 0 },
                                            { FULL, PROOF_LANES_MAX } };
        const struct proof_target good = { FULL, 0 };
        struct proof_packet packet;
        struct proof_result x;
        struct proof *p;
        usec_t wake;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(proof_new(&bad[i], 1, &p), -EINVAL);
        ASSERT_EQ(proof_new(&good, 0, &p), -EINVAL);
        ASSERT_OK(proof_new(&good, 1, &p));
        ASSERT_EQ(proof_next(p, 1, &packet, &wake), 1);
        proof_result(p, 0, &x);
        ASSERT_EQ(x.answer, PROOF_OPEN);
        /* What was never sent changes nothing. */
        proof_answered(p, &(struct proof_packet){ .target = 1, .size = FULL }, 0);
        proof_answered(p, &(struct proof_packet){ .target = SIZE_MAX, .size = 1 }, 0);
        proof_answered(p, &(struct proof_packet){ .target = 0, .size = FULL + 1 }, 0);
        proof_answered(p, &(struct proof_packet){ .target = 0, .kind = PROOF_UDP, .size = 700 }, 0);
        proof_result(p, 0, &x);
        ASSERT_EQ(x.answer, PROOF_OPEN);
        ASSERT_EQ(x.passes, 0);
        proof_refused(p, &packet, -EMSGSIZE);
        proof_result(p, 0, &x);
        ASSERT_EQ(x.answer, PROOF_REFUSED);
        ASSERT_EQ(x.error, -EMSGSIZE);
        ASSERT_EQ(proof_next(p, 2, &packet, &wake), 0);
        ASSERT_TRUE(wake == USEC_INFINITY);
        (void) proof_free(p);
}

/* --- Foreign answers ----------------------------------------------------------------------------------- */

struct echo {
        uint8_t type, code;
        uint16_t checksum, id, sequence;
        struct lane_payload payload;
};

static void test_echo_answers(void) {
        const struct echo good = {
                .type = 0,
                .sequence = htons(7),
                .payload = { .secret = 42, .target = 3, .size = 1500, .sequence = 7, .kind = PROOF_ECHO }
        };
        struct proof_packet p = { 0 };
        struct echo e = good;

        ASSERT_OK(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p));
        ASSERT_EQ(p.target, 3);
        ASSERT_EQ(p.size, 1500);
        e.type = 129; /* ICMPv6 */
        ASSERT_OK(lane_parse_echo(AF_INET6, 42, &e, sizeof(e), 1460, &p));
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &good, sizeof(good), 1479, &p),
                  -EBADMSG); /* shorter than asked */
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &good, sizeof(good), 1481, &p), -EBADMSG);
        ASSERT_EQ(lane_parse_echo(AF_INET, 43, &good, sizeof(good), 1480, &p),
                  -EBADMSG); /* not our secret */
        for (size_t got = 0; got < 8 + sizeof(struct lane_payload); got++)
                ASSERT_EQ(lane_parse_echo(AF_INET, 42, &good, got, 1480, &p), -EBADMSG);
        e = good;
        e.sequence = htons(8);
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        e = good;
        e.code = 1;
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        e = good;
        e.type = 8; /* our own echo, sent back as it was */
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        e = good;
        e.payload.kind = PROOF_UDP;
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        e.payload.kind = 77;
        ASSERT_EQ(lane_parse_echo(AF_INET, 42, &e, sizeof(e), 1480, &p), -EBADMSG);
        ASSERT_EQ(lane_parse_quote(42, &good.payload, sizeof(good.payload) - 1, &p), -EBADMSG);
        ASSERT_OK(lane_parse_quote(42, &good.payload, sizeof(good.payload), &p));
}

/* --- Words and texts ----------------------------------------------------------------------------------- */

static void test_peers(void) {
        static const char *const bad[] = { "a b", "=x", "eth0=", "a,,b", ",", "a$b", "abcdefghijklmnopqrs=x",
                                           "-h" };
        _cleanup_path_peers_ struct path_peers p = PATH_PEERS_NULL;
        char why[96], longname[400];

        ASSERT_OK(path_peers_add(&p, " h1, eth1=10.10.1.11,h1 ,fd00::1,", why));
        ASSERT_EQ(p.n, 3);
        ASSERT_STREQ(p.items[0].name, "h1");
        ASSERT_STREQ(p.items[1].nic, "eth1");
        ASSERT_STREQ(p.items[1].name, "10.10.1.11");
        ASSERT_STREQ(p.items[2].name, "fd00::1");
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(path_peers_add(&p, bad[i], why), -EINVAL);
        memset(longname, 'a', sizeof(longname) - 1);
        longname[sizeof(longname) - 1] = '\0';
        ASSERT_EQ(path_peers_add(&p, longname, why), -EINVAL);
}

static void test_texts(void) {
        struct path_result r = {
                .nic = "eth0",
                .peer = "h3",
                .mtu = FULL,
                .proof = { .answer = PROOF_SMALLER, .direction = PROOF_BACK, .passes = 1500, .exact = true }
        };
        union path_address six;
        struct finding f;

        ASSERT_OK(address_parse("10.10.0.10", &r.from));
        ASSERT_OK(address_parse("10.10.0.13", &r.to));
        ASSERT_OK(address_parse("2001:db8:1111:2222:3333:4444:5555:6666", &six));
        ASSERT_EQ(address_parse("10.10.0", &six), -EINVAL);
        path_judge(&r, &f);
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        ASSERT_STREQ(f.check, "path.mtu");
        ASSERT_STREQ(f.subject, "eth0→h3 (10.10.0.13)");
        ASSERT_STREQ(f.found, "1500 bytes pass, 8896 do not (from the peer)");
        ASSERT_STREQ(f.wanted, "8896");
        ASSERT_TRUE(strstr(f.remedy, "ping -M do -c 3 -s 8868 -I 10.10.0.10 10.10.0.13"));
        /* A name as long as they come: the address is whole. */
        (void) strcpy(r.peer, "gke-cluster-name-0-0.a-long-headless-service");
        path_finding_init(&f, &r);
        ASSERT_STREQ(f.subject, "eth0→gke-cluster-name-0-0.a-long-headless… (10.10.0.13)");
        (void) strcpy(r.nic, "abcdefghijklmno");
        r.to = six;
        path_finding_init(&f, &r);
        ASSERT_STREQ(f.subject, "abcdefghijklmno→2001:db8:1111:2222:3333:4444:5555:6666");
        /* What was asked for is the address. */
        (void) strcpy(r.peer, "2001:db8:1111:2222:3333:4444:5555:6666");
        path_finding_init(&f, &r);
        ASSERT_STREQ(f.subject, "abcdefghijklmno→2001:db8:1111:2222:3333:4444:5555:6666");
}

TEST_MAIN(test_well, test_every_size, test_256_black_holes, test_loss, test_late_silent_and_pieces,
          test_bounds_and_refusal, test_echo_answers, test_peers, test_texts)
