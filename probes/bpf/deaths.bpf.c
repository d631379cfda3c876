/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Who ended whom: signals that may end a process, with who sent them; the victims of the OOM killer;
 * processes that were ended by a signal. All are rare. Records (deaths_figures.h) of processes in the
 * agent's pid namespace go into the ring; a reader is woken only where a run lost a process, and reads what
 * led to it along with it.
 */
#include "task_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf_own.h"
#include "deaths_figures.h"
#include "task_names.bpf.h"

#define DELIVERED 0     /* include/trace/events/signal.h: TRACE_SIGNAL_DELIVERED */
#define SENT_BY_KERNEL 1 /* include/linux/sched/signal.h: SEND_SIG_PRIV; 0 is SEND_SIG_NOINFO */
#define SI_TIMER (-2)   /* include/uapi/asm-generic/siginfo.h; from 1 on it is the kernel that sends */
#define NO_WAKEUP 1     /* include/uapi/linux/bpf.h: BPF_RB_NO_WAKEUP, BPF_RB_FORCE_WAKEUP */
#define FORCE_WAKEUP 2
#define AVAILABLE 0 /* BPF_RB_AVAIL_DATA */

#define BIT(n) (1u << (n))

/* x86: HUP INT QUIT ILL TRAP ABRT BUS FPE KILL SEGV PIPE ALRM TERM STKFLT XCPU XFSZ SYS */
#define MAY_END \
        (BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(9) | BIT(11) | \
         BIT(13) | BIT(14) | BIT(15) | BIT(16) | BIT(24) | BIT(25) | BIT(31))
#define KILL 9

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_own own = { 0 };

struct deaths_figures figures;

struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, DEATH_RING_BYTES);
} death_ring SEC(".maps");

/* A record about task; NULL: no business of ours, or no room. */
static __always_inline struct death_record *begin(struct task_struct *task, enum death_kind kind,
                                                  int signal) {
        int number = number_in(task, own.pidns);
        struct death_record *r;

        if (number == 0)
                return NULL;
        r = bpf_ringbuf_reserve(&death_ring, sizeof(*r), 0);
        if (!r) {
                __sync_fetch_and_add(&figures.lost, 1);
                return NULL;
        }
        __builtin_memset(r, 0, sizeof(*r));
        r->at = bpf_ktime_get_boot_ns();
        r->kind = kind;
        r->signal = signal;
        r->victim = number;
        r->global = BPF_CORE_READ(task, tgid);
        BPF_CORE_READ_STR_INTO(&r->victim_comm, task, group_leader, comm);
        return r;
}

/* Who reads is woken where it matters, and before the ring is full. */
static __always_inline void submit(struct death_record *r, bool matters) {
        bpf_ringbuf_submit(r, matters || bpf_ringbuf_query(&death_ring, AVAILABLE) > DEATH_RING_BYTES / 2
                                      ? FORCE_WAKEUP
                                      : NO_WAKEUP);
}

static __always_inline void put_run(struct death_record *r, struct task_struct *task) {
        struct kernfs_node *node = group_of(task);

        for (int i = 0; node && i < GROUP_LEVELS; i++) {
                if (is_run_group(node))
                        bpf_probe_read_kernel_str(r->run, sizeof(r->run), BPF_CORE_READ(node, name));
                node = group_above(node); /* the outermost is the run's slice */
        }
}

static __always_inline void put_sender(struct death_record *r) {
        struct task_struct *sender = (void *) bpf_get_current_task();
        struct kernfs_node *node = group_of(sender);

        r->sender = number_in(sender, own.pidns);
        r->sender_uid = (__u32) bpf_get_current_uid_gid();
        BPF_CORE_READ_STR_INTO(&r->sender_comm, sender, group_leader, comm);
        if (node)
                bpf_probe_read_kernel_str(r->sender_group, sizeof(r->sender_group),
                                          BPF_CORE_READ(node, name));
}

/* Signal, its details, the victim, whether its whole process is meant, what became of it. */
SEC("tp_btf/signal_generate")
int on_signal(__u64 *ctx) {
        int signal = (int) ctx[0], result = (int) ctx[4];
        unsigned long from = ctx[1];
        struct task_struct *task = (void *) ctx[2];
        struct death_record *r;
        int code = 0;

        if (result != DELIVERED || signal < 1 || signal > 31 || !(MAY_END & BIT(signal & 31)))
                return 0;
        r = begin(task, DEATH_SIGNAL, signal);
        if (!r)
                return 0;
        if (from > SENT_BY_KERNEL)
                code = BPF_CORE_READ((struct kernel_siginfo *) from, si_code);
        r->sender_kind =
                from == SENT_BY_KERNEL || code > 0 || code == SI_TIMER ? DEATH_BY_KERNEL : DEATH_BY_PROCESS;
        put_run(r, task);
        if (r->sender_kind == DEATH_BY_PROCESS)
                put_sender(r);
        submit(r, false);
        return 0;
}

/* Until 6.8 it is given the victim's number in the first pid namespace, and nothing that leads to the
 * task. */
SEC("tp_btf/mark_victim")
int on_oom_victim(__u64 *ctx) {
        bool has_task = bpf_core_field_exists(((struct trace_event_raw_mark_victim *) 0)->uid);
        struct task_struct *task = (void *) ctx[0];
        struct death_record *r;

        if (has_task) {
                r = begin(task, DEATH_OOM, KILL);
                if (!r)
                        return 0;
                put_run(r, task);
        } else {
                r = bpf_ringbuf_reserve(&death_ring, sizeof(*r), 0);
                if (!r) {
                        __sync_fetch_and_add(&figures.lost, 1);
                        return 0;
                }
                __builtin_memset(r, 0, sizeof(*r));
                r->at = bpf_ktime_get_boot_ns();
                r->kind = DEATH_OOM;
                r->signal = KILL;
                r->global = (int) ctx[0];
        }
        submit(r, false); /* its end follows */
        return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx) {
        struct task_struct *task = (void *) ctx[0];
        int signal = task->exit_code & 0x7f; /* most end by themselves: a load, and no call of a helper */
        struct death_record *r;

        if (signal == 0 || task->pid != task->tgid)
                return 0;
        r = begin(task, DEATH_EXIT, signal);
        if (!r)
                return 0;
        put_run(r, task);
        submit(r, r->run[0] != 0);
        return 0;
}
