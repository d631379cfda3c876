/* SPDX-License-Identifier: Apache-2.0 */
#include "contest.h"
#include "contested.h"
#include "plan.h"
#include "scratch.h"
#include "source.h"
#include "test.h"

static struct plan_op mtu_op(const char *nic, const char *from) {
        struct plan_op op = { .kind = OP_MTU };

        finding_set(op.subject, "%s", nic);
        finding_set(op.from, "%s", from);
        finding_set(op.to, "8896");
        return op;
}

#define SECONDS(n) ((usec_t) (n) *USEC_PER_SEC)

static const struct found nothing = { .links_error = -EIO };
static const char *ended; /* why the last contest ended */

static void note_end(const struct contest_entry *e, void *userdata) {
        (void) userdata;
        ended = e->ended;
}

/* A pass that finds op wrong (NULL: all is right). */
static void look(struct contest *c, const struct plan_op *op, usec_t now) {
        struct plan wrong = { .ops = (struct plan_op *) (uintptr_t) op, .n = op != NULL }, none = PLAN_NULL;

        contest_look(c, &wrong, &none, &nothing, now);
        contest_sweep(c, note_end, NULL);
}

static enum contest_answer pass(struct contest *c, const struct plan_op *op, usec_t now) {
        enum contest_answer a;

        look(c, op, now);
        a = contest_judge(c, op, now);
        if (a == CONTEST_REPAIR)
                ASSERT_OK(contest_note_repair(c, op, now));
        return a;
}

static void repair(struct contest *c, const struct plan_op *op, usec_t now) {
        ASSERT_EQ(pass(c, op, now), CONTEST_REPAIR);
}

static void start_fight(struct contest *c, const struct plan_op *op, usec_t now) {
        repair(c, op, now);
        repair(c, op, now + SECONDS(1));
        ASSERT_EQ(pass(c, op, now + SECONDS(2)), CONTEST_BEGINS);
}

static void test_contest(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op eth0 = mtu_op("eth0", "1400"), eth1 = mtu_op("eth1", "1400"),
                       other = mtu_op("eth0", "1500");
        struct contested_list l;

        start_fight(&c, &eth0, SECONDS(100));
        ASSERT_EQ(pass(&c, &eth0, SECONDS(110)), CONTEST_LEFT);
        ASSERT_EQ(contest_judge(&c, &eth1, SECONDS(111)), CONTEST_REPAIR); /* others are repaired */
        repair(&c, &eth0, SECONDS(117));        /* the trial, which is answered */
        ASSERT_EQ(pass(&c, &other, SECONDS(120)), CONTEST_LEFT);
        contest_list(&c, &l);
        ASSERT_EQ(l.n, 1u);
        ASSERT_EQ(l.items[0].times, 4u);
        ASSERT_STREQ(l.items[0].theirs, "1500");
        ASSERT_STREQ(l.items[0].ours, "8896");
        ASSERT_EQ(pass(&c, &other, SECONDS(659)), CONTEST_LEFT);
        repair(&c, &other, SECONDS(660));       /* quiet for nine minutes: the second trial */
        look(&c, NULL, SECONDS(719));
        contest_list(&c, &l);
        ASSERT_EQ(l.n, 1u);
        look(&c, NULL, SECONDS(720));
        contest_list(&c, &l);
        ASSERT_EQ(l.n, 0u);
        ASSERT_STREQ(ended, "nobody has changed it for ten minutes");
        start_fight(&c, &other, SECONDS(800));  /* its repairs were forgotten, too */
}

