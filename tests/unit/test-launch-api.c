/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of tpu-launchd against runs with a backend of the test's: what a caller asks, what systemd is
 * asked, what is answered. */
#include "launch-bench.h"
#include "rights.h"
#include "run_table.h"

static void test_run_and_exit(void) {
        char *env[] = { (char[]){ "TPU_WORKER_ID=9" }, (char[]){ "SECRET=s3cr3t" } };
        _cleanup_bench_ struct bench b;
        Local__RunReply *reply;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "", env, 2);
        ASSERT_EQ(b.fake.starts, 1);
        ASSERT_STREQ(b.fake.name, "run-1");
        ASSERT_STREQ(b.fake.user, getpwuid(getuid())->pw_name);
        expect_run(&b, "starting", "", "");
        runs_unit_events.started("run-1", "done", b.runs);
        reply = (Local__RunReply *) take(&b, fd, LOCAL__KIND__KIND_RUN_REPLY, &local__run_reply__descriptor);
        ASSERT_STREQ(reply->unit, "tpu-run-run-1.service");
        ASSERT_EQ(reply->n_conflict, 1);
        ASSERT_STREQ(reply->conflict[0], "TPU_WORKER_ID: yours '9' kept, ours would be '0' (worker-id from "
                                         "/etc/tpu-hostd/identity.conf.d/1.conf:3)");
        ASSERT_TRUE(startswith(reply->malloc, "glibc (auto: "));
        local__run_reply__free_unpacked(reply, NULL);
        (void) close(fd);
        expect_run(&b, "running", "", "");
        record(&b, "exit-code", "exited", "3");
        runs_unit_events.gone("run-1", b.runs);
        expect_run(&b, "exited", "exit-code", "3");
        /* The next one without a name is another. */
        fd = ask_run(&b, "", NULL, 0);
        ASSERT_STREQ(b.fake.name, "run-2");
        (void) close(fd);
}

/* Whatever order systemd's news come in, the caller gets an answer. */
static void test_gone_before_started(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "a", NULL, 0);
        record(&b, "exit-code", "exited", "203");
        runs_unit_events.gone("a", b.runs);
        expect_error(&b, fd, EIO, "not-started");
        expect_run(&b, "exited", "not-started", "203");
}

/* systemd calls a start failed when the command ended sooner than it was seen to run: it did start. */
static void test_short_run(void) {
        _cleanup_bench_ struct bench b;
        Local__RunReply *reply;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "a", NULL, 0);
        runs_unit_events.started("a", "failed", b.runs);
        record(&b, "exit-code", "exited", "1");
        runs_unit_events.gone("a", b.runs);
        reply = (Local__RunReply *) take(&b, fd, LOCAL__KIND__KIND_RUN_REPLY, &local__run_reply__descriptor);
        ASSERT_STREQ(reply->state, "running");
        local__run_reply__free_unpacked(reply, NULL);
        (void) close(fd);
        expect_run(&b, "exited", "exit-code", "1");
}

/* The caller that asked is gone: its run is as alive as before, and nothing of ours points to it. */
static void test_caller_goes_away(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        (void) close(ask_run(&b, "a", NULL, 0));
        turn(&b);
        runs_unit_events.started("a", "done", b.runs);
        expect_run(&b, "running", "", "");
}

static void test_gone_without_record_is_unknown(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "a");
        runs_unit_events.gone("a", b.runs);
        expect_run(&b, "exited", "unknown", "");
        /* A record of another run of the same name changes nothing. */
        start(&b, "a");
        (void) snprintf(b.fake.id, sizeof(b.fake.id), "ffffffffffffffffffffffffffffffff");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("a", b.runs);
        expect_run(&b, "exited", "unknown", "");
}

