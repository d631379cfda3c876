/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What threads wait for, as the kernel and the memory of their process say it: threads wait for objects,
 * and processes hold objects. An object has one key on its host: kind, space and number. A diagnosis joins
 * the two: who waits for an object, and who holds its other end. Nothing here is guessed. What could not be
 * read has kind WAIT_UNKNOWN, and text says why.
 *
 * Texts are strings of the capture's stack_table.
 */
#include "base.h"

/* The value is on the wire (proto/capture.proto): append only. */
enum wait_kind {
        WAIT_UNKNOWN,   /* it sleeps, and nothing says for what; text: why that is not known */
        WAIT_LOCK,      /* memory: number is the futex's address in its process, or 1 more than its offset
                           in a file (space: the file's device and inode) where processes share it */
        WAIT_GIL,       /* the interpreter's lock; number: the interpreter */
        WAIT_SOCKET,    /* number: inode; struct captured_socket of its process says the rest */
        WAIT_PIPE,      /* a pipe or FIFO; number: inode, space: device */
        WAIT_EVENTFD,   /* number: id of the eventfd (fdinfo), 0 where the kernel does not tell */
        WAIT_FILE,      /* a read, write, fsync or open; text: "TYPE MOUNTPOINT" of its file system */
        WAIT_FILE_LOCK, /* flock or fcntl; number: inode, space: device; holder_pid of /proc/locks */
        WAIT_DEVICE,    /* text: the device's path */
        WAIT_CHILD,     /* the end of a child process; holder_pid: which, 0: any */
        WAIT_TIMER,     /* it sleeps */
        WAIT_PAGE,      /* a page that it touched; text as of WAIT_FILE, or "swap" */
        WAIT_IO_URING,
        WAIT_STOPPED,   /* by a signal; with a tracer: holder_pid is the tracer */
        WAIT_FROZEN,    /* its control group is frozen; text: the group */
        WAIT_THROTTLED, /* its control group has no CPU left or reclaims memory; text: the group and why */
        _WAIT_KIND_MAX,
};

#define WAIT_FD_NONE UINT32_MAX

/* A thread that runs has none, unless it looks again and again. In poll, select and epoll it has one for
 * each descriptor, with any set. */
struct captured_wait {
        uint8_t kind; /* enum wait_kind */
        bool any;     /* one of several of this thread: whichever comes first ends the wait */
        bool writes;  /* for room to write; else for data */
        bool limited; /* with a time limit: the thread looks again by itself, so it polls */
        bool spins;   /* it does not sleep: it runs, and its call said that there is nothing yet */
        uint32_t fd;  /* WAIT_FD_NONE */
        uint64_t space, number;           /* the object's key; 0: not known */
        uint32_t holder_pid, holder_tid;  /* as the capture numbers processes and threads; 0: not known */
        uint32_t text;                    /* what it is, in words: "glibc mutex of libcache.so" */
        uint64_t since_usec;              /* how long it has waited; 0: not known */
};

#define SOCKET_MS_NONE UINT32_MAX

/* A socket of a process. Addresses are "10.0.0.1:80" or "[::1]:80", IPv4-mapped ones as IPv4. */
struct captured_socket {
        uint64_t inode, net;      /* net: inode of its network namespace */
        uint64_t peer;            /* of a Unix socket: inode of the other end; 0: not known */
        uint32_t fd;
        uint8_t family, protocol; /* AF_*, IPPROTO_*; protocol 0 of AF_UNIX */
        uint8_t state;            /* TCP_ESTABLISHED 1 … TCP_LISTEN 10 (net/tcp_states.h) */
        uint8_t retransmits;      /* in a row, of the segment that is not acknowledged */
        uint32_t local, remote;   /* strings; of AF_UNIX the path, "" when it has none */
        uint32_t unread, unsent;  /* bytes: in its receive queue; in its send queue, not sent */
        uint32_t unacknowledged;  /* segments that were sent */
        uint32_t sent_ms, received_ms; /* since data were last sent and received; SOCKET_MS_NONE */
        uint64_t bytes_acked, bytes_received; /* so far; who connected counts 1 more as acknowledged */
};

/* Who has an end of an object that a captured thread waits for: a captured process, or another of the host.
 * Sockets of captured processes are not repeated here. */
struct captured_end {
        uint8_t kind; /* enum wait_kind: WAIT_SOCKET (AF_UNIX), WAIT_PIPE, WAIT_EVENTFD, WAIT_DEVICE … */
        bool reads, writes;
        uint32_t pid;
        uint32_t command; /* string */
        uint64_t space, number;
};
