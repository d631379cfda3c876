/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <grp.h>

#include "authority.h"
#include "io.h"
#include "events.h"
#include "scratch.h"
#include "test.h"

enum who {
        ROOT,
        MEMBER,
        REMOTE,
        REMOTE_AND_MEMBER,
        NOBODY
};

static struct caller make(enum who w) {
        struct caller c = { .uid = w == ROOT ? 0 : 1000,
                            .member = w == MEMBER || w == REMOTE_AND_MEMBER,
                            .remote = w == REMOTE || w == REMOTE_AND_MEMBER };

        (void) snprintf(c.name, sizeof(c.name), "%s", w == ROOT ? "root" : "alice");
        (void) snprintf(c.group, sizeof(c.group), "tpu-run");
        return c;
}

/* The whole table of rights. own: the run is, or is to be, of the caller's own user. */
static void test_table(void) {
        static const struct {
                enum who who;
                enum action action;
                bool own, others; /* allowed */
        } table[] = {
                { ROOT, ACTION_LIST, true, true },
                { ROOT, ACTION_START, true, true },
                { ROOT, ACTION_STOP, true, true },
                { ROOT, ACTION_CAPTURE, true, true },
                { MEMBER, ACTION_LIST, true, true },
                { MEMBER, ACTION_START, true, false },
                { MEMBER, ACTION_STOP, true, false },
                { MEMBER, ACTION_CAPTURE, true, false },
                { REMOTE, ACTION_LIST, true, true },
                { REMOTE, ACTION_START, false, false },
                { REMOTE, ACTION_STOP, false, false },
                { REMOTE, ACTION_CAPTURE, true, true },
                /* Whoever owns hostd gains nothing by a group. */
                { REMOTE_AND_MEMBER, ACTION_LIST, true, true },
                { REMOTE_AND_MEMBER, ACTION_START, false, false },
                { REMOTE_AND_MEMBER, ACTION_STOP, false, false },
                { REMOTE_AND_MEMBER, ACTION_CAPTURE, true, true },
                { NOBODY, ACTION_LIST, true, true },
                { NOBODY, ACTION_START, false, false },
                { NOBODY, ACTION_STOP, false, false },
                { NOBODY, ACTION_CAPTURE, false, false },
                { ROOT, ACTION_SIGNAL, true, true },
                { MEMBER, ACTION_SIGNAL, true, false },
                { REMOTE, ACTION_SIGNAL, true, true },
                { NOBODY, ACTION_SIGNAL, false, false },
                { ROOT, ACTION_LOG, true, true },
                { MEMBER, ACTION_LOG, false, false },
                { REMOTE, ACTION_LOG, true, true },
                { NOBODY, ACTION_LOG, false, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                for (int own = 0; own < 2; own++) {
                        struct caller c = make(table[i].who);
                        struct problem r = { .text = "" };
                        int k = authority_decide(&c, table[i].action, own ? c.uid : 4711, "x", &r);

                        if (k != ((own ? table[i].own : table[i].others) ? 0 : -EACCES))
                                test_fail(__FILE__, __LINE__, "row %zu, own %d: %d", i, own, k);
                        ASSERT_EQ(k < 0, r.text[0] != '\0');
                        ASSERT_EQ(k < 0, r.remedy[0] != '\0');
                }
}

/* Nobody but root may name root as the user of a run. */
static void test_never_root(void) {
        for (enum who w = MEMBER; w <= NOBODY; w++) {
                struct caller c = make(w);
                struct problem r;

                ASSERT_EQ(authority_decide(&c, ACTION_START, 0, "root", &r), -EACCES);
        }
}

/* What the file grants to remote: starts and stops, of these users, and of nobody whom it cannot name. */
static void test_granted(void) {
        struct caller c = make(REMOTE), member = make(MEMBER);
        struct problem r;

        c.granted[c.n_granted++] = 1001;
        c.granted[c.n_granted++] = 0; /* as if the file's reader had let it in */
        c.granted[c.n_granted++] = 999;
        ASSERT_OK(authority_decide(&c, ACTION_START, 1001, "bob", &r));
        ASSERT_OK(authority_decide(&c, ACTION_STOP, 1001, "bob", &r));
        ASSERT_EQ(authority_decide(&c, ACTION_START, 1002, "carol", &r), -EACCES);
        ASSERT_STREQ(r.remedy, "as root of this host, in /etc/tpu-hostd/authority.conf.d/10-remote.conf: "
                               "section [Remote], line "
                               "Start=carol");
        ASSERT_EQ(authority_decide(&c, ACTION_START, 0, "root", &r), -EACCES);
        ASSERT_EQ(authority_decide(&c, ACTION_START, 999, "daemon", &r), -EACCES);
        /* It is remote's, and nobody else's. */
        member.granted[member.n_granted++] = 1001;
        ASSERT_EQ(authority_decide(&member, ACTION_START, 1001, "bob", &r), -EACCES);
}

/* nobody is a user of every Debian host with a high uid; root and daemon are those that the file cannot
 * grant. */
static void test_file(void) {
        static const struct {
                const char *text, *group;
                size_t users;
                unsigned warnings;
        } cases[] = {
                { "", "tpu-run", 0, 0 },
                { "[Remote]\nStart=nobody\n", "tpu-run", 1, 0 },
                { "[Remote]\nStart=nobody, nobody\n[Authority]\nGroup=ml\n", "ml", 2, 0 },
                { "[Remote]\nStart=root\n", "tpu-run", 0, 1 },
                { "[Remote]\nStart=daemon\n", "tpu-run", 0, 1 },
                { "[Remote]\nStart=nobody root\n", "tpu-run", 0, 1 },
                { "[Remote]\nStart=no-such-user\n", "tpu-run", 0, 1 },
                { "[Remote]\nStart=*\n", "tpu-run", 0, 1 },
                { "[Remote]\nStrat=nobody\n", "tpu-run", 0, 1 },
                { "[Remote]\nStart=nobody\nStart=\n", "tpu-run", 0, 0 },
                { "[Container]\nMount=/data /srv:ro\nDocker=yes\n", "tpu-run", 0, 0 },
                { "[Container]\nMount=/data /\n", "tpu-run", 0, 1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_host_ struct host h = HOST_NULL;
                unsigned warnings = 0;
                struct grants g;

                scratch_write(&s, "etc/tpu-hostd/authority.conf.d/10-remote.conf", cases[i].text);
                ASSERT_OK(host_open(s.path, &h));
                ASSERT_OK(grants_load(&h, NULL, NULL, &g, &warnings));
                ASSERT_STREQ(g.group, cases[i].group);
                if (g.n_users != cases[i].users || warnings != cases[i].warnings)
                        test_fail(__FILE__, __LINE__, "case %zu: %zu users, %u warnings", i, g.n_users,
                                  warnings);
        }
}

/* What containers see: all of a line or nothing of it, and docker only where it is granted. */
static void test_containers(void) {
        static const struct {
                const char *text;
                size_t mounts;
                bool docker;
        } cases[] = {
                { "", 0, false },
                { "[Container]\nMount=/data, /srv/models:ro\n", 2, false },
                { "[Container]\nMount=/data\nMount=/data /etc/../root\n", 1, false },
                { "[Container]\nMount=/data\nMount=\nDocker=yes\n", 0, true },
                { "[Container]\nMount=/data:rw\nDocker=maybe\n", 0, false },
                { "[Remote]\nStart=no-such-user\n[Container]\nMount=/data:ro\n", 1, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_host_ struct host h = HOST_NULL;
                struct grants g;

                scratch_write(&s, "etc/tpu-hostd/authority.conf", cases[i].text);
                ASSERT_OK(host_open(s.path, &h));
                ASSERT_OK(grants_load_containers(&h, NULL, &g));
                ASSERT_EQ(g.n_mounts, cases[i].mounts);
                ASSERT_EQ(g.docker, cases[i].docker);
                ASSERT_TRUE(g.n_mounts == 0 || startswith(g.mounts[0], "/data"));
        }
}

static void test_words(void) {
        struct caller c = make(NOBODY);
        struct problem r;

        ASSERT_EQ(authority_decide(&c, ACTION_STOP, 1000, "alice", &r), -EACCES);
        ASSERT_STREQ(r.text, "user alice may not stop runs: not root and not in group tpu-run");
        ASSERT_STREQ(r.remedy, "sudo usermod -aG tpu-run alice");
}

/* journalctl -x explains the record of a call. */
static void test_catalog(void) {
        _cleanup_close_ int dir = open(FIXTURES "/../../systemd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        size_t len;

        ASSERT_OK(durable_read(dir, "tpu-launchd.catalog", 65536, &text, &len));
        ASSERT_TRUE(strstr(text, event_def(EVENT_LAUNCH_ASKED)->message_id) != NULL);
}

static struct caller identify(const struct host *h, enum action a, uid_t uid, gid_t gid, const gid_t *groups,
                              size_t n) {
        struct caller c = { .uid = uid, .gids = { gid }, .pid = 1 };

        authority_identify(h, NULL, a, groups, n, &c);
        return c;
}

static void test_identify(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct caller c;

        ASSERT_OK(host_open(s.path, &h));
        c = identify(&h, ACTION_STOP, 0, 0, NULL, 0);
        ASSERT_EQ(c.uid, 0);
        ASSERT_STREQ(c.name, "root");
        ASSERT_FALSE(c.remote);
        c = identify(&h, ACTION_STOP, 3999999999u, 3999999999u, NULL, 0);
        ASSERT_STREQ(c.name, "3999999999");
        ASSERT_FALSE(c.member || c.remote || c.reads_journal);
}

/* The groups that the process has, of which the database knows nothing, count as well. */
static void test_groups_of_the_process(void) {
        const struct group *adm = getgrnam("adm");
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        gid_t groups[2];

        ASSERT_TRUE(adm != NULL);
        groups[0] = 77777;
        groups[1] = adm->gr_gid;
        scratch_write(&s, "etc/tpu-hostd/authority.conf.d/1.conf", "[Authority]\nGroup=adm\n");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_FALSE(identify(&h, ACTION_STOP, 3999999999u, 1, groups, 1).member);
        ASSERT_TRUE(identify(&h, ACTION_STOP, 3999999999u, 1, groups, 2).member);
        ASSERT_TRUE(identify(&h, ACTION_LINES, 3999999999u, 1, groups, 2).reads_journal);
        ASSERT_FALSE(identify(&h, ACTION_STOP, 3999999999u, 1, groups, 2).reads_journal);
}

TEST_MAIN(test_table, test_never_root, test_granted, test_file, test_containers, test_words, test_catalog,
          test_identify, test_groups_of_the_process)
