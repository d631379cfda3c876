/* SPDX-License-Identifier: Apache-2.0 */
/* A run in a container: the engine's command line, which image a name means, what may be mounted. All of it
 * runs as root, so that nothing of a user's may become an option of the engine. */
#include "engine.h"
#include "image.h"
#include "run_key.h"
#include "scratch.h"
#include "test.h"
#include "texts.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static char *const no_words[] = { NULL };

/* The words of a command line, "|" between and around. */
static char *line_of(const struct engine_run *r) {
        char **argv = NULL, *text = NULL;
        size_t len;
        FILE *f = open_memstream(&text, &len);

        ASSERT_TRUE(f != NULL);
        ASSERT_OK(engine_argv(r, &argv));
        for (size_t i = 0; argv[i]; i++)
                fprintf(f, "|%s", argv[i]);
        fputc('|', f);
        (void) fclose(f);
        (void) strings_free(argv);
        return text;
}

static struct engine_run run_of(enum engine e) {
        static char words[3][16] = { "python3", "--privileged", "" };
        static char *const argv[] = { words[0], words[1], words[2], NULL };

        return (struct engine_run){ .engine = e,
                                    .image = ID,
                                    .name = "a-b",
                                    .slice = "tpu-run-a_b.slice",
                                    .variables = "/run/x/a-b.env",
                                    .directory = "",
                                    .uid = 1000,
                                    .gid = 1001,
                                    .devices = no_words,
                                    .shm = 1024,
                                    .memlock = UINT64_MAX,
                                    .nofile = 100,
                                    .argv = argv };
}

static void expect_words(const char *line, const char *const words[], size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!strstr(line, words[i]))
                        test_fail(__FILE__, __LINE__, "no %s in %s", words[i], line);
}

static void test_podman(void) {
        static const char *const words[] = { "|/usr/bin/podman|--events-backend=file|run|", "|--rm|",
                                             "|--cgroups=split|", "|--init|", "|--pull=never|",
                                             "|--user=1000:1001|", "|--cap-drop=ALL|",
                                             "|--security-opt=no-new-privileges|", "|--network=host|",
                                             "|--log-driver=none|", "|--name=tpu-run-a-b|", "|--replace|",
                                             "|--ulimit=host|", "|--env-file=/run/x/a-b.env|",
                                             "|--shm-size=1024|" };
        struct engine_run r = run_of(ENGINE_PODMAN);
        _cleanup_free_ char *line = line_of(&r);

        expect_words(line, words, ELEMENTSOF(words));
        ASSERT_TRUE(!strstr(line, "--workdir") && !strstr(line, "--device") && !strstr(line, "--mount") &&
                    !strstr(line, "--group-add") && !strstr(line, "--cgroup-parent"));
        /* what the user gives stands behind the image, where no engine looks for options */
        ASSERT_TRUE(endswith(line, "|" ID "|python3|--privileged||"));
}

static void test_docker(void) {
        static const char *const words[] = { "|/usr/bin/docker|run|", "|--cgroup-parent=tpu-run-a_b.slice|",
                                             "|--ulimit=memlock=-1:-1|", "|--ulimit=nofile=100:100|",
                                             "|--cap-drop=ALL|", "|--security-opt=no-new-privileges|" };
        struct engine_run r = run_of(ENGINE_DOCKER);
        _cleanup_free_ char *line = line_of(&r);

        expect_words(line, words, ELEMENTSOF(words));
        ASSERT_TRUE(!strstr(line, "--cgroups=split") && !strstr(line, "--replace") &&
                    !strstr(line, "--events-backend"));
}

