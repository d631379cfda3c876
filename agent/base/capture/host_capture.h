/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one host saw at one moment of a round: who it is, its processes and threads with their stacks, its
 * TPU cores, and what its checks complain of. Texts and stacks are numbers of a stack_table, which may serve
 * many captures.
 *
 * Everything comes from other machines: whoever fills it keeps to the bounds below.
 */
#include "captured_waits.h"
#include "stack_table.h"

#define CAPTURE_NAME_MAX 64u
#define CAPTURE_PROCESSES_MAX 1024u
#define CAPTURE_THREADS_MAX 10000u
#define CAPTURE_CORES_MAX 1024u
#define CAPTURE_FINDINGS_MAX 256u
#define CAPTURE_WORKER_NONE UINT32_MAX
#define CAPTURE_RANK_NONE UINT32_MAX
#define CAPTURE_MODULES_MAX 16384u
#define CAPTURE_OWN_MAX 16u
#define CAPTURE_WAITS_MAX 40000u
#define CAPTURE_SOCKETS_MAX 16384u
#define CAPTURE_ENDS_MAX 16384u
#define CAPTURE_REACHED_NONE UINT32_MAX
#define CAPTURE_STEP_NONE UINT64_MAX

struct captured_thread {
        uint32_t stack;         /* STACK_NONE: could not be read */
        uint32_t name;          /* strings from here */
        uint32_t wait, syscall; /* kernel function, system call it is in; "" when not known */
        uint32_t tid;           /* 0: not known */
        uint32_t first_wait, n_waits;
        uint64_t cpu_usec; /* user and system so far; 0: not known */
        char state;        /* R S D T t Z X of /proc; 0: not known */
        bool gil;
        bool changed;      /* it changed while read: no evidence */
};

/* What of a thread people are shown, and no diagnosis looks at. */
struct thread_detail {
        uint32_t interpreter;
        uint32_t python_error, native_error; /* strings: why there are no such frames; "": there are */
        uint64_t pause_ns;       /* how long it was stopped */
        bool python, python_cut; /* it runs Python; of its Python frames the outermost are missing */
        bool native, native_cut; /* native frames were asked for; likewise */
        bool merged;             /* Python frames stand where the interpreter ran them */
};
struct captured_module { /* a file of native frames */
        uint32_t path, build_id; /* strings */
        uint64_t start;          /* its lowest address */
};

struct captured_process {
        uint32_t pid, rank;               /* CAPTURE_RANK_NONE */
        uint32_t command, error;          /* strings; error is "" when it was read */
        uint32_t python, no_python;       /* strings: version; why there are native stacks only */
        uint32_t kernel_by,
                kernel_unknown;           /* strings: where kernel frames are from, or why there are none */
        uint32_t other_threads;           /* that run no Python */
        uint32_t first_thread, n_threads; /* main thread first */
        uint32_t first_module, n_modules;
        uint32_t first_socket, n_sockets;
        uint32_t parent;                  /* pid; 0: not known, or outside of the run */
        uint32_t children_gone;           /* children that have ended, and that it has not waited for */
        uint64_t cpu_usec;                /* user and system so far; 0: not known */
        uint64_t start_ticks;             /* as /proc/PID/stat has it: tells numbers that are used again */
        char state;                       /* as above, of its main thread */
};

/* One core's state: GetTpuRuntimeStatus of libtpu (tpu_telemetry.CurrentCoreStateSummary), first sequencer.
 */
struct captured_core {
        uint32_t core, chip;
        int64_t pc, launch, run;
        uint32_t fingerprint, location, error; /* strings: hexadecimal, HLO location, error message */
        uint32_t queued;
};

/* A check of the host that is not OK. */
struct captured_finding {
        uint32_t check, subject, found; /* strings */
        bool fail;                      /* FAIL; else WARN */
};