/* Its unit is gone, and its last lines are still being read: it is neither running nor exited. */
static void test_ending(void) {
        _cleanup_bench_ struct bench b;
        Local__RunListReply *l;

        bench_init(&b);
        start(&b, "a");
        b.runs->journal = true; /* the machine's own, which knows nothing of this run */
        record(&b, "exit-code", "exited", "3");
        runs_unit_events.gone("a", b.runs);
        ASSERT_STREQ(kept_run_shown_state(runs_find(b.runs, "a")), "ending");
        do
                l = list(&b, 1);
        while (streq(l->run[0]->state, "ending") && (local__run_list_reply__free_unpacked(l, NULL), true));
        ASSERT_STREQ(l->run[0]->state, "exited");
        ASSERT_STREQ(l->run[0]->cause, "exit-code");
        local__run_list_reply__free_unpacked(l, NULL);
}

static void test_restart(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "a");
        bench_down(&b);
        bench_up(&b);
        runs_unit_events.connected(b.runs);
        ASSERT_EQ(b.fake.queries, 1);
        expect_run(&b, "running", "", "");
        ASSERT_EQ(b.fake.queries, 2); /* what is not known yet is asked for when somebody wants to know */
        runs_unit_events.running("a", 42, "/tpu.slice/tpu-run.slice/tpu-run-a.slice/tpu-run-a.service",
                                 b.runs);
        {
                Local__RunListReply *reply = list(&b, 1);

                ASSERT_EQ(reply->run[0]->main_pid, 42);
                ASSERT_STREQ(reply->run[0]->control_group, "/tpu.slice/tpu-run.slice/tpu-run-a.slice");
                local__run_list_reply__free_unpacked(reply, NULL);
        }
        /* It ends while nobody of ours lives. */
        bench_down(&b);
        ASSERT_OK(host_open(b.scratch.path, &b.host));
        record(&b, "signal", "killed", "KILL");
        host_close(&b.host);
        bench_up(&b);
        expect_run(&b, "exited", "signal", "KILL");
        /* And after a boot, a run without a record went down with its host. */
        start(&b, "a");
        bench_down(&b);
        scratch_write(&b.scratch, "proc/sys/kernel/random/boot_id",
                      "99999999-2222-3333-4444-555555555555\n");
        bench_up(&b);
        expect_run(&b, "exited", "host-down", "");
}

static void test_refused_by_systemd(void) {
        _cleanup_bench_ struct bench b;
        struct stat st;
        int fd;

        bench_init(&b);
        start(&b, "a");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("a", b.runs);
        fd = ask_run(&b, "a", NULL, 0);
        runs_unit_events.refused("a", -EEXIST, "Unit exists", b.runs);
        expect_error(&b, fd, EEXIST, "tpu-run-a.service");
        fd = ask_run(&b, "a", NULL, 0);
        turn(&b);
        runs_unit_events.refused("a", -EEXIST, "Unit tpu-run-a.slice was already loaded", b.runs);
        expect_error(&b, fd, EEXIST, "still has the slice of a run before it");
        expect_run(&b, "exited", "success", "0"); /* the run before it is still known */
        bench_down(&b);
        bench_up(&b);
        expect_run(&b, "exited", "success", "0");

        b.fake.start_error = -ENOTCONN;
        expect_error(&b, ask_run(&b, "b", NULL, 0), ENOTCONN, "system bus");
        local__run_list_reply__free_unpacked(list(&b, 1), NULL);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/runs/b", &st, 0), -1);
        ASSERT_EQ(fstatat(b.host.root_fd, "run/tpu-launchd/handover/b", &st, 0), -1);
}