/* Only a trial that is still to come is waited for: who set it right again meanwhile needs none. */
static void test_how_long_to_wait(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1400");

        ASSERT_EQ(contest_wait(&c, SECONDS(100), SECONDS(30)), SECONDS(30));
        start_fight(&c, &op, SECONDS(100));
        ASSERT_EQ(contest_wait(&c, SECONDS(102), SECONDS(30)), SECONDS(15));
        ASSERT_EQ(contest_wait(&c, SECONDS(116), SECONDS(30)), SECONDS(1));
        ASSERT_EQ(contest_wait(&c, SECONDS(116), USEC_PER_MSEC), USEC_PER_MSEC);
        look(&c, NULL, SECONDS(117));
        ASSERT_EQ(contest_wait(&c, SECONDS(117), SECONDS(30)), SECONDS(30));
}

static void test_once_ends_it(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1400"), eth1 = mtu_op("eth1", "1400");
        struct contested_list l;

        start_fight(&c, &op, SECONDS(100));
        for (unsigned i = 0; i < 2; i++)
                ASSERT_OK(contest_note_repair(&c, &eth1, SECONDS(101 + i)));
        ASSERT_EQ(contest_judge(&c, &eth1, SECONDS(103)), CONTEST_BEGINS);
        contest_list(&c, &l);
        ASSERT_EQ(l.n, 2u);
        l.n = 1; /* --once has set eth1 alone */
        contest_follow(&c, &l);
        look(&c, NULL, SECONDS(110));
        contest_list(&c, &l);
        ASSERT_EQ(l.n, 1u);
        ASSERT_STREQ(l.items[0].setting, "eth0");
        repair(&c, &eth1, SECONDS(111)); /* at once, and as if nothing had been */
        repair(&c, &eth1, SECONDS(112));
        ASSERT_EQ(pass(&c, &eth1, SECONDS(113)), CONTEST_BEGINS);
}

static void test_a_nic_made_anew_is_another(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1460");

        for (op.index = 2; op.index < 20; op.index++)
                repair(&c, &op, SECONDS(100 + op.index));
        op.index = 19;
        repair(&c, &op, SECONDS(121));
        ASSERT_EQ(pass(&c, &op, SECONDS(122)), CONTEST_BEGINS);
}

static void test_a_nic_that_went_has_no_history(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1460");
        const struct found none = FOUND_NULL;
        const struct plan wrong = PLAN_NULL;

        op.index = 2;
        start_fight(&c, &op, SECONDS(100));
        contest_look(&c, &wrong, &wrong, &none, SECONDS(103));
        contest_sweep(&c, note_end, NULL);
        ASSERT_EQ(c.n, 0u);
        ASSERT_STREQ(ended, "its NIC is gone");
}

static void test_a_route_whose_link_came_back_is_new(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = { .kind = OP_ROUTE, .subject = "10.0.0.0/24 dev eth0", .index = 2 };

        for (; op.carrier_changes < 20; op.carrier_changes += 2)
                repair(&c, &op, SECONDS(100 + op.carrier_changes));
        repair(&c, &op, SECONDS(121));
        repair(&c, &op, SECONDS(122));
        ASSERT_EQ(pass(&c, &op, SECONDS(123)), CONTEST_BEGINS);
        op.carrier_changes += 2;
        repair(&c, &op, SECONDS(124));
}

static void test_held(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1460");

        ASSERT_OK(contest_hold(&c, &op, -EHOSTUNREACH, SECONDS(100)));
        ASSERT_EQ(pass(&c, &op, SECONDS(3699)), CONTEST_LEFT);
        ASSERT_EQ(contest_why(&c, &op), -EHOSTUNREACH);
        repair(&c, &op, SECONDS(3700));
        ASSERT_EQ(contest_why(&c, &op), 0);
}

static void test_slow_drift_is_no_contest(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1400");

        for (unsigned n = 1; n < 100; n++)
                repair(&c, &op, SECONDS(31 * n)); /* two within 60 s, and the third after them */
}

