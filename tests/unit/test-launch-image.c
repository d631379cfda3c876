/* SPDX-License-Identifier: Apache-2.0 */
/* A run in a container, as a caller asks for it: what is refused, and with which words; what is handed to
 * the engine, and what is shown of it. */
#include "launch-bench.h"
#include "run_table.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define IMAGES "var/lib/containers/storage/overlay-images/images.json"
#define AUTHORITY "etc/tpu-hostd/authority.conf.d/1.conf"

static void make_host(struct bench *b) {
        bench_init(b);
        scratch_write(&b->scratch, "usr/bin/podman", "");
        scratch_write(&b->scratch, "usr/bin/docker", "");
        scratch_write(&b->scratch, "sys/fs/cgroup/cgroup.controllers", "");
        scratch_write(&b->scratch, "proc/1/root/dev/accel0", "");
        scratch_write(&b->scratch, IMAGES, "[{\"id\":\"" ID "\",\"names\":[\"localhost/py:1\"]}]");
        scratch_write(&b->scratch, "var/lib/docker/image/overlay2/repositories.json",
                      "{\"Repositories\":{\"py\":{\"py:1\":\"sha256:" ID "\"}}}");
}

static char *agreed = NULL; /* by the hosts of the run */

static int ask_image(struct bench *b, char *engine, char *image, char *secret) {
        char *env[] = { (char[]){ "MINE=a b#c" }, (char[]){ "LD_PRELOAD=/lib/x.so" } };
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Local__Secret one = LOCAL__SECRET__INIT, *secrets[] = { &one };
        char name[] = "a";
        Run__Spec s = spec_of_python(name);

        s.env = env;
        s.n_env = ELEMENTSOF(env);
        s.image = image;
        s.engine = engine;
        one.name = one.value = secret;
        q.secret = secrets;
        q.n_secret = secret != NULL;
        if (agreed)
                q.image_id = agreed;
        q.spec = &s;
        return ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

/* The whole of a handover, its NUL bytes as '|'. */
static void read_handover(struct bench *b, const char *name, char *buf, size_t size, uid_t *ret_uid) {
        _cleanup_close_ int fd = openat(b->runs->handover_fd, name, O_RDONLY | O_CLOEXEC);
        struct stat st;
        ssize_t n;

        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(fstat(fd, &st));
        ASSERT_EQ(st.st_mode & 07777, 0400);
        n = read(fd, buf, size - 1);
        ASSERT_TRUE(n > 0);
        for (ssize_t i = 0; i < n; i++)
                buf[i] = buf[i] ? buf[i] : '|';
        buf[n] = '\0';
        *ret_uid = st.st_uid;
}

static void test_podman(void) {
        char podman[] = "podman", image[] = "py:1", text[4096];
        _cleanup_bench_ struct bench b;
        Local__RunListReply *l;
        Local__RunReply *reply;
        uid_t uid;
        int fd;

        make_host(&b);
        scratch_write(&b.scratch, AUTHORITY, "[Container]\nMount=/srv:ro\n");
        fd = ask_image(&b, podman, image, NULL);
        ASSERT_EQ(b.fake.starts, 1);
        read_handover(&b, "a", text, sizeof(text), &uid);
        ASSERT_EQ(uid, 0);
        ASSERT_TRUE(startswith(text, "/|") && strstr(text, "|/usr/bin/podman|") &&
                    strstr(text, "|--cgroups=split|") && strstr(text, "|--device=/dev/accel0|") &&
                    strstr(text, "|--mount=type=bind,source=/srv,target=/srv,readonly|") &&
                    strstr(text, "|--env-file=/run/tpu-launchd/handover/a.env|") &&
                    strstr(text, "|--name=tpu-run-a|") && strstr(text, "|" ID "|python3|train.py|"));
        ASSERT_TRUE(!strstr(text, "MINE=") && !strstr(text, "LD_PRELOAD") && !strstr(text, "--workdir"));
        read_handover(&b, "a.env", text, sizeof(text), &uid);
        ASSERT_EQ(uid, 0);
        ASSERT_TRUE(strstr(text, "MINE=a b#c\n") && strstr(text, "LD_PRELOAD=/lib/x.so\n") &&
                    strstr(text, "TPU_WORKER_ID=0\n") && !strstr(text, "tcmalloc"));
        runs_unit_events.started("a", "done", b.runs);
        reply = (Local__RunReply *) take(&b, fd, LOCAL__KIND__KIND_RUN_REPLY, &local__run_reply__descriptor);
        ASSERT_TRUE(startswith(reply->malloc, "glibc (in a container"));
        ASSERT_STREQ(reply->image_id, ID);
        local__run_reply__free_unpacked(reply, NULL);
        (void) close(fd);
        /* after our own restart, too */
        bench_down(&b);
        bench_up(&b);
        l = list(&b, 1);
        ASSERT_STREQ(l->run[0]->image, "podman py:1 (0123456789ab)");
        ASSERT_STREQ(l->run[0]->command, "python3 train.py");
        local__run_list_reply__free_unpacked(l, NULL);
        record(&b, "exit-code", "exited", "137");
        runs_unit_events.gone("a", b.runs);
        expect_run(&b, "exited", "signal", "137");
        ASSERT_TRUE(faccessat(b.runs->handover_fd, "a.env", F_OK, 0) < 0);
}

static void test_docker_is_granted(void) {
        char docker[] = "docker", image[] = "py:1", text[4096];
        _cleanup_bench_ struct bench b;
        uid_t uid;

        make_host(&b);
        expect_error(&b, ask_image(&b, docker, image, NULL), EACCES, "docker may not make containers");
        ASSERT_EQ(b.fake.starts, 0);
        scratch_write(&b.scratch, AUTHORITY, "[Container]\nDocker=yes\n");
        (void) close(ask_image(&b, docker, image, NULL));
        ASSERT_EQ(b.fake.starts, 1);
        read_handover(&b, "a", text, sizeof(text), &uid);
        ASSERT_TRUE(strstr(text, "|/usr/bin/docker|run|--cgroup-parent=tpu-run-a.slice|") &&
                    strstr(text, "|" ID "|python3|train.py|"));
}

static void test_refusals(void) {
        static const struct {
                const char *image, *secret, *without; /* without: a file that is not there */
                int error;
                const char *part;
        } cases[] = {
                { "--privileged", NULL, NULL, EINVAL, "image '--privileged' is not an image's name" },
                { "py\n:1", NULL, NULL, EINVAL, "is not an image's name" },
                { "oci:/etc", NULL, NULL, EINVAL, "is not an image's name" },
                { "py:2", NULL, NULL, ENOENT, "image py:2 is not among those that podman has" },
                { "py:1", "KEY", NULL, EINVAL, "secrets are no variables of a run in a container" },
                { "py:1", NULL, "usr/bin/podman", ENOENT, "podman is not installed on this host" },
                { "py:1", NULL, "sys/fs/cgroup/cgroup.controllers", ENOENT, "control groups of version 2" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char podman[] = "podman", image[64], secret[8], path[512];
                _cleanup_bench_ struct bench b;

                make_host(&b);
                if (cases[i].without) {
                        scratch_path(&b.scratch, cases[i].without, path);
                        ASSERT_OK(unlink(path));
                }
                (void) snprintf(image, sizeof(image), "%s", cases[i].image);
                (void) snprintf(secret, sizeof(secret), "%s", cases[i].secret ? cases[i].secret : "");
                expect_error(&b, ask_image(&b, podman, image, cases[i].secret ? secret : NULL),
                             cases[i].error, cases[i].part);
                ASSERT_EQ(b.fake.starts, 0);
        }
}

/* The engine's options stand in front of as many arguments as any run may have. */
static void test_many_arguments(void) {
        static char word[] = "x", *argv[RUN_ARGV_MAX];
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        char name[] = "a", image[] = "py:1", text[8192];
        _cleanup_bench_ struct bench b;
        Run__Spec s = spec_of_python(name);
        uid_t uid;

        make_host(&b);
        for (size_t i = 0; i < ELEMENTSOF(argv); i++)
                argv[i] = word;
        s.argv = argv;
        s.n_argv = ELEMENTSOF(argv);
        s.image = image;
        q.spec = &s;
        (void) close(ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base));
        ASSERT_EQ(b.fake.starts, 1);
        read_handover(&b, "a", text, sizeof(text), &uid);
        /* "/", the number of words, and these: handover.c has room for 512 more than a run's own */
        ASSERT_TRUE(startswith(text, "/|") && atoi(text + 2) > RUN_ARGV_MAX &&
                    atoi(text + 2) < RUN_ARGV_MAX + 256 + 64);
}

/* Between the word of all hosts and the start the name was given to another image. */
static void test_another_than_agreed(void) {
        char podman[] = "podman", image[] = "py:1", same[] = ID;
        char other[] = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
        _cleanup_bench_ struct bench b;

        make_host(&b);
        agreed = other;
        expect_error(&b, ask_image(&b, podman, image, NULL), ESTALE,
                     "image py:1 is 0123456789ab on this host now, and the hosts of the run agreed on");
        ASSERT_EQ(b.fake.starts, 0);
        agreed = same;
        (void) close(ask_image(&b, podman, image, NULL));
        ASSERT_EQ(b.fake.starts, 1);
        agreed = NULL;
}

int main(void) {
        static void (*const tests[])(void) = { test_podman, test_docker_is_granted, test_refusals,
                                               test_many_arguments, test_another_than_agreed };

        return bench_main(tests, ELEMENTSOF(tests));
}