static void test_bad_requests(void) {
        char *bad_env[] = { (char[]){ "1=2" } }, *nothing[] = { (char[]){ "no-such-command" } };
        _cleanup_bench_ struct bench b;
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Run__Spec run = RUN__SPEC__INIT;
        Local__StopRequest s = LOCAL__STOP_REQUEST__INIT;
        Local__CaptureRequest c = LOCAL__CAPTURE_REQUEST__INIT;

        bench_init(&b);
        expect_error(&b, ask_run(&b, "A/b", NULL, 0), EINVAL, "'A/b'");
        expect_error(&b, ask_run(&b, "a", bad_env, 1), EINVAL, "'1'");
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "without saying which");
        q.spec = &run;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "no command");
        run.argv = nothing;
        run.n_argv = 1;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "no-such-command");
        run = spec_of_python((char[]){ "" });
        run.framework = (char[]){ "tf" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "framework 'tf'");
        run.framework = (char[]){ "jax" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENODATA, "accelerator-type");
        run = spec_of_python((char[]){ "" });
        run.malloc = (char[]){ "tcmalloc" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "libtcmalloc");
        run = spec_of_python((char[]){ "" });
        run.directory = (char[]){ "/not/there" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "/not/there");
        run = spec_of_python((char[]){ "" });
        run.user = (char[]){ "no-such-user" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ESRCH, "no-such-user");
        expect_error(&b, ask(&b, 99, &q.base), EBADMSG, "99");
        s.name = c.name = (char[]){ "ghost" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &s.base), ENOENT, "ghost");
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &c.base), ENOENT, "ghost");
        ASSERT_EQ(b.fake.starts, 0);
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
}

/* No message of ours, as any user may send it. */
static int ask_bytes(struct bench *b, uint8_t kind, const uint8_t *data, uint8_t len) {
        const uint8_t head[] = { len, 0, 0, 0, FRAME_VERSION, 0, kind, 0 };
        int fd = frame_connect(b->socket);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(write(fd, head, sizeof(head)), (ssize_t) sizeof(head));
        ASSERT_EQ(write(fd, data, len), len);
        turn(b);
        return fd;
}

/* protobuf-c would take them, and merge two specs, or as many as fit into a frame. */
static void test_unsound_requests(void) {
        static const uint8_t two_specs[] = { 0x0a, 0x00, 0x0a, 0x00 }, two_worlds[] = { 0x3a, 0, 0x3a, 0 },
                             world_as_number[] = { 0x38, 0x01 }, cut_off[] = { 0x0a, 0x05, 0x0a };
        static const struct {
                const uint8_t *data;
                size_t len;
        } requests[] = { { two_specs, sizeof(two_specs) },
                         { two_worlds, sizeof(two_worlds) },
                         { world_as_number, sizeof(world_as_number) },
                         { cut_off, sizeof(cut_off) } };
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                expect_error(&b,
                             ask_bytes(&b, LOCAL__KIND__KIND_RUN_REQUEST, requests[i].data,
                                       (uint8_t) requests[i].len),
                             EBADMSG, "cannot be understood");
                expect_error(&b,
                             ask_bytes(&b, LOCAL__KIND__KIND_CHECK_REQUEST, requests[i].data,
                                       (uint8_t) requests[i].len),
                             EBADMSG, "cannot be understood");
        }
        ASSERT_EQ(b.fake.starts, 0);
}

static void test_stop(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        start(&b, "a");
        expect_error(&b, ask_run(&b, "a", NULL, 0), EEXIST, "run a is running");
        q.name = (char[]){ "a" };
        fd = ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base);
        ASSERT_EQ(b.fake.stops, 1);
        record(&b, "signal", "killed", "KILL");
        runs_unit_events.gone("a", b.runs);
        local__stop_reply__free_unpacked((Local__StopReply *) take(&b, fd, LOCAL__KIND__KIND_STOP_REPLY,
                                                                   &local__stop_reply__descriptor),
                                         NULL);
        (void) close(fd);
        ASSERT_EQ(b.fake.stops, 2); /* what is left in the slice goes, too */
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base), EALREADY, "ended already");
}

/* The end of the start was missed with the bus: who waits for it is answered when the unit is seen to
 * run. */
static void test_start_seen_after_the_bus(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "a", NULL, 0);
        runs_unit_events.connected(b.runs);
        ASSERT_EQ(b.fake.queries, 1);
        runs_unit_events.running("a", 42, "/tpu.slice/tpu-run.slice/tpu-run-a.slice/tpu-run-a.service",
                                 b.runs);
        local__run_reply__free_unpacked((Local__RunReply *) take(&b, fd, LOCAL__KIND__KIND_RUN_REPLY,
                                                                 &local__run_reply__descriptor),
                                        NULL);
        (void) close(fd);
        expect_run(&b, "running", "", "");
}