static void test_a_route_that_went_by_itself_is_new(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = { .kind = OP_ROUTE, .subject = "10.0.0.0/24 dev eth0", .from = "none" };
        const struct plan none = PLAN_NULL;
        const struct found empty = FOUND_NULL;

        repair(&c, &op, SECONDS(100));
        repair(&c, &op, SECONDS(101));
        contest_look(&c, &none, &none, &empty, SECONDS(102)); /* it is gone */
        contest_sweep(&c, NULL, NULL);
        repair(&c, &op, SECONDS(110));
        repair(&c, &op, SECONDS(111));
        contest_look(&c, &none, &none, &empty, SECONDS(112) - 1); /* at once: because of our repair */
        contest_sweep(&c, NULL, NULL);
        ASSERT_EQ(pass(&c, &op, SECONDS(113)), CONTEST_BEGINS);
        contest_look(&c, &none, &none, &empty, SECONDS(300));
        contest_sweep(&c, NULL, NULL);
        ASSERT_EQ(c.n, 1u); /* what is contested stays so */
}

/* Our own removal, because the address went, is nobody's change, and leaves no history. */
static void test_a_rule_follows_its_address(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = { .kind = OP_RULE, .subject = "from 10.0.1.5 lookup 847000003", .index = 3,
                              .from = SOURCE_ABSENT, .to = "priority 28470",
                              .rule = { .family = AF_INET, .src = { 10, 0, 1, 5 } } };
        struct address address = { .family = AF_INET, .index = 3, .bytes = { 10, 0, 1, 5 } };
        struct link link = { .index = 3 };
        struct found with = { .links = { .links = &link, .n = 1 },
                              .addresses = { .addresses = &address, .n = 1 } };
        struct plan none = PLAN_NULL, wrong = { .ops = &op, .n = 1 };
        struct found gone = with;

        gone.addresses.n = 0;
        for (unsigned i = 0; i < 3; i++) {
                contest_look(&c, &wrong, &none, &with, SECONDS(100 + i));
                ASSERT_EQ(contest_judge(&c, &op, SECONDS(100 + i)),
                          i < 2 ? CONTEST_REPAIR : CONTEST_BEGINS);
                if (i < 2)
                        ASSERT_OK(contest_note_repair(&c, &op, SECONDS(100 + i)));
        }
        contest_look(&c, &none, &none, &with, SECONDS(103)); /* somebody else's stands in */
        contest_sweep(&c, note_end, NULL);
        ASSERT_EQ(contest_judge(&c, &op, SECONDS(104)), CONTEST_LEFT);
        contest_look(&c, &none, &none, &gone, SECONDS(105));
        contest_sweep(&c, note_end, NULL);
        ASSERT_STREQ(ended, "nothing asks for it any more");
        ASSERT_EQ(c.n, 0u);
}

/* The kernel's own rules are wanted always: source routing asks for none of them. */
static void test_the_main_rule(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = { .kind = OP_MAIN_RULE, .subject = "IPv4 lookup main", .nic = "IPv4",
                              .from = SOURCE_ABSENT, .to = "priority 32766" };
        struct plan none = PLAN_NULL, wrong = { .ops = &op, .n = 1 };
        const struct found f = FOUND_NULL;

        for (unsigned i = 0; i < 3; i++) {
                contest_look(&c, &wrong, &none, &f, SECONDS(100 + i));
                contest_sweep(&c, NULL, NULL);
                ASSERT_EQ(contest_judge(&c, &op, SECONDS(100 + i)),
                          i < 2 ? CONTEST_REPAIR : CONTEST_BEGINS);
                if (i < 2)
                        ASSERT_OK(contest_note_repair(&c, &op, SECONDS(100 + i)));
        }
}

static void test_contest_is_bounded(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op;
        char name[16];

        for (unsigned n = 1; n <= CONTEST_MAX + 100; n++) {
                (void) snprintf(name, sizeof(name), "nic%u", n);
                op = mtu_op(name, "1400");
                ASSERT_OK(contest_note_repair(&c, &op, SECONDS(n)));
        }
        ASSERT_EQ(c.n, CONTEST_MAX);
        repair(&c, &op, SECONDS(CONTEST_MAX + 101)); /* the latest is still known … */
        ASSERT_EQ(pass(&c, &op, SECONDS(CONTEST_MAX + 102)), CONTEST_BEGINS);
}

