/* SPDX-License-Identifier: Apache-2.0 */
/* On which machines no run is started, by what they say of themselves. */
#include "platform.h"
#include "scratch.h"

static int check_booted(bool systemd, const char *os, const char *group, const char *service_host,
                        struct problem *p) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;

        *p = (struct problem){ 0 };
        if (systemd)
                scratch_write(&s, "run/systemd/system/x", "");
        if (os)
                scratch_write(&s, "etc/os-release", os);
        if (group)
                scratch_write(&s, "proc/self/cgroup", group);
        ASSERT_OK(host_open(s.path, &h));
        return platform_check(&h, service_host, p);
}

static int check(const char *os, const char *group, const char *service_host, struct problem *p) {
        return check_booted(true, os, group, service_host, p);
}

static void taken(void) {
        struct problem p;

        ASSERT_OK(check(NULL, NULL, NULL, &p));
        ASSERT_OK(check("ID=debian\nNAME=\"Debian\"\n", "0::/system.slice/tpu-launchd.service\n", NULL, &p));
        ASSERT_OK(check("VERSION_ID=cos\nID=cosmos\nID_LIKE=cos\n", "0::/\n", "", &p));
        ASSERT_OK(check("ID=\"\"\nID=\nID", NULL, NULL, &p));
        ASSERT_STREQ(p.text, "");
}

static void refused(void) {
        struct problem p;

        ASSERT_EQ(check("NAME=x\nID=cos\nVERSION=1\n", NULL, NULL, &p), -EOPNOTSUPP);
        ASSERT_TRUE(strstr(p.text, "Container-Optimized OS") && p.remedy[0]);
        ASSERT_EQ(check("ID=\"cos\"", NULL, NULL, &p), -EOPNOTSUPP);
        ASSERT_EQ(check("ID=debian\n", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n",
                        NULL, &p), -EOPNOTSUPP);
        ASSERT_TRUE(strstr(p.text, "Kubernetes pod") && p.remedy[0]);
        ASSERT_EQ(check("ID=debian\n", "0::/\n", "10.0.0.1", &p), -EOPNOTSUPP);
}

/* As in most containers: what else refuses a run is named first. */
static void refused_without_systemd(void) {
        struct problem p;

        ASSERT_EQ(check_booted(false, "ID=debian\n", "0::/\n", NULL, &p), -EOPNOTSUPP);
        ASSERT_TRUE(strstr(p.text, "systemd is not the first process") &&
                    strstr(p.remedy, "systemd has booted"));
        ASSERT_EQ(check_booted(false, "ID=debian\n", "0::/\n", "10.0.0.1", &p), -EOPNOTSUPP);
        ASSERT_TRUE(strstr(p.text, "Kubernetes pod") != NULL);
}

TEST_MAIN(taken, refused, refused_without_systemd)