static void be_machine(struct bench *b, const char *machine, const char *boot_id) {
        bench_down(b);
        scratch_write(&b->scratch, "etc/machine-id", machine);
        scratch_write(&b->scratch, "proc/sys/kernel/random/boot_id", boot_id);
        bench_up(b);
}

/* A disk that was copied brings the runs of another machine along. */
static void test_runs_of_another_machine(void) {
        static const char boots[][40] = { "11111111-2222-3333-4444-555555555555\n",
                                          "99999999-2222-3333-4444-555555555555\n" };
        _cleanup_bench_ struct bench b;
        struct stat st;

        bench_init(&b);
        be_machine(&b, "0123456789abcdef0123456789abcdef\n", boots[0]);
        start(&b, "a");
        be_machine(&b, "ffffffffffffffffffffffffffffffff\n", boots[0]); /* a new id while it runs */
        local__run_list_reply__free_unpacked(list(&b, 1), NULL);
        be_machine(&b, "ffffffffffffffffffffffffffffffff\n", boots[1]);
        local__run_list_reply__free_unpacked(list(&b, 1), NULL);
        be_machine(&b, "0123456789abcdef0123456789abcdef\n", boots[0]);
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
        ASSERT_OK(fstatat(b.host.root_fd, "var/lib/tpu-launchd/runs.other-machine/a", &st, 0));
        start(&b, "a");
        be_machine(&b, "", boots[1]); /* not known, and so no difference */
        local__run_list_reply__free_unpacked(list(&b, 1), NULL);
}

/* systemd-machine-id-setup and a reboot: the process of the old boot ends between both. */
static void test_a_new_id_before_a_reboot(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        be_machine(&b, "0123456789abcdef0123456789abcdef\n", "11111111-2222-3333-4444-555555555555\n");
        start(&b, "a");
        scratch_write(&b.scratch, "etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
        runs_bind(&b.host);
        be_machine(&b, "ffffffffffffffffffffffffffffffff\n", "99999999-2222-3333-4444-555555555555\n");
        local__run_list_reply__free_unpacked(list(&b, 1), NULL);
        scratch_write(&b.scratch, "etc/machine-id", ""); /* as for an image: the next boot is a clone's */
        runs_bind(&b.host);
        be_machine(&b, "0123456789abcdef0123456789abcdef\n", "11111111-2222-3333-4444-555555555555\n");
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
}

static void test_prune(void) {
        _cleanup_bench_ struct bench b;
        struct stat st;

        bench_init(&b);
        for (unsigned i = 0; i < RUNS_KEPT + 3; i++) {
                char name[32];

                (void) snprintf(name, sizeof(name), "n%u", i);
                b.now.real += USEC_PER_SEC;
                start(&b, name);
                record(&b, "success", "exited", "0");
                runs_unit_events.gone(name, b.runs);
        }
        local__run_list_reply__free_unpacked(list(&b, RUNS_KEPT), NULL);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/runs/n2", &st, 0), -1);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/exits/n2", &st, 0), -1);
        ASSERT_OK(fstatat(b.host.root_fd, "var/lib/tpu-launchd/runs/n3", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0600); /* it may hold secrets */
}

/* Somebody else's many runs cost nobody the record of his own, nor its name. */
static void test_another_user(void) {
        _cleanup_bench_ struct bench b;
        struct caller c = { .uid = 1001, .name = "bob", .member = true };
        struct kept_run wanted = { .name = "n0", .uid = 1001, .user = (char[]){ "bob" } };
        struct problem p;

        bench_init(&b);
        for (unsigned i = 0; i < RUNS_KEPT + 9; i++) {
                char name[32];

                (void) snprintf(name, sizeof(name), "n%u", i);
                b.now.real += USEC_PER_SEC;
                start(&b, name);
                if (i == 0)
                        run_find(b.runs, name)->kept->uid = 1000;
                record(&b, "success", "exited", "0");
                runs_unit_events.gone(name, b.runs);
        }
        local__run_list_reply__free_unpacked(list(&b, RUNS_KEPT), NULL);
        ASSERT_TRUE(runs_find(b.runs, "n0") != NULL);
        ASSERT_TRUE(runs_find(b.runs, "n1") == NULL);
        ASSERT_EQ(rights_check_replacing(b.runs, &c, &wanted, &p), -EEXIST);
        ASSERT_TRUE(strstr(p.text, "n0 is the name of a run of user "));
        wanted.uid = 1000;
        ASSERT_OK(rights_check_replacing(b.runs, &c, &wanted, &p));
        wanted.uid = 1001;
        c.uid = 0;
        ASSERT_OK(rights_check_replacing(b.runs, &c, &wanted, &p));
}