/* --- Random histories against what the promise says ---------------------------------------------------- */

static uint32_t random_below(uint32_t *state, uint32_t n) {
        *state = *state * 1664525u + 1013904223u;
        return (*state >> 8) % n;
}

/* The promise, from the whole history: nothing is remembered but times. */
struct oracle {
        unsigned repairs[1000]; /* since the last end, in seconds */
        size_t n;
        bool contested, tried_once, tried_again, is_right;
        unsigned since, changed, times;
};

static void end_oracle(struct oracle *o) {
        o->n = 0;
        o->contested = false;
}

static bool oracle_repairs(struct oracle *o, unsigned now) {
        if (!o->contested && o->n >= 2 && now - o->repairs[o->n - 2] < 60) {
                *o = (struct oracle) { .contested = true, .since = now, .changed = now, .times = 3 };
                return false;
        }
        if (!o->contested) {
                o->repairs[o->n++] = now;
                return true;
        }
        if ((!o->tried_once && now - o->since >= 15) || (!o->tried_again && now - o->changed >= 540)) {
                o->tried_once = o->tried_again = true;
                return true;
        }
        return false;
}

static void play(uint32_t seed) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1400");
        struct oracle o = { .is_right = true };
        unsigned eager = 1 + random_below(&seed, 400);
        struct contested_list l;

        for (unsigned now = 1000; now < 6000 && o.n < 900; now++) {
                bool theirs = random_below(&seed, eager) == 0, once = random_below(&seed, 2000) == 0;

                if (now % 1500 == 0)
                        eager = 1 + random_below(&seed, 900);
                if (once && o.contested) {
                        l.n = 0;
                        contest_follow(&c, &l);
                        end_oracle(&o);
                }
                if (once)
                        o.is_right = true;
                if (theirs && o.is_right && o.contested) {
                        o.times++;
                        o.changed = now;
                        o.tried_again = false;
                }
                o.is_right &= !theirs;
                if (o.contested && now - o.changed >= 600)
                        end_oracle(&o);
                look(&c, o.is_right ? NULL : &op, SECONDS(now));
                if (!o.is_right) {
                        bool wanted = oracle_repairs(&o, now);

                        ASSERT_EQ(contest_judge(&c, &op, SECONDS(now)) == CONTEST_REPAIR, wanted);
                        if (wanted)
                                ASSERT_OK(contest_note_repair(&c, &op, SECONDS(now)));
                        o.is_right = wanted;
                }
                contest_list(&c, &l);
                ASSERT_EQ(l.n == 1, o.contested);
                if (o.contested) {
                        ASSERT_EQ(l.items[0].times, o.times);
                        ASSERT_EQ(l.items[0].since, SECONDS(o.since));
                }
        }
}

static void test_any_history(void) {
        for (uint32_t seed = 1; seed <= 300; seed++)
                play(seed);
}

/* --- The file ------------------------------------------------------------------------------------------ */

static void test_file(void) {
        struct contested_list l = { .n = 2 }, back = { .n = 7 };
        char text[CONTESTED_TEXT_MAX];
        int n;

        l.items[0] = (struct contested) { .check = "sysctl", .subject = "net.ipv4.tcp_rmem",
                                          .setting = "net.ipv4.tcp_rmem", .ours = "4096 1 2",
                                          .theirs = "4096 3 4", .times = 5, .since = 77 };
        l.items[1] = (struct contested) { .check = "nic.mtu", .subject = "eth0", .setting = "eth0",
                                          .ours = "8896", .theirs = "1460", .times = 3, .since = 78,
                                          .pid = 42, .unit = "fighter.service", .command = "sh fight.sh" };
        n = contested_format(&l, "b", text);
        ASSERT_TRUE(n > 0);
        ASSERT_OK(contested_parse(text, (size_t) n, "b", &back));
        ASSERT_EQ(memcmp(&l, &back, sizeof(l)), 0);
        ASSERT_TRUE(contested_find(&back, &l.items[1]) == &back.items[1]);
        l.items[1].since++; /* a contest that restarted has no old writer */
        ASSERT_TRUE(contested_find(&back, &l.items[1]) == NULL);
        ASSERT_OK(contested_parse(text, (size_t) n, "c", &back));
        ASSERT_EQ(back.n, 0u);
        memcpy(strstr(text, "fighter"), "$(x); x", 7);
        ASSERT_EQ(contested_parse(text, (size_t) n, "b", &back), -EBADMSG);
}

