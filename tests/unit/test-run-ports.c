/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of a run a host tries, and what it says of the answers. */
#include "run_ports.h"
#include "test.h"

static json_t *run_of(unsigned slices, unsigned hosts) {
        json_t *list = json_array();

        for (unsigned s = 0; s < slices; s++) {
                char name[16], host[32], address[32];
                json_t *all = json_array();

                snprintf(name, sizeof(name), "s%u", s);
                for (unsigned h = 0; h < hosts; h++) {
                        snprintf(host, sizeof(host), "s%u-%u", s, h);
                        snprintf(address, sizeof(address), "10.%u.%u.%u", s, h / 256, h % 256);
                        json_array_append_new(all,
                                              json_pack("{s:i, s:s, s:[s]}", "worker", (int) h, "host",
                                                        host, "address", address));
                }
                json_array_append_new(list, json_pack("{s:s, s:o}", "slice", name, "hosts", all));
        }
        return json_pack("{s:o, s:{s:s, s:s, s:i}}", "slices", list, "coordinator", "host", "s0-0",
                         "address", "10.0.0.0", "port", 8476);
}

static size_t ports_of(unsigned slices, unsigned hosts, const char *slice, unsigned worker, bool chips,
                       const Run__Spec *spec, struct run_port *ret) {
        static const Run__Spec none = RUN__SPEC__INIT;
        json_t *run = run_of(slices, hosts);
        size_t n = run_ports_of(run, spec ? spec : &none, slice, worker, chips, ret);

        json_decref(run);
        return n;
}

static bool has(const struct run_port *p, size_t n, const char *host, unsigned port) {
        for (size_t i = 0; i < n; i++)
                if (streq(p[i].host, host) && p[i].port == port)
                        return true;
        return false;
}

static void every_pair_of_a_small_run(void) {
        struct run_port p[RUN_PORTS_MAX];
        size_t n = ports_of(1, 4, "s0", 2, true, NULL, p);

        ASSERT_EQ(n, 4);
        ASSERT_TRUE(has(p, n, "s0-0", 8476) && has(p, n, "s0-0", 8471) && has(p, n, "s0-1", 8471) &&
                    has(p, n, "s0-3", 8471));
        ASSERT_TRUE(p[0].coordinators);
        ASSERT_EQ(ports_of(1, 4, "s0", 0, true, NULL, p), 3); /* it coordinates itself */
        ASSERT_EQ(ports_of(1, 4, "s0", 2, false, NULL, p), 1);
        for (unsigned a = 0; a < 33; a++)
                for (unsigned b = 0; b < 33; b++) {
                        char to[16], from[16];
                        struct run_port q[RUN_PORTS_MAX];

                        snprintf(to, sizeof(to), "s0-%u", b);
                        snprintf(from, sizeof(from), "s0-%u", a);
                        n = ports_of(1, 33, "s0", a, true, NULL, p);
                        size_t k = ports_of(1, 33, "s0", b, true, NULL, q);
                        ASSERT_TRUE(a == b || has(p, n, to, 8471) || has(q, k, from, 8471));
                }
}

/* No host tries more than a fixed number, none is tried by more, and all are tried. */
static void no_storm(void) {
        json_t *run = run_of(1, 4096);
        static const Run__Spec spec = RUN__SPEC__INIT;
        struct run_port p[RUN_PORTS_MAX];

        for (unsigned h = 0; h < 4096; h += 61) {
                size_t n = run_ports_of(run, &spec, "s0", h, true, p), mesh = 0;

                ASSERT_TRUE(n <= RUN_PORTS_MAX);
                for (size_t i = 0; i < n; i++)
                        mesh += p[i].port == 8471;
                ASSERT_EQ(mesh, 23); /* 16 near, and 32 to 2048 */
        }
        json_decref(run);
}

static void multislice(void) {
        Run__Spec spec = RUN__SPEC__INIT;
        char debug[] = "LIBTPU_INIT_ARGS=--megascale_debug_port=8081", port[] = "MEGASCALE_PORT=9000";
        char *flags[] = { debug }, *own[] = { port };
        struct run_port p[RUN_PORTS_MAX];
        size_t n = ports_of(2, 2, "s1", 1, true, NULL, p);

        ASSERT_EQ(n, 5);
        ASSERT_TRUE(has(p, n, "s0-0", 8081) && has(p, n, "s0-0", 8471) && has(p, n, "s1-0", 8471));
        spec.env = flags;
        spec.n_env = 1;
        n = ports_of(2, 2, "s1", 1, true, &spec, p);
        ASSERT_TRUE(has(p, n, "s0-0", 9915) && !has(p, n, "s0-0", 8081));
        spec.env = own;
        n = ports_of(2, 2, "s1", 1, true, &spec, p);
        ASSERT_TRUE(has(p, n, "s0-0", 9000));
}

static struct run_port answered(const char *host, uint16_t port, enum port_answer a, int error) {
        struct run_port p = { .port = port, .answered = true, .answer = a, .error = error };

        snprintf(p.host, sizeof(p.host), "%s", host);
        snprintf(p.address, sizeof(p.address), "10.0.0.1");
        return p;
}

static void words(void) {
        struct run_port p[4] = { answered("h0", 8476, PORT_REFUSES, ECONNREFUSED),
                                 answered("h1", 8471, PORT_ANSWERS, 0),
                                 answered("h2", 8471, PORT_SILENT, ETIMEDOUT),
                                 answered("h3", 8471, PORT_SILENT, ETIMEDOUT) };
        struct finding f;

        ASSERT_FALSE(run_ports_judge(p, 2, "h9", &f)); /* a refusal is an answer */
        ASSERT_TRUE(run_ports_judge(p, 3, "h9", &f));
        ASSERT_STREQ(f.reason,
                     "port 8471 of h2 (10.0.0.1), libtpu's mesh, is blocked: no answer to h9 within 3 s");
        ASSERT_TRUE(strstr(f.remedy, "# on h2") && strstr(f.remedy, "tcp port 8471"));
        ASSERT_TRUE(run_ports_judge(p, 4, "h9", &f));
        ASSERT_TRUE(strstr(f.reason, "within 3 s; and 1 more: h3:8471"));
        p[2] = answered("h2", 8471, PORT_REJECTED, ECONNREFUSED);
        ASSERT_TRUE(run_ports_judge(p, 3, "h9", &f));
        ASSERT_TRUE(strstr(f.reason, "a firewall rejects what h9 sends"));
        p[2] = answered("h2", 8471, PORT_NO_WAY, EINVAL);
        ASSERT_TRUE(run_ports_judge(p, 3, "h9", &f));
        ASSERT_TRUE(strstr(f.reason, "cannot be reached from h9: a route of this host is a blackhole"));
        ASSERT_STREQ(f.remedy, "tpuctl check path; ip route get 10.0.0.1");
        p[0].coordinators = true;
        p[0].answer = PORT_SILENT;
        ASSERT_TRUE(run_ports_judge(p, 1, "h9", &f));
        ASSERT_TRUE(startswith(f.reason, "port 8476 of the coordinator h0 (10.0.0.1) is blocked: no "));
        p[0].answered = false;
        ASSERT_FALSE(run_ports_judge(p, 1, "h9", &f));
}

TEST_MAIN(every_pair_of_a_small_run, no_storm, multislice, words)