struct host_capture {
        char slice[CAPTURE_NAME_MAX], host[CAPTURE_NAME_MAX], address[CAPTURE_NAME_MAX];
        char episode[CAPTURE_NAME_MAX];
        uint32_t worker;      /* CAPTURE_WORKER_NONE */
        uint32_t round;       /* 0: the first capture of the round, 1: the second, some seconds later */
        usec_t wanted, taken; /* real time; 0: not known */
        usec_t clock_error;
        uint64_t step;      /* the last step seen; CAPTURE_STEP_NONE */
        usec_t ended;       /* when the run's process ended on this host; 0: it has not, or nobody knows */
        uint32_t ended_how; /* string: "exit code 1", "signal 9" */
        uint32_t ended_peer; /* string: whom its lines say that it lost, "10.0.0.2", "task 3"; or empty */
        uint32_t own[CAPTURE_OWN_MAX], n_own; /* strings "NIC ADDRESS": its own, as far as it tells them */
        uint32_t reached; /* how many of its peers answered a datagram; CAPTURE_REACHED_NONE: none was asked
                           */
        bool cut;           /* something was left out for size */
        bool silent;        /* who it would be of: the host was asked, and did not answer */
        bool detailed;      /* set before it is filled: it is for people */
        struct captured_process *processes;
        struct captured_thread *threads;
        struct captured_core *cores;
        struct captured_finding *findings;
        struct thread_detail *details; /* one for each thread; NULL where it is not detailed */
        struct captured_module *modules;
        struct captured_wait *waits;
        struct captured_socket *sockets;
        struct captured_end *ends;
        size_t n_processes, n_threads, n_cores, n_findings, n_modules, n_waits, n_sockets, n_ends;
        size_t processes_size, threads_size, cores_size, findings_size, details_size,
                modules_size, waits_size, sockets_size, ends_size;
};
void host_capture_init(struct host_capture *c);
void host_capture_clear(struct host_capture *c);
#define _cleanup_host_capture_ _cleanup_(host_capture_clear)

/* Each returns a zeroed new item (threads: with STACK_NONE), or -E2BIG, -ENOMEM. */
int host_capture_add_process(struct host_capture *c, struct captured_process **ret);
/* A thread of the process added last. */
int host_capture_add_thread(struct host_capture *c, struct captured_thread **ret);
int host_capture_add_core(struct host_capture *c, struct captured_core **ret);
int host_capture_add_finding(struct host_capture *c, struct captured_finding **ret);
/* Of the process added last. */
int host_capture_add_module(struct host_capture *c, const struct captured_module *m);
/* What the thread added last waits for. */
int host_capture_add_wait(struct host_capture *c, const struct captured_wait *w);
/* Of the process added last. */
int host_capture_add_socket(struct host_capture *c, const struct captured_socket *s);
/* Of the host. */
int host_capture_add_end(struct host_capture *c, const struct captured_end *e);
/* Without its processes, to be filled again. */
void host_capture_empty(struct host_capture *c);
/* Beside Python processes those without (shells, launchers) say nothing: they are left out. */
void host_capture_drop_others(struct host_capture *c);

/* How late it was taken; 0 when early, or not known. */
usec_t host_capture_lateness(const struct host_capture *c);

/* NULL: there is none. */
const struct captured_process *captured_process_of(const struct host_capture *c, uint32_t pid);
/* Of that process; NULL: there is none, or its number is not known. */
const struct captured_thread *captured_thread_of(const struct host_capture *c,
                                                 const struct captured_process *p, uint32_t tid);
/* Of that process; NULL: there is none, or the inode is not known. */
const struct captured_socket *captured_socket_of(const struct host_capture *c,
                                                 const struct captured_process *p, uint64_t inode);
/* The thread whose number is the process's; else the first; NULL: there is none. */
const struct captured_thread *captured_main_of(const struct host_capture *c,
                                               const struct captured_process *p);
/* A stopped or ended process is so with all of its threads. */
char captured_state_of(const struct captured_process *p, const struct captured_thread *t);
