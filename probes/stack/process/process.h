/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One process by its directory in /proc. The directory comes from the host seam and stays open, so that
 * everything read through it is of the same process: when that one is gone, reads fail with -ESRCH even if
 * its number was given away again.
 */
#include <sys/types.h>

#include "base.h"
#include "host.h"

#define TASKS_MAX 20000u

struct core_file; /* core_file.h */

struct process {
        pid_t pid; /* as /proc numbers it */
        struct core_file *core; /* borrowed: it has ended, and this is what remains. NULL: it is in /proc */
        int dir_fd;
        bool nested; /* it lives in a pid namespace below the one of /proc */
};
#define PROCESS_NULL ((struct process) { .dir_fd = -1 })

#define TASK_FILES 3u

/* What /proc/TID/syscall says. A system call that is none: */
#define CALL_FAULT   (-1L) /* it sleeps in the kernel and called nothing: a page fault */
#define CALL_RUNNING (-2L)
#define CALL_UNKNOWN (-3L) /* error says why */

struct task_call {
        long number;
        uint64_t arguments[6];
        uint64_t sp, pc; /* 0: not known */
        int error;       /* 0, or -errno */
};
/* "0 0x3 0x7f… …": number, arguments, sp, pc; "-1 SP PC": it waits in no system call; "running". */
struct task_call task_call_parse(const char *text);

struct task {
        pid_t tid;     /* as /proc numbers it */
        pid_t own;     /* as the process itself numbers it */
        char name[64]; /* comm */
        char state;    /* 'R', 'S', 'D', 'T', … as in /proc/TID/stat; '?' */
        char wait[64]; /* kernel function it waits in; empty: not waiting, or not permitted to know */
        char call[32]; /* system call it is in ("read"); the same */
        struct task_call in;
        uint64_t cpu_ticks; /* user and system so far */
        int files[TASK_FILES]; /* stat, wchan, syscall; -1: not open */
};

struct task_list {
        struct task *items;
        size_t n;
        /* set before process_tasks(): with at most so many threads their files stay open for the next time,
         * which is three descriptors each */
        size_t keep;
};

/* -ESRCH: there is no such process; else -errno of reading /proc. */
int process_open(const struct host *h, pid_t pid, struct process *ret);
void process_close(struct process *p);
#define _cleanup_process_ _cleanup_(process_close)

/*
 * Reads a file of the process's directory ("maps", "task/7/comm") into buf and ends it with NUL; what does
 * not fit is cut.
 */
int process_read(const struct process *p, const char *name, char *buf, size_t size, size_t *ret_len);

/* One of its directories ("task", "fd"). -ESRCH: it has ended. */
int process_open_directory(const struct process *p, const char *name, DIR **ret);

/* Whether NSpid of a status has more than one number: "NSpid:\t4711\t12". The last one is stored in *ret. */
bool process_nested_pid(const char *status, pid_t *ret);

/* What /proc counts in ticks, in microseconds. */
uint64_t process_usec(uint64_t ticks);

/* Of /proc/PID/stat. */
struct process_stat {
        char state;        /* '\0' when the process is gone */
        /* startcode, endcode, startstack, start_brk: another program has others, but for what address
         * randomisation is switched off for; 0 where it is not permitted to know them */
        uint64_t image[4];
        pid_t parent;
        uint64_t cpu_ticks, start_ticks; /* user and system so far; since boot */
};
void process_stat(const struct process *p, struct process_stat *ret);
bool process_stat_same_image(const struct process_stat *a, const struct process_stat *b);
/* Its state alone. */
char process_state(const struct process *p);

/*
 * What it runs, for people: "python3 /srv/train.py", "python3 -m pkg", "python3 -c". Other arguments are
 * left out, because they may hold secrets.
 */
#define PROCESS_COMMAND_MAX 512
void process_command(const struct process *p, char buf[static PROCESS_COMMAND_MAX]);

/*
 * Its threads, sorted by own, in a list that was empty or that of the same process before: as long as its
 * threads are the same ones, nothing is opened then. Free with task_list_clear(). -E2BIG: more than
 * TASKS_MAX.
 */
int process_tasks(const struct process *p, struct task_list *l);
void task_list_clear(struct task_list *l); /* but for keep */
/* The thread that the process itself numbers so; NULL: none. */
const struct task *task_list_find(const struct task_list *l, pid_t own);

/* The processor that a thread runs on now, or ran on last; -1: not known. */
int process_task_cpu(const struct process *p, pid_t tid);

/* Calls visit for every child (one level). Returns 0, or what visit returned when not 0, or -errno. */
int process_children(const struct process *p, int (*visit)(pid_t pid, void *userdata), void *userdata);