static void test_owners(void) {
        _cleanup_bench_ struct bench b;
        Local__OwnersRequest q = LOCAL__OWNERS_REQUEST__INIT;
        Local__OwnersReply *reply;
        int fd;

        bench_init(&b);
        scratch_link(&b.scratch, "proc/812/fd/3", "/dev/accel2");
        scratch_write(&b.scratch, "proc/812/cgroup", "0::/tpu-run-a.slice/tpu-run-a.service\n");
        scratch_write(&b.scratch, "proc/812/cmdline", "python3");
        fd = ask(&b, LOCAL__KIND__KIND_OWNERS_REQUEST, &q.base);
        reply = (Local__OwnersReply *) take(&b, fd, LOCAL__KIND__KIND_OWNERS_REPLY,
                                            &local__owners_reply__descriptor);
        ASSERT_EQ(reply->n_owner, 1);
        ASSERT_EQ(reply->owner[0]->pid, 812);
        ASSERT_STREQ(reply->owner[0]->device, "/dev/accel2");
        ASSERT_STREQ(reply->owner[0]->unit, "tpu-run-a.service");
        local__owners_reply__free_unpacked(reply, NULL);
        (void) close(fd);
}

/* A refusal costs the caller nothing: of a flood a few have a record, and the next one counts the others. */
static void test_refusals_are_bounded(void) {
        const usec_t at = 1000 * USEC_PER_SEC;
        _cleanup_free_ struct refusals *all = calloc(1, sizeof(*all));
        const struct asked k = { .action = ACTION_STOP, .name = "a" };
        struct caller c = { .uid = 1000, .name = "alice" };
        struct refusals_of *of;

        ASSERT_TRUE(all != NULL);
        for (unsigned i = 0; i < 1000; i++)
                asked_record(all, at + i, &c, &k, -EACCES, "no");
        of = &all->of[0];
        ASSERT_EQ(of->n, REFUSALS_A_MINUTE);
        ASSERT_EQ(of->left_out, 990);
        c.uid = 1001; /* another's are recorded beside them */
        asked_record(all, at + 1000, &c, &k, -EACCES, "no");
        ASSERT_EQ(all->of[1].n, 1);
        c.uid = 1000;
        asked_record(all, at + 60 * USEC_PER_SEC, &c, &k, -EACCES, "no");
        ASSERT_EQ(of->n, 1);
        ASSERT_EQ(of->left_out, 0);
        for (c.uid = 2000; c.uid < 3000; c.uid++) /* as many users as there are: one place is left to all */
                for (unsigned i = 0; i < 20; i++)
                        asked_record(all, at + 60 * USEC_PER_SEC, &c, &k, -EACCES, "no");
        c.uid = 0; /* root's are no flood of a stranger's */
        asked_record(all, at + 60 * USEC_PER_SEC, &c, &k, -EACCES, "no");
}

int main(void) {
        void (*const tests[])(void) = {
                test_run_and_exit,
                test_gone_before_started,
                test_short_run,
                test_caller_goes_away,
                test_gone_without_record_is_unknown,
                test_ending,
                test_restart,
                test_start_seen_after_the_bus,
                test_refused_by_systemd,
                test_bad_requests,
                test_unsound_requests,
                test_stop,
                test_runs_of_another_machine, test_a_new_id_before_a_reboot,
                test_prune,
                test_another_user,
                test_owners,
                test_refusals_are_bounded,
        };

        return bench_main(tests, ELEMENTSOF(tests));
}