static void test_what_it_sees(void) {
        static const char *const words[] = { "|--workdir=/srv/-v|", "|--group-add=7|",
                                             "|--device=/dev/accel0|",
                                             "|--mount=type=bind,source=/data,target=/data|",
                                             "|--mount=type=bind,source=/a/b,target=/a/b,readonly|" };
        char *const devices[] = { (char[]){ "/dev/accel0" }, (char[]){ "char-nvidia*" },
                                  (char[]){ "/dev/fuse" }, NULL };
        char *const mounts[] = { (char[]){ "/data" }, (char[]){ "/a/b:ro" }, NULL };
        const gid_t groups[] = { 1001, 7 };
        struct engine_run r = run_of(ENGINE_PODMAN);
        _cleanup_free_ char *line = NULL;

        r.directory = "/srv/-v";
        r.devices = devices;
        r.mounts = mounts;
        r.groups = groups;
        r.n_groups = ELEMENTSOF(groups);
        line = line_of(&r);
        expect_words(line, words, ELEMENTSOF(words));
        ASSERT_TRUE(!strstr(line, "nvidia") && !strstr(line, "fuse") && !strstr(line, "--group-add=1001"));
}

static void test_what_is_refused(void) {
        static const char *const bad[] = { "", "/", "data", "/data/", "/../etc", "/a//b", "/a:rw", "/a:/b",
                                           "/a:ro:ro", "/a,readonly", "/a b", "/a\n", "/a\"", "/a/./b",
                                           "/.", "/a/.:ro", "/a,source=/etc", "/a:ro,z", "/\xc3\xa4" };
        static const char upper[] = "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef";
        static const char *const ids[] = { "", "py", "sha256:" ID, ID "0", "-v", upper };
        struct engine_run r = run_of(ENGINE_PODMAN);
        char **argv = NULL, longest[ENGINE_MOUNT_MAX + 1];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char *const mounts[] = { (char *) (uintptr_t) bad[i], NULL };

                if (engine_mount_is_valid(bad[i]))
                        test_fail(__FILE__, __LINE__, "'%s' is mounted", bad[i]);
                r.mounts = mounts;
                ASSERT_EQ(engine_argv(&r, &argv), -EINVAL);
        }
        memset(longest, 'a', sizeof(longest) - 1);
        longest[0] = '/';
        longest[sizeof(longest) - 1] = '\0';
        ASSERT_FALSE(engine_mount_is_valid(longest));
        r.mounts = NULL;
        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                r.image = ids[i];
                ASSERT_EQ(engine_argv(&r, &argv), -EINVAL);
        }
        ASSERT_TRUE(!argv);
}

/* Each word of the key is an engine. */
static void test_engines(void) {
        static const char words[] = "podman docker";
        enum engine e;

        ASSERT_STREQ(run_key_find("engine")->words, words);
        ASSERT_OK(engine_parse("podman", &e));
        ASSERT_EQ(e, ENGINE_PODMAN);
        ASSERT_OK(engine_parse("docker", &e));
        ASSERT_EQ(e, ENGINE_DOCKER);
        ASSERT_EQ(engine_parse("runc", &e), -EINVAL);
        ASSERT_EQ(engine_parse("", &e), -EINVAL);
}

/* --- Images -------------------------------------------------------------------------------------------- */

#define PODMAN_LIST                                                                                         \
        "[{\"id\":\"" ID "\",\"digest\":\"sha256:" OTHER_ID "\",\"names\":[\"localhost/py:1\","             \
        "\"docker.io/library/base:latest\"],\"created\":\"2026-01-01T00:00:00Z\"},"                         \
        "{\"id\":\"" OTHER_ID "\",\"names\":[\"docker.io/library/py:1\",\"quay.io:443/ml/train:2\"]},"      \
        "{\"id\":\"short\",\"names\":[\"localhost/broken:latest\"]},{\"id\":\"" ID "\"}]"
#define DOCKER_LIST                                                                                         \
        "{\"Repositories\":{\"py\":{\"py:1\":\"sha256:" ID "\"},\"quay.io/ml/train\":"                      \
        "{\"quay.io/ml/train:latest\":\"sha256:" OTHER_ID "\"}}}"

