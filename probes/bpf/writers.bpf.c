/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Who changes settings of the network: writes of sysctls, and what rtnetlink and ioctl(2) are asked to set
 * in the agent's network namespace. All are rare, and nothing else runs through these functions: a training
 * pays nothing for it. A tracepoint that sees all of them would be sys_enter, which each system call passes.
 */
#include "task_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf_own.h"
#include "task_names.bpf.h"
#include "writers_figures.h"

/* include/uapi/linux/rtnetlink.h, sockios.h */
#define RTM_NEWLINK 16
#define RTM_DELLINK 17
#define RTM_SETLINK 19
#define RTM_NEWROUTE 24
#define RTM_DELROUTE 25
#define RTM_NEWRULE 32
#define RTM_DELRULE 33
#define SIOCSIFFLAGS 0x8914
#define SIOCSIFMTU 0x8922
#define SIOCETHTOOL 0x8946

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/nsproxy.h, mm_types.h, include/net/net_namespace.h, include/linux/fs.h */
struct net {
        struct ns_common ns;
};

struct nsproxy {
        struct net *net_ns;
};

struct mm_struct {
        unsigned long arg_start, arg_end;
};

struct task_struct___writers {
        struct nsproxy *nsproxy;
        struct mm_struct *mm;
        struct task_struct *real_parent;
};

struct dentry___writers {
        struct qstr d_name;
        struct dentry___writers *d_parent;
};

struct kiocb {
        struct file *ki_filp;
};

#pragma clang attribute pop

/* include/uapi/linux/netlink.h, rtnetlink.h: they never change */
struct nlmsghdr {
        __u32 nlmsg_len;
        __u16 nlmsg_type, nlmsg_flags;
        __u32 nlmsg_seq, nlmsg_pid;
};

struct ifinfomsg {
        unsigned char ifi_family, padding;
        unsigned short ifi_type;
        int ifi_index;
};

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_own own = { 0 };

struct writers_figures figures;

static __always_inline bool is_of_our_network(struct task_struct *task) {
        struct task_struct___writers *t = (void *) task;

        return BPF_CORE_READ(t, nsproxy, net_ns, ns.inum) == own.netns;
}

static __always_inline void put_writer(struct writer_record *r, struct task_struct *task) {
        struct task_struct___writers *t = (void *) task;
        unsigned long from = BPF_CORE_READ(t, mm, arg_start), to = BPF_CORE_READ(t, mm, arg_end);
        struct kernfs_node *node = group_of(task);
        __u64 len = to - from < WRITER_COMMAND_MAX ? to - from : WRITER_COMMAND_MAX - 1;

        r->pid = number_in(task, own.pidns);
        r->parent = number_in(BPF_CORE_READ(t, real_parent), own.pidns);
        BPF_CORE_READ_STR_INTO(&r->comm, task, group_leader, comm);
        if (node)
                bpf_probe_read_kernel_str(r->group, sizeof(r->group), BPF_CORE_READ(node, name));
        asm volatile("" : "+r"(len)); /* the verifier wants to see the comparison behind it */
        if (len < WRITER_COMMAND_MAX)
                bpf_probe_read_user(r->command, len, (void *) from);
}

/*
 * The next record of the kind, which is not valid until submit(). NULL: it concerns nobody here. Two CPUs at
 * the same instant may get the same one: an atomic addition that answers takes Linux 5.12.
 */
static __always_inline struct writer_record *begin(enum writer_kind kind) {
        struct task_struct *task = (void *) bpf_get_current_task();
        struct writer_record *r;

        if (!is_of_our_network(task))
                return NULL;
        r = &figures.kept[kind][figures.next[kind]++ % WRITERS_KEPT];
        r->at = 0;
        __builtin_memset(r, 0, sizeof(*r));
        put_writer(r, task);
        return r;
}

static __always_inline void submit(struct writer_record *r) {
        r->at = bpf_ktime_get_boot_ns();
}

/* What the kernel was asked to do, its file, and whether it is a write. */
SEC("fentry/proc_sys_call_handler")
int on_sysctl(__u64 *ctx) {
        struct kiocb *call = (void *) ctx[0];
        struct dentry___writers *entry;
        struct writer_record *r;

        if ((int) ctx[2] == 0)
                return 0;
        r = begin(WRITER_SYSCTL);
        if (!r)
                return 0;
        entry = (void *) BPF_CORE_READ(call, ki_filp, f_path.dentry);
        bpf_probe_read_kernel_str(r->name, sizeof(r->name), BPF_CORE_READ(entry, d_name.name));
        bpf_probe_read_kernel_str(r->folder, sizeof(r->folder), BPF_CORE_READ(entry, d_parent, d_name.name));
        submit(r);
        return 0;
}

static __always_inline int kind_of(int message) {
        switch (message) {
        case RTM_NEWLINK:
        case RTM_DELLINK:
        case RTM_SETLINK:
                return WRITER_LINK;
        case RTM_NEWROUTE:
        case RTM_DELROUTE:
                return WRITER_ROUTE;
        case RTM_NEWRULE:
        case RTM_DELRULE:
                return WRITER_RULE;
        default:
                return -1;
        }
}

/* The packet that it came in, and the message. */
SEC("fentry/rtnetlink_rcv_msg")
int on_rtnetlink(__u64 *ctx) {
        struct nlmsghdr *message = (void *) ctx[1];
        struct writer_record *r;
        struct nlmsghdr head;
        int kind;

        if (bpf_probe_read_kernel(&head, sizeof(head), message) < 0)
                return 0;
        kind = kind_of(head.nlmsg_type);
        if (kind < 0)
                return 0;
        r = begin(kind);
        if (!r)
                return 0;
        if (kind == WRITER_LINK)
                bpf_probe_read_kernel(&r->index, sizeof(r->index),
                                      &((struct ifinfomsg *) (message + 1))->ifi_index);
        submit(r);
        return 0;
}

/* The network, the number, and the interface request, which begins with its name. */
SEC("fentry/dev_ioctl")
int on_ioctl(__u64 *ctx) {
        unsigned int number = (unsigned int) ctx[1];
        struct writer_record *r;

        if (number != SIOCSIFMTU && number != SIOCSIFFLAGS && number != SIOCETHTOOL)
                return 0;
        r = begin(number == SIOCETHTOOL ? WRITER_FEATURE : WRITER_LINK);
        if (!r)
                return 0;
        bpf_probe_read_kernel_str(r->name, 16, (void *) ctx[2]);
        submit(r);
        return 0;
}
