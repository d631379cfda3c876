/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What one run waits for its storage: requests to disks, calls on network file systems, writers that are
 * held back. Watch programs all: they hang on every request and every system call of the host, and are
 * attached for seconds.
 */
#include "task_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "io_figures.h"
#include "task_names.bpf.h"

#define REQUESTS 4096
#define CALLS 4096
#define OPERATION_MASK 0xff /* include/linux/blk_types.h: REQ_OP_READ, WRITE, FLUSH */

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 pause_argument = 0; /* which of balance_dirty_pages' arguments says how long */
struct io_orders orders SEC(".data") = { 0 };
struct io_figures figures;

struct request_seen {
        __u64 since, bytes;
        __u32 operation, reserved;
        char comm[16];
};

struct call_seen {
        __u64 since, descriptor;
        __u32 call, reserved;
};

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, REQUESTS);
        __type(key, __u64);
        __type(value, struct request_seen);
} requests SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, CALLS);
        __type(key, __u32);
        __type(value, struct call_seen);
} calls SEC(".maps");

static __always_inline void add(__u64 *counter, __u64 n) {
        __sync_fetch_and_add(counter, n);
}

static __always_inline void take_time(struct io_times *t, __u64 ns, __u64 bytes) {
        __u64 us = ns / 1000;
        unsigned b = 0;

        for (int i = 0; i < IO_BUCKETS - 1; i++)
                if (us >> i)
                        b = i + 1;
        add(&t->n, 1);
        add(&t->ns, ns);
        add(&t->bytes, bytes);
        if (b < IO_BUCKETS)
                add(&t->buckets[b], 1);
}

/* The place of the fastest of the kept, if this one was slower, else IO_KEPT. Two at the same moment may
 * take the same: one is lost then. */
static __always_inline unsigned place_for(struct io_slow kept[IO_KEPT], __u64 ns) {
        int least = 0;

        for (int i = 0; i < IO_KEPT; i++) {
                if (kept[i].ns < kept[least & (IO_KEPT - 1)].ns)
                        least = i;
        }
        least &= IO_KEPT - 1;
        return kept[least].ns < ns ? (unsigned) least : IO_KEPT;
}

/* --- Requests ------------------------------------------------------------------------------------------ */

/* Of who dirtied the pages, where the io controller tells it; what a thread asks for itself is its own
 * anyway. */
static __always_inline bool is_of_run(struct request *rq) {
        struct bio *bio = BPF_CORE_READ(rq, bio);
        struct kernfs_node *node;

        if (is_below((void *) bpf_get_current_task(), orders.group))
                return true;
        if (!bio || !bpf_core_field_exists(bio->bi_blkg))
                return false;
        node = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn);
        return is_at_or_below(node, orders.group);
}

static __always_inline __u32 operation_of(struct request *rq) {
        __u32 op = BPF_CORE_READ(rq, cmd_flags) & OPERATION_MASK;

        return op < IO_OTHER ? op : IO_OTHER; /* 0 read, 1 write, 2 flush */
}

SEC("tp_btf/block_rq_issue")
int on_issue(__u64 *ctx) {
        struct request *rq = (void *) ctx[0];
        struct request_seen seen = { .since = bpf_ktime_get_ns() };
        __u64 key = (__u64) rq;

        if (!is_of_run(rq))
                return 0;
        seen.bytes = BPF_CORE_READ(rq, __data_len);
        seen.operation = operation_of(rq);
        bpf_get_current_comm(seen.comm, sizeof(seen.comm));
        if (bpf_map_update_elem(&requests, &key, &seen, BPF_ANY) < 0)
                add(&figures.lost, 1);
        return 0;
}

static __always_inline void put_disk(struct io_slow *s, struct request *rq) {
        struct request_queue *q = BPF_CORE_READ(rq, q);

        s->where[0] = 0;
        if (bpf_core_field_exists(q->disk))
                BPF_CORE_READ_STR_INTO(&s->where, q, disk, disk_name);
        else
                BPF_CORE_READ_STR_INTO(&s->where, (struct request___before_517 *) rq, rq_disk, disk_name);
}

SEC("tp_btf/block_rq_complete")
int on_complete(__u64 *ctx) {
        struct request *rq = (void *) ctx[0];
        __u64 key = ctx[0], now = bpf_ktime_get_ns(), ns;
        struct request_seen *seen = bpf_map_lookup_elem(&requests, &key);
        struct io_slow *slow;
        unsigned place;

        if (!seen)
                return 0;
        ns = now - seen->since;
        if (seen->since >= orders.since) {
                take_time(&figures.requests[seen->operation & (IO_OPERATIONS - 1)], ns, seen->bytes);
                place = place_for(figures.slow_requests, ns);
                if (place < IO_KEPT) {
                        slow = &figures.slow_requests[place];
                        slow->ns = ns;
                        slow->ended = now;
                        slow->bytes = seen->bytes;
                        slow->kind = seen->operation;
                        slow->tid = 0;
                        __builtin_memcpy(slow->comm, seen->comm, sizeof(slow->comm));
                        put_disk(slow, rq);
                }
        }
        bpf_map_delete_elem(&requests, &key);
        return 0;
}

/* --- Calls --------------------------------------------------------------------------------------------- */