static void test_names(void) {
        static const struct {
                enum engine engine;
                const char *name, *id;
                int error;
        } cases[] = {
                { ENGINE_PODMAN, "localhost/py:1", ID, 0 },
                { ENGINE_PODMAN, "py:1", ID, 0 }, /* localhost before docker.io, as podman has it */
                { ENGINE_PODMAN, "docker.io/library/py:1", OTHER_ID, 0 },
                { ENGINE_PODMAN, "base", ID, 0 },
                { ENGINE_PODMAN, "library/base", ID, 0 },
                { ENGINE_PODMAN, "quay.io:443/ml/train:2", OTHER_ID, 0 },
                { ENGINE_PODMAN, "localhost/py@sha256:" OTHER_ID, ID, 0 },
                { ENGINE_PODMAN, "localhost/py@sha256:" ID, NULL, -ENOENT },
                { ENGINE_PODMAN, "quay.io:443/ml/train", NULL, -ENOENT },
                { ENGINE_PODMAN, "py", NULL, -ENOENT },
                { ENGINE_PODMAN, "localhost/broken", NULL, -EBADMSG },
                { ENGINE_DOCKER, "py:1", ID, 0 },
                { ENGINE_DOCKER, "docker.io/library/py:1", ID, 0 },
                { ENGINE_DOCKER, "quay.io/ml/train", OTHER_ID, 0 },
                { ENGINE_DOCKER, "train", NULL, -ENOENT },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *list = cases[i].engine == ENGINE_PODMAN ? PODMAN_LIST : DOCKER_LIST;
                char id[ENGINE_ID_SIZE] = "";
                int r = image_of_list(cases[i].engine, list, strlen(list), cases[i].name, id);

                if (r != cases[i].error || (r == 0 && !streq(id, cases[i].id)))
                        test_fail(__FILE__, __LINE__, "%s: %d, %s", cases[i].name, r, id);
        }
}

static void test_no_lists(void) {
        static const char *const texts[] = { "", "[", "{}", "\"a\"", "[1,null,{\"names\":7}]",
                                             "{\"Repositories\":[]}" };
        char id[ENGINE_ID_SIZE];

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                ASSERT_TRUE(image_of_list(ENGINE_PODMAN, texts[i], strlen(texts[i]), "py", id) < 0);
                ASSERT_EQ(image_of_list(ENGINE_DOCKER, texts[i], strlen(texts[i]), "py", id), -EBADMSG);
        }
}

static void test_store(void) {
        static const char *const without[] = { "", "# graphroot = \"/a\"\n", "graphroot = \"a\"\n",
                                               "graphroot = \"/a\n", "graphroots = \"/a\"\n",
                                               "graphroot\n" };
        char store[32];

        for (size_t i = 0; i < ELEMENTSOF(without); i++)
                ASSERT_FALSE(image_store(without[i], store, sizeof(store)));
        ASSERT_TRUE(image_store("[storage]\n driver = \"overlay\"\n  graphroot=\"/mnt/images\"", store,
                                sizeof(store)));
        ASSERT_STREQ(store, "/mnt/images");
}

static void test_on_a_host(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char id[ENGINE_ID_SIZE] = "";
        struct problem p = { 0 };

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(image_find(&h, ENGINE_PODMAN, "py:1", id, &p), -ENOENT);
        ASSERT_STREQ(p.text, "image py:1 is not among those that podman has on this host");
        ASSERT_STREQ(p.remedy, "sudo podman pull py:1 # on that host");
        scratch_write(&s, "etc/containers/storage.conf", "graphroot = \"/mnt/images\"\n");
        scratch_write(&s, "mnt/images/overlay-images/images.json", PODMAN_LIST);
        scratch_write(&s, "var/lib/docker/image/vfs/repositories.json", DOCKER_LIST);
        ASSERT_OK(image_find(&h, ENGINE_PODMAN, "py:1", id, &p));
        ASSERT_STREQ(id, ID);
        ASSERT_OK(image_find(&h, ENGINE_DOCKER, "quay.io/ml/train", id, &p));
        ASSERT_STREQ(id, OTHER_ID);
        scratch_write(&s, "mnt/images/overlay-images/images.json", "[");
        ASSERT_EQ(image_find(&h, ENGINE_PODMAN, "py:1", id, &p), -EBADMSG);
        ASSERT_TRUE(startswith(p.text, "the images of podman cannot be read from /mnt/images/overlay-"));
}

TEST_MAIN(test_podman, test_docker, test_what_it_sees, test_what_is_refused, test_engines, test_names,
          test_no_lists, test_store, test_on_a_host)
