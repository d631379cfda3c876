/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/wait.h>

#include "cgroup.h"
#include "exit_record.h"
#include "handover.h"
#include "kept_run.h"
#include "scratch.h"
#include "run_table.h"
#include "kept_run.h"
#include "state_file.h"
#include "test.h"
#include "utf8.h"

#define ID "0123456789abcdef0123456789abcdef"
#define OTHER_ID "ffffffffffffffffffffffffffffffff"

static int open_dir(const struct scratch *s) {
        int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ASSERT_TRUE(fd >= 0);
        return fd;
}

static void test_names(void) {
        static const char *const bad[] = { "",
                                           "-a",
                                           "A",
                                           "a_b",
                                           "a.b",
                                           "a/b",
                                           "..",
                                           "a b",
                                           "a\n",
                                           "\xc3\xa4",
                                           "a12345678901234567890123456789012345678901" };
        char unit[RUN_UNIT_MAX], slice[RUN_UNIT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_FALSE(run_name_is_valid(bad[i]));
        ASSERT_TRUE(run_name_is_valid("0"));
        ASSERT_TRUE(run_name_is_valid("a1234567890123456789012345678901234567890"));
        ASSERT_STREQ(run_unit("my-run", unit), "tpu-run-my-run.service");
        /* A run "my" must not own the slice of "my-run". */
        ASSERT_STREQ(run_slice("my-run", slice), "tpu-run-my_run.slice");
        ASSERT_STREQ(run_slice("my", slice), "tpu-run-my.slice");
}

/* Every kind of key. */
static void make_spec(struct kept_run *kept) {
        static const struct {
                const char *key, *text;
        } given[] = { { "memory", "5" }, { "memory_high", "6" }, { "cpus", "0-3,8" }, { "core", "keep" },
                      { "grace", "30s" },
                      { "restarts", "4" }, { "preempt", "/bin/touch /srv/now" },
                      { "devices", "/dev/x,char-y" },
                      { "share_devices", "yes" } };
        char why[RUN_WHY_MAX];

        kept->spec = run_spec_new();
        for (size_t i = 0; i < ELEMENTSOF(given); i++)
                ASSERT_OK(run_key_parse(run_key_find(given[i].key), kept->spec, given[i].text, why));
        kept->generation = 7;
        kept->remote = true;
        (void) snprintf(kept->slice, sizeof(kept->slice), "v6e-16 a");
}

static void expect_spec(const struct kept_run *kept) {
        const Run__Spec *s = kept->spec;

        ASSERT_EQ(kept->generation, 7);
        ASSERT_STREQ(kept->slice, "v6e-16 a");
        ASSERT_STREQ(kept->worker, "");
        ASSERT_TRUE(kept->remote);
        ASSERT_EQ(s->memory, 5);
        ASSERT_EQ(s->memory_high, 6);
        ASSERT_TRUE(!s->has_memory_total && !s->has_memlock && s->memlock == UINT64_MAX);
        ASSERT_EQ(s->nofile, RUN_NOFILE);
        ASSERT_STREQ(s->cpus, "0-3,8");
        ASSERT_STREQ(s->core, "keep");
        ASSERT_TRUE(s->share_devices);
        ASSERT_EQ(s->grace, 30 * USEC_PER_SEC);
        ASSERT_EQ(s->restarts, 4);
        ASSERT_STREQ(s->preempt, "/bin/touch /srv/now");
        ASSERT_STREQ(s->devices, "/dev/x,char-y");
        ASSERT_TRUE(!s->name[0] && s->n_argv == 0 && s->n_env == 0); /* these are the run's own */
}

static void test_sets_of_numbers(void) {
        static const char *const bad[] = { ",", "1,", "1-", "-1", "a", "3-1", "1 ", "8192", "1--2",
                                           "99999999999999999999" };
        struct number_set set;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_TRUE(number_set_parse(bad[i], &set) < 0);
        ASSERT_OK(number_set_parse("", &set));
        ASSERT_EQ(set.bytes, 0);
        ASSERT_OK(number_set_parse("0-3,8", &set));
        ASSERT_EQ(set.bytes, 2);
        ASSERT_EQ(set.bits[0], 0x0f);
        ASSERT_EQ(set.bits[1], 0x01);
        ASSERT_OK(number_set_parse("8191", &set));
        ASSERT_EQ(set.bytes, NUMBER_SET_MAX / 8);
}

static void test_file_round_trip(void) {
        static const char *const argv[] = { "python3", "-c", "print(\"\xe2\x82\xac $HOME %n\")", "",
                                            "a\nb" };
        static const char *const env[] = { "A=1", "LD_PRELOAD", "B=x=y" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s);
        struct kept_run *kept = calloc(1, sizeof(*kept)), *back = NULL;
        char text[16];

        ASSERT_TRUE(kept != NULL);
        (void) snprintf(kept->name, sizeof(kept->name), "run-1");
        (void) snprintf(kept->id, sizeof(kept->id), "%s", ID);
        kept->uid = 4000000000u;
        /* as a directory service may call somebody: longer than anybody may ask for */
        kept->user = calloc(1, 201);
        ASSERT_TRUE(kept->user != NULL);
        memset(kept->user, 'a', 200);
        kept->directory = strdup("/home/alice");
        kept->argv = strings_copy(argv, ELEMENTSOF(argv));
        kept->env = strings_copy(env, ELEMENTSOF(env));
        kept->started_real = 1700000000000000;
        kept->restarts = (struct restarts){ .done = 2, .idle = 1, .step_known = true, .best_step = 40 };
        kept->stop_asked = true;
        make_spec(kept);
        ASSERT_OK(kept_run_write(dir, kept));
        ASSERT_OK(kept_run_read(dir, "run-1", &back));
        for (size_t i = 0; i < ELEMENTSOF(argv); i++)
                ASSERT_STREQ(back->argv[i], argv[i]);
        ASSERT_TRUE(!back->argv[ELEMENTSOF(argv)]);
        ASSERT_STREQ(back->env[1], "LD_PRELOAD");
        ASSERT_EQ(back->uid, 4000000000u);
        ASSERT_STREQ(back->user, kept->user);
        ASSERT_EQ(back->started_real, 1700000000000000);
        ASSERT_STREQ(back->id, ID);
        ASSERT_EQ(back->restarts.done, 2);
        ASSERT_TRUE(back->stop_asked);
        expect_spec(back);
        ASSERT_STREQ(run_command(back, text, sizeof(text)), "python3 -c prin");
        (void) kept_run_free(back);
        (void) kept_run_free(kept);
}

/* What no checksum finds: whole files whose content is none of ours. */
static void write_whole(int dir, const char *name, const char *what, unsigned version, const char *text) {
        const struct state_format f = { .what = what, .version = version, .max = 4096,
                                        .options = { .mode = 0600 } };

        ASSERT_OK(state_file_write(dir, name, &f, text, strlen(text)));
}

/* What is a secret by its name is shown to nobody; what only sounds like one has its value hidden, too. */
static void test_secrets_of_a_command(void) {
        static const struct {
                const char *argv[6], *shown;
        } cases[] = {
                { { "train", "--api-key=x1", "--steps=3" }, "train --api-key=**** --steps=3" },
                { { "train", "--token", "x1", "x2" }, "train --token **** x2" },
                { { "train", "-password", "--steps", "3" }, "train -password --steps 3" },
                { { "env", "WANDB_API_KEY=x1", "train" }, "env WANDB_API_KEY=**** train" },
                { { "/srv/secret/token", "x1", "KEY" }, "/srv/secret/token x1 KEY" },
                { { "train", "--token=", "--token" }, "train --token= --token" },
                { { "train", "--token", "--token", "x1" }, "train --token --token ****" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct kept_run kept = { .argv = (char **) (uintptr_t) cases[i].argv };
                char text[256];

                ASSERT_STREQ(run_command(&kept, text, sizeof(text)), cases[i].shown);
        }
}

/* Wherever it is cut, and whatever an argument holds, it is text that a message may carry. */
static void test_a_command_is_text(void) {
        static const char *const argv[] = { "pyth\xc3\xb6n", "\xe6\x97\xa5\xe6\x9c\xac", "\xff\xc3", NULL };
        struct kept_run kept = { .argv = (char **) (uintptr_t) argv };

        for (size_t size = 1; size <= 24; size++) {
                char text[24], mended[24];

                (void) run_command(&kept, text, size);
                ASSERT_TRUE(strlen(text) < size);
                memcpy(mended, text, size);
                utf8_mend(mended);
                ASSERT_STREQ(text, mended);
        }
}

static void test_bad_run_files(void) {
        static const char *const damaged[] = { "", "{", "[]", "{}", "{\"version\":1,\"name\":\"x\"}",
                                               "\x00\x01" };
        static const char *const strange[] = { "[]", "{}", "", "\x0a\x02\x08\x01" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s);
        struct kept_run *kept = NULL;

        for (size_t i = 0; i < ELEMENTSOF(damaged); i++) {
                scratch_write(&s, "x", damaged[i]);
                ASSERT_EQ(kept_run_read(dir, "x", &kept), -ENOENT);
                ASSERT_OK(faccessat(dir, "x.damaged", F_OK, 0));
                ASSERT_OK(unlinkat(dir, "x.damaged", 0));
        }
        for (size_t i = 0; i < ELEMENTSOF(strange); i++) {
                write_whole(dir, "x", "run", 2, strange[i]);
                ASSERT_EQ(kept_run_read(dir, "x", &kept), -EBADMSG);
        }
        ASSERT_EQ(kept_run_read(dir, "none", &kept), -ENOENT);
        ASSERT_EQ(kept_run_read(dir, "../x", &kept), -EBADMSG);
}

static void test_exit_record(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s);
        struct exit_record r = { .id = ID,
                                 .result = "signal",
                                 .code = "killed",
                                 .status = "KILL",
                                 .real = 5,
                                 .boot = 4 },
                           back;
        char path[512], whole[512] = "";
        FILE *f;
        size_t n;

        ASSERT_OK(exit_record_write(dir, "a", &r));
        ASSERT_OK(exit_record_read(dir, "a", ID, &back));
        ASSERT_STREQ(back.result, "signal");
        ASSERT_STREQ(back.code, "killed");
        ASSERT_STREQ(back.status, "KILL");
        ASSERT_EQ(back.real, 5);
        /* A record belongs to its run, not to the name. */
        ASSERT_EQ(exit_record_read(dir, "a", OTHER_ID, &back), -ENOENT);
        ASSERT_EQ(exit_record_read(dir, "b", ID, &back), -ENOENT);

        /* Torn at every byte: never read as anything. */
        scratch_path(&s, "a", path);
        f = fopen(path, "r");
        ASSERT_TRUE(f != NULL);
        n = fread(whole, 1, sizeof(whole) - 1, f);
        ASSERT_OK(fclose(f));
        ASSERT_TRUE(n > 100 && n < sizeof(whole) - 1);
        for (size_t cut = 0; cut < n; cut++) {
                char c = whole[cut];

                whole[cut] = '\0';
                scratch_write(&s, "torn", whole);
                whole[cut] = c;
                ASSERT_EQ(exit_record_read(dir, "torn", ID, &back), -ENOENT);
        }
        write_whole(dir, "hostile", "exit", 1,
                    "{\"id\":\"" ID "\",\"result\":\"a "
                                    "b\\u001b\",\"code\":\"\",\"status\":\"\",\"boot_id\":\"\","
                    "\"real_usec\":1,\"boot_usec\":1,\"oom_kills\":0,\"cause\":\"\",\"why\":\"\","
                    "\"remedy\":\"\","
                    "\"step_known\":false,\"last_step\":0}");
        ASSERT_EQ(exit_record_read(dir, "hostile", ID, &back), -EBADMSG);
}

static void test_record_from_environment(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_close_ int exits = -1;
        struct exit_record r;

        scratch_write(&s, "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
        scratch_write(&s, "var/lib/tpu-launchd/x", "");
        ASSERT_OK(host_open(s.path, &h));
        exits = state_make(&h, STATE_EXITS, 0700);
        ASSERT_TRUE(exits >= 0);
        ASSERT_OK(unsetenv("SERVICE_RESULT"));
        ASSERT_EQ(exit_record_main(&h, "a", ID), -EBADMSG);
        ASSERT_OK(setenv("SERVICE_RESULT", "exit-code", 1));
        ASSERT_OK(setenv("EXIT_CODE", "exited", 1));
        ASSERT_OK(setenv("EXIT_STATUS", "3", 1));
        ASSERT_EQ(exit_record_main(&h, "../a", ID), -EINVAL);
        ASSERT_OK(exit_record_main(&h, "a", ID));
        ASSERT_OK(exit_record_read(exits, "a", ID, &r));
        ASSERT_STREQ(r.status, "3");
        ASSERT_STREQ(r.boot_id, "11111111-2222-3333-4444-555555555555");
        ASSERT_TRUE(r.real > 0);
}

/* What an engine reads one of a line: a value with a line feed would be another variable. */
static void test_variables_of_a_container(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s), fd = -1;
        char *const good[] = { (char[]){ "A=one two" }, (char[]){ "GONE" }, (char[]){ "B=" }, NULL };
        char *const bad[] = { (char[]){ "A=1" }, (char[]){ "B=2\nLD_PRELOAD=/x" }, NULL };
        char text[64] = "";

        ASSERT_OK(handover_write_variables(dir, "a", good));
        fd = openat(dir, "a.env", O_RDONLY | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
        ASSERT_STREQ(text, "A=one two\nB=\n");
        ASSERT_EQ(handover_write_variables(dir, "a", bad), -EINVAL);
        ASSERT_TRUE(faccessat(dir, "a.env", F_OK, 0) < 0);
}

/* The helper becomes the command, in the directory, with the variables: seen by what the command writes. */
static void test_handover(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_close_ int dir = -1;
        char *const env[] = { (char[]){ "TEST_A=one two" }, (char[]){ "TEST_GONE" }, NULL };
        char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
                               (char[]){ "test \"$TEST_A\" = 'one two' && test -z \"${TEST_GONE+x}\" && "
                                         "test \"$TEST_KEPT\" = k && test \"$#/$2\" = '3/A=b\nc' && pwd" },
                               (char[]){ "" }, (char[]){ "" }, (char[]){ "A=b\nc" }, (char[]){ "" }, NULL };
        char *const missing[] = { (char[]){ "no-such-command" }, NULL };
        struct stat st;

        scratch_write(&s, "run/tpu-launchd/x", "");
        ASSERT_OK(host_open(s.path, &h));
        dir = state_make(&h, STATE_HANDOVER, 0711);
        ASSERT_TRUE(dir >= 0);
        ASSERT_OK(setenv("TEST_GONE", "inherited", 1));
        ASSERT_OK(setenv("TEST_KEPT", "k", 1));
        ASSERT_EQ(handover_main(&h, "a"), HANDOVER_EXIT_NOT_STARTED); /* no handover */
        ASSERT_TRUE(handover_failed(&h, "a"));
        ASSERT_EQ(handover_main(&h, "../a"), HANDOVER_EXIT_NOT_STARTED);
        for (int command = 0; command < 2; command++) {
                int status, out[2];
                char text[64] = "";
                pid_t pid;

                ASSERT_OK(handover_write(dir, "a", getuid(), "/usr", command ? missing : argv, env));
                ASSERT_OK(fstatat(dir, "a", &st, 0));
                ASSERT_EQ(st.st_mode & 07777, 0400);
                ASSERT_OK(pipe(out));
                pid = fork();
                ASSERT_TRUE(pid >= 0);
                if (pid == 0) {
                        (void) dup2(out[1], STDOUT_FILENO);
                        _exit(handover_main(&h, "a"));
                }
                (void) close(out[1]);
                ASSERT_TRUE(read(out[0], text, sizeof(text) - 1) >= 0);
                (void) close(out[0]);
                ASSERT_EQ(waitpid(pid, &status, 0), pid);
                ASSERT_TRUE(WIFEXITED(status));
                ASSERT_EQ(WEXITSTATUS(status), command ? HANDOVER_EXIT_NO_COMMAND : 0);
                ASSERT_EQ(handover_failed(&h, "a"), command == 1);
                if (!command)
                        ASSERT_STREQ(text, "/usr\n");
        }
        handover_remove(dir, "a");
        ASSERT_EQ(fstatat(dir, "a", &st, 0), -1);
}

static void test_damaged_handover(void) {
        static const struct {
                const char *data;
                size_t len;
        } damaged[] = { { "", 0 },
                        { "/usr", 4 },
                        { "/usr", 5 },
                        { "/usr\0" "1", 6 },
                        { "/usr\0" "1", 7 },
                        { "/usr\0" "0\0true", 12 },
                        { "/usr\0" "3\0true\0x", 14 },
                        { "/usr\0" "x\0true", 12 },
                        { "/usr\0" "1537\0true", 15 },
                        { "/usr\0" "18446744073709551615\0true", 31 },
                        { "/no/such/directory\0" "1\0true", 26 } };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_close_ int dir = -1;

        scratch_write(&s, "run/tpu-launchd/x", "");
        ASSERT_OK(host_open(s.path, &h));
        dir = state_make(&h, STATE_HANDOVER, 0711);
        ASSERT_TRUE(dir >= 0);
        for (size_t i = 0; i < ELEMENTSOF(damaged); i++) {
                ASSERT_OK(durable_write(dir, "a", damaged[i].data, damaged[i].len, 0600));
                ASSERT_EQ(handover_main(&h, "a"), HANDOVER_EXIT_NOT_STARTED);
        }
}

static void test_cgroup(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_free_ struct pid_list *l = malloc(sizeof(*l));
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_TRUE(l != NULL);
        scratch_write(&s, "sys/fs/cgroup/systemd/tpu.slice/run.slice/cgroup.procs", "");
        scratch_write(&s, "sys/fs/cgroup/systemd/tpu.slice/run.slice/a.service/cgroup.procs", "10\n11\n0\n");
        scratch_write(&s, "sys/fs/cgroup/systemd/tpu.slice/run.slice/docker.scope/sub/cgroup.procs", "12\n");
        scratch_write(&s, "sys/fs/cgroup/systemd/tpu.slice/other/cgroup.procs", "99\n");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(cgroup_pids(&h, "/tpu.slice/run.slice", l));
        ASSERT_EQ(l->n, 3);
        ASSERT_EQ(cgroup_pids(&h, "/none", l), -ENOENT);
        ASSERT_EQ(cgroup_pids(&h, "none", l), -EINVAL);
        /* The unified tree, where there is one, is asked first. */
        scratch_write(&s, "sys/fs/cgroup/unified/tpu.slice/run.slice/cgroup.procs", "7\n");
        ASSERT_OK(cgroup_pids(&h, "/tpu.slice/run.slice", l));
        ASSERT_EQ(l->n, 1);
}

TEST_MAIN(test_names, test_sets_of_numbers, test_file_round_trip, test_secrets_of_a_command,
          test_a_command_is_text, test_bad_run_files, test_exit_record, test_record_from_environment,
          test_variables_of_a_container, test_handover, test_damaged_handover, test_cgroup)
