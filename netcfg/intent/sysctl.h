/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sysctls and module parameters: how they are read, through the seam, and judged.
 */
#include "finding.h"
#include "host.h"
#include "wanted.h"

/*
 * The verdict on one sysctl, the same for netcfg and for probes; check "sysctl". value is what was read (any
 * white space), error the -errno of reading it or 0 (value may then be NULL); with -EROFS there is a value
 * (intent_read_sysctl()).
 */
void intent_judge_sysctl(const struct intent_sysctl *s, const char *value, int error, struct finding *ret);
/* As above; check "module.parameter". container: intent_in_container(), where parameters are the machine's,
 * and what is not as wanted is UNKNOWN with that reason. */
void intent_judge_parameter(const struct intent_sysctl *s, const char *value, int error, bool container,
                            struct finding *ret);

/* The value, blanks collapsed. -EROFS: buf holds the value, but nobody may write it in this network
 * namespace; -ENOENT: this kernel has none; other -errno of reading it. */
int intent_read_sysctl(const struct host *h, const char *name, char *buf, size_t size);
/* "tcp_cubic.hystart_detect" → "/sys/module/tcp_cubic/parameters/hystart_detect". -EINVAL. */
int intent_parameter_path(const char *name, char buf[static 128]);
/* -EROFS: buf holds the value, but this process may not write it. */
int intent_read_parameter(const struct host *h, const char *name, char *buf, size_t size);
/* systemd's own mark of a container. */
bool intent_in_container(const struct host *h);

/* "net.ipv4.tcp_rmem" → "/proc/sys/net/ipv4/tcp_rmem"; a dot of a NIC's name is written "/", as sysctl(8)
 * has it: "net.ipv4.conf.eth0/7.rp_filter". -EINVAL for a name that has anything but [A-Za-z0-9_./-] or
 * leaves /proc/sys. */
int intent_sysctl_path(const char *name, char *buf, size_t size);
/* Collapses white space of a sysctl's value as read: "4096\t131072\t6291456" → "4096 131072 6291456". In
 * place. */
void intent_sysctl_normalize(char *value);