/* --- Who it is ----------------------------------------------------------------------------------------- */

static void say(const struct scratch *s, const struct contested *c, struct finding *ret) {
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(s->path, &h));
        finding_init(ret, c->check, c->subject);
        contested_words(&h, c, ret);
}

/* What would be killed may have ended, and another process may have its number. */
static void test_who_has_ended(void) {
        const struct contested c = { .check = "nic.mtu", .subject = "eth0", .times = 3, .pid = 4711,
                                     .unit = "session-3.scope", .command = "ip link" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct finding f;

        say(&s, &c, &f);
        ASSERT_TRUE(strstr(f.reason, "by pid 4711 (ip link) of session-3.scope, which has ended") != NULL);
        ASSERT_TRUE(strstr(f.remedy, "kill") == NULL);
        scratch_write(&s, "proc/4711/comm", "sh\n");
        say(&s, &c, &f);
        ASSERT_STREQ(f.remedy, "sudo kill 4711; sudo tpu-netcfg --once");
}

/* As sysctl.d(5) puts files in order: by their names, whatever their folders, and one name counts once. */
static void test_which_file(void) {
        static const char key[] = "# a site's\nnet.ipv4.tcp_rmem=4096 1 2\n";
        const struct contested c = { .check = "sysctl", .subject = "net.ipv4.tcp_rmem",
                                     .setting = "net.ipv4.tcp_rmem", .times = 3 };
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct finding f;

        say(&s, &c, &f);
        ASSERT_TRUE(strstr(f.remedy, "sed") == NULL);
        scratch_write(&s, "etc/sysctl.conf", key);
        scratch_link(&s, "etc/sysctl.d/99-sysctl.conf", "../sysctl.conf");
        say(&s, &c, &f);
        ASSERT_STREQ(f.remedy, "sudo sed -i 2s/^/#/ /etc/sysctl.conf; sudo tpu-netcfg --once");
        scratch_write(&s, "etc/sysctl.d/10-site.conf", key);
        say(&s, &c, &f);
        ASSERT_TRUE(strstr(f.reason, "/etc/sysctl.conf, line 2") != NULL); /* it comes later */
        scratch_write(&s, "usr/lib/sysctl.d/99-vendor.conf", "-net/ipv4/tcp_rmem = 1 1 1\n");
        say(&s, &c, &f);
        ASSERT_TRUE(strstr(f.reason, "/usr/lib/sysctl.d/99-vendor.conf, line 1") != NULL);
        scratch_write(&s, "etc/sysctl.d/99-vendor.conf", "# switched off\n");
        say(&s, &c, &f);
        ASSERT_TRUE(strstr(f.reason, "/etc/sysctl.conf, line 2") != NULL);
}

TEST_MAIN(test_held, test_contest, test_how_long_to_wait, test_once_ends_it,
          test_a_nic_made_anew_is_another, test_a_nic_that_went_has_no_history,
          test_a_route_whose_link_came_back_is_new, test_slow_drift_is_no_contest,
          test_a_route_that_went_by_itself_is_new, test_a_rule_follows_its_address, test_the_main_rule,
          test_contest_is_bounded, test_any_history, test_file, test_who_has_ended, test_which_file)