/* x86-64: arch/x86/entry/syscalls/syscall_64.tbl. -1: none that is looked at. */
static __always_inline int call_of(long number) {
        switch (number) {
        case 2:   /* open */
        case 257: /* openat */
        case 437: /* openat2 */
                return IO_CALL_OPEN;
        case 0:   /* read */
        case 17:  /* pread64 */
        case 19:  /* readv */
        case 295: /* preadv */
                return IO_CALL_READ;
        case 1:   /* write */
        case 18:  /* pwrite64 */
        case 20:  /* writev */
        case 296: /* pwritev */
                return IO_CALL_WRITE;
        case 74:  /* fsync */
        case 75:  /* fdatasync */
        case 277: /* sync_file_range */
                return IO_CALL_SYNC;
        case 3: /* close */
                return IO_CALL_CLOSE;
        }
        return -1;
}

SEC("tp_btf/sys_enter")
int on_enter(__u64 *ctx) {
        struct pt_regs *regs = (void *) ctx[0];
        struct call_seen seen = { .since = bpf_ktime_get_ns() };
        __u32 tid = (__u32) bpf_get_current_pid_tgid();
        int call = call_of((long) ctx[1]);

        if (call < 0 || !is_below((void *) bpf_get_current_task(), orders.group))
                return 0;
        seen.call = call;
        seen.descriptor = BPF_CORE_READ(regs, di);
        if (bpf_map_update_elem(&calls, &tid, &seen, BPF_ANY) < 0)
                add(&figures.lost, 1);
        return 0;
}

static __always_inline struct file *file_of(__u64 descriptor) {
        struct task_struct *task = (void *) bpf_get_current_task();
        struct fdtable *table = BPF_CORE_READ(task, files, fdt);
        struct file *file = NULL;

        if (descriptor >= BPF_CORE_READ(table, max_fds))
                return NULL;
        if (bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + descriptor) < 0)
                return NULL;
        return file;
}

/* A file system whose answers come from somebody else: network, or a process of this host (FUSE). */
static __always_inline bool is_served(const char *type) {
        char t[8] = { 0 };

        if (bpf_probe_read_kernel_str(t, sizeof(t), type) < 0)
                return false;
        return (t[0] == 'n' && t[1] == 'f' && t[2] == 's') ||
               (t[0] == 'f' && t[1] == 'u' && t[2] == 's' && t[3] == 'e') ||
               (t[0] == 'c' && t[1] == 'i' && t[2] == 'f' && t[3] == 's') ||
               (t[0] == 's' && t[1] == 'm' && t[2] == 'b') ||
               (t[0] == 'c' && t[1] == 'e' && t[2] == 'p' && t[3] == 'h') || (t[0] == '9' && t[1] == 'p') ||
               (t[0] == 'l' && t[1] == 'u' && t[2] == 's' && t[3] == 't') ||
               (t[0] == 'a' && t[1] == 'f' && t[2] == 's') ||
               (t[0] == 'g' && t[1] == 'p' && t[2] == 'f' && t[3] == 's') ||
               (t[0] == 'b' && t[1] == 'e' && t[2] == 'e');
}

static __always_inline void put_call(const struct call_seen *seen, struct file *file, __u64 now,
                                     long result) {
        const char *type = BPF_CORE_READ(file, f_inode, i_sb, s_type, name);
        __u64 ns = now - seen->since, bytes = result > 0 && seen->call != IO_CALL_OPEN ? result : 0;
        struct io_slow *slow;
        unsigned place;
        __u32 call;

        if (!is_served(type) || seen->call >= IO_CALLS)
                return;
        call = seen->call;
        barrier_var(call); /* or the compiler leaves the mask out */
        take_time(&figures.calls[call & (IO_CALL_PLACES - 1)], ns, bytes);
        place = place_for(figures.slow_calls, ns);
        if (place >= IO_KEPT)
                return;
        slow = &figures.slow_calls[place];
        slow->ns = ns;
        slow->ended = now;
        slow->bytes = bytes;
        slow->kind = seen->call;
        slow->tid = (__u32) bpf_get_current_pid_tgid();
        bpf_get_current_comm(slow->comm, sizeof(slow->comm));
        bpf_probe_read_kernel_str(slow->where, sizeof(slow->where), type);
        bpf_probe_read_kernel_str(slow->file, sizeof(slow->file),
                                  BPF_CORE_READ(file, f_path.dentry, d_name.name));
}

SEC("tp_btf/sys_exit")
int on_return(__u64 *ctx) {
        __u32 tid = (__u32) bpf_get_current_pid_tgid();
        struct call_seen *seen = bpf_map_lookup_elem(&calls, &tid), copy;
        __u64 now = bpf_ktime_get_ns();
        long result = (long) ctx[1];
        struct file *file;

        if (!seen)
                return 0;
        copy = *seen;
        bpf_map_delete_elem(&calls, &tid);
        if (copy.since < orders.since || now - copy.since < orders.slow)
                return 0;
        file = file_of(copy.call == IO_CALL_OPEN ? (__u64) result : copy.descriptor);
        if (file)
                put_call(&copy, file, now, result);
        return 0;
}

/* --- Writers that are held back ------------------------------------------------------------------------ */

SEC("tp_btf/balance_dirty_pages")
int on_held_back(__u64 *ctx) {
        long pause;

        /* Of another number of arguments the verifier refuses one of these. */
        if (pause_argument == 6) {
                pause = ctx[6];
                barrier_var(pause);
        } else {
                pause = ctx[10];
                barrier_var(pause);
        }
        if (pause > 0 && is_below((void *) bpf_get_current_task(), orders.group))
                add(&figures.stalls, 1);
        return 0;
}
