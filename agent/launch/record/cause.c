/* SPDX-License-Identifier: Apache-2.0 */
#include "cause.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>

#include "handover.h"

#define EXIT_EXEC 203 /* systemd.exec(5): the command could not be executed */
/* podman-run(1), docker-run(1): of the engine itself; above EXIT_SIGNAL: of a signal that ended the
 * container. */
#define EXIT_ENGINE 125
#define EXIT_SIGNAL 128

static const struct {
        const char *name;
        bool worth_a_restart;
} causes[] = {
        [CAUSE_SUCCESS] = { "success", false },
        [CAUSE_STOPPED] = { "stopped", false },
        [CAUSE_PREEMPTED] = { "preempted", false },
        [CAUSE_NEVER_RESTART] = { "never-restart", false },
        [CAUSE_NOT_STARTED] = { "not-started", false },
        [CAUSE_OOM_KILL] = { "oom-kill", true },
        [CAUSE_DEVICE_BUSY] = { "device-busy", true },
        [CAUSE_DEVICE_LOST] = { "device-lost", false },
        [CAUSE_PEER_LOST] = { "peer-lost", true },
        [CAUSE_CONFIGURATION] = { "configuration", false },
        [CAUSE_HANG] = { "hang", true },
        [CAUSE_TIMEOUT] = { "timeout", false },
        [CAUSE_CORE_DUMP] = { "core-dump", true },
        [CAUSE_SIGNAL] = { "signal", true },
        [CAUSE_EXIT_CODE] = { "exit-code", true },
        [CAUSE_UNKILLABLE] = { "unkillable", false },
        [CAUSE_HOST_DOWN] = { "host-down", false },
        [CAUSE_UNKNOWN] = { "unknown", true },
};
_Static_assert(ELEMENTSOF(causes) == _CAUSE_MAX, "every cause has a name");

const char *cause_name(enum cause c) {
        return c < _CAUSE_MAX ? causes[c].name : "?";
}

int cause_parse(const char *name, enum cause *ret) {
        for (size_t i = 0; i < ELEMENTSOF(causes); i++)
                if (streq(name, causes[i].name)) {
                        *ret = (enum cause) i;
                        return 0;
                }
        return -EINVAL;
}

_printf_(4, 5) static void found(struct cause_found *f, enum cause cause, const char *remedy,
         const char *fmt, ...) {
        va_list ap;

        f->cause = cause;
        (void) snprintf(f->remedy, sizeof(f->remedy), "%s", remedy);
        va_start(ap, fmt);
        (void) vsnprintf(f->why, sizeof(f->why), fmt, ap);
        va_end(ap);
}

static bool exited_with(const struct exit_record *r, int code) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%d", code);
        return streq(r->code, "exited") && streq(r->status, text);
}

static void by_notice(const struct end_evidence *e, struct cause_found *f) {
        const struct exit_record *r = e->record;
        char checkpoint[80] = "its log shows no checkpoint since then";

        if (streq(r->result, "unknown")) {
                found(f, CAUSE_PREEMPTED, "",
                      "a notice said that its host is taken away, and then it ended");
                return;
        }
        if (e->checkpoint && e->checkpoint_step >= 0)
                (void) snprintf(checkpoint, sizeof(checkpoint),
                                "its log shows a checkpoint of step %" PRId64 " since then",
                                e->checkpoint_step);
        else if (e->checkpoint)
                (void) snprintf(checkpoint, sizeof(checkpoint), "its log shows a checkpoint since then");
        found(f, CAUSE_PREEMPTED,
              e->checkpoint ? "" : "if it should have kept one: give it a signal that it handles, --preempt",
              "it was notified of a preemption, and %s %s; %s",
              streq(r->code, "exited") ? "ended with code" : "was ended by", r->status, checkpoint);
}

/* The signal that ended a container, as its engine has it; 0: none. A command may end with such a code, too:
 * a shell does whose child was killed. */
static int signal_of_container(const struct end_evidence *e) {
        const struct exit_record *r = e->record;
        int code = e->container && streq(r->code, "exited") ? atoi(r->status) : 0;

        return code > EXIT_SIGNAL && code <= EXIT_SIGNAL + 64 ? code - EXIT_SIGNAL : 0;
}

/*
 * The kernel's own word: a stop or a notice that raced with it is not why it ended. A worker that was killed
 * long before, of a run that then ended as it was asked to, is not either.
 */
static bool is_out_of_memory(const struct end_evidence *e) {
        const struct exit_record *r = e->record;
        bool killed = streq(r->status, "KILL") || signal_of_container(e) == SIGKILL;

        return streq(r->result, "oom-kill") ||
               (r->oom_kills > 0 && killed && !streq(r->result, "timeout"));
}

/* What needs no evidence but the record, and what its lines say counts for nothing against it. */
static bool is_plain(const struct end_evidence *e, struct cause_found *f) {
        const struct exit_record *r = e->record;
        bool killed = streq(r->code, "killed") || streq(r->code, "dumped");

        if (e->unkillable > 0)
                found(f, CAUSE_UNKILLABLE,
                      "ps -o pid,stat,wchan:30,comm -p PID says what it waits for; only a reboot ends it",
                      "process %d of the run is still there after KILL", (int) e->unkillable);
        else if (streq(r->result, "unknown") && e->rebooted)
                found(f, CAUSE_HOST_DOWN, "start it again", "the host went down while the run was on it");
        else if (streq(r->result, "success") && !killed)
                found(f, CAUSE_SUCCESS, "", "its command ended with 0");
        else if (exited_with(r, EXIT_NEVER_RESTART))
                found(f, CAUSE_NEVER_RESTART, "its log says why: tpuctl logs NAME",
                      "it ended with code %d: do not start it again", EXIT_NEVER_RESTART);
        else if (is_out_of_memory(e))
                return false; /* is_said() tells it */
        else if (e->preempted)
                by_notice(e, f);
        else if (e->stop_asked && (streq(r->result, "timeout") || streq(r->status, "KILL")))
                found(f, CAUSE_TIMEOUT, "give it a longer --grace, or see why it does not end on TERM",
                      "it was asked to end, and was killed when its grace was over");
        else if (e->stop_asked)
                found(f, CAUSE_STOPPED, "", "it was stopped (%s %s)", r->code, r->status);
        else
                return false;
        return true;
}

/* Somebody or something else says why: the kernel's OOM killer, the run's own lines. */
static bool is_said(const struct end_evidence *e, struct cause_found *f) {
        const struct log_sign *sign = log_sign(e->log);
        const struct exit_record *r = e->record;

        if (streq(r->result, "oom-kill") || r->oom_kills > 0) {
                found(f, CAUSE_OOM_KILL, "see its memory: tpuctl status; give it more, or a smaller batch",
                      "the kernel killed %u of its processes for lack of memory",
                      (unsigned) MAX(r->oom_kills, 1u));
                return true;
        }
        if (sign)
                found(f, sign->cause, sign->remedy, "%s", sign->why);
        return sign;
}

/* What an engine's own codes say. False: it is the command's. */
static bool by_engine(const struct end_evidence *e, struct cause_found *f) {
        const struct exit_record *r = e->record;
        int number = signal_of_container(e);

        if (e->container && !r->not_executed && exited_with(r, EXIT_ENGINE))
                found(f, CAUSE_UNKNOWN, "see: tpuctl logs NAME",
                      "its engine ended with code %d: it could not make the container, or lost it",
                      EXIT_ENGINE);
        else if (number > 0)
                found(f, CAUSE_SIGNAL, "somebody on this host sent it: see tpuctl logs NAME",
                      "its container ended with code %s: signal %d", r->status, number);
        else
                return false;
        return true;
}

static void by_record(const struct end_evidence *e, struct cause_found *f) {
        const struct exit_record *r = e->record;

        if (streq(r->result, "unknown"))
                found(f, CAUSE_UNKNOWN, "see: journalctl -b -u tpu-run-NAME.service",
                      "its unit is gone and left no record");
        else if (streq(r->result, "success")) /* systemd counts HUP, INT, TERM and PIPE as a clean end; a
                                                 training has not ended */
                found(f, CAUSE_STOPPED, "", "it was ended by %s", r->status);
        else if (r->code[0] == '\0' || exited_with(r, EXIT_EXEC))
                found(f, CAUSE_NOT_STARTED, "see: journalctl -b -u tpu-run-NAME.service",
                      "systemd could not start it: %s%s%s", r->result, r->status[0] ? " " : "", r->status);
        else if (r->not_executed &&
                 (exited_with(r, HANDOVER_EXIT_NO_COMMAND) || exited_with(r, HANDOVER_EXIT_NOT_STARTED)))
                found(f, CAUSE_NOT_STARTED, "see: tpuctl logs NAME",
                      "its command could not be executed (code %s)", r->status);
        else if (streq(r->result, "timeout"))
                found(f, CAUSE_TIMEOUT, "see: journalctl -b -u tpu-run-NAME.service",
                      "it was killed when its time was over");
        else if (streq(r->result, "core-dump"))
                found(f, CAUSE_CORE_DUMP, "see: tpuctl logs NAME; start it with --core keep for a dump",
                      "it crashed with %s", r->status);
        else if (streq(r->result, "signal"))
                found(f, CAUSE_SIGNAL, "somebody on this host sent it: see tpuctl logs NAME",
                      "it was killed by %s", r->status);
        else
                found(f, CAUSE_EXIT_CODE, "see: tpuctl logs NAME", "its command ended with %s", r->status);
}

void cause_of(const struct end_evidence *e, struct cause_found *ret) {
        *ret = (struct cause_found){ .cause = CAUSE_UNKNOWN };
        if (!is_plain(e, ret) && !is_said(e, ret) && !by_engine(e, ret))
                by_record(e, ret);
}

static bool is_worth_a_restart(enum cause c) {
        return c < _CAUSE_MAX && causes[c].worth_a_restart;
}

/* --- The run's own lines ------------------------------------------------------------------------------- */

/*
 * Lines that training code and libtpu print when they end, each with where it is from. In the order of what
 * they say: of two in one log the first of this list counts, for a host whose TPU is busy also loses its
 * peers.
 */
static const struct log_sign signs[] = {
        /* jax#10192, pytorch/xla#3214, TensorFlow's tpu_initializer_helper.cc */
        { { "already in use by", "Not attempting to load libtpu" },
          CAUSE_DEVICE_BUSY,
          "libtpu says that another process has the TPU",
          "tpuctl status shows who has the devices" },
        /* pytorch/xla#7227 */
        { { "The TPU is already in use by" },
          CAUSE_DEVICE_BUSY,
          "libtpu says that another process has the TPU",
          "tpuctl status shows who has the devices" },
        /* TensorFlow's tpu_initializer_helper.cc: the lock is held by a process that cannot be found */
        { { "accessing libtpu multi-process lockfile" },
          CAUSE_DEVICE_BUSY,
          "libtpu could not take its lock /tmp/libtpu_lockfile",
          "tpuctl status shows who has the devices" },
        /* vllm tpu-inference PR#926 */
        { { "/dev/vfio/", "Device or resource busy" },
          CAUSE_DEVICE_BUSY,
          "a chip's device was busy",
          "tpuctl status shows who has the devices" },
        /* jax#13260 */
        { { "/dev/accel", "No such file or directory" },
          CAUSE_DEVICE_LOST,
          "a chip's device node was not there",
          "tpuctl check chips; a reboot may bring it back" },
        { { "/dev/vfio/", "No such file or directory" },
          CAUSE_DEVICE_LOST,
          "a chip's device node was not there",
          "tpuctl check chips; a reboot may bring it back" },
        /* Lightning#20244 */
        { { "Invalid slice_builder_worker_addresses" },
          CAUSE_CONFIGURATION,
          "libtpu was given another number of workers than the slice has",
          "compare tpuctl env with tpuctl identity" },
        /* KubeRay's webhook */
        { { "Identical TPU_WORKER_ID assigned" },
          CAUSE_CONFIGURATION,
          "two hosts have the same worker id",
          "compare tpuctl identity of all hosts" },
        /* gvisor#10795, jax#24399: no tpu-env from the metadata server */
        { { "Failed to get TPU metadata" },
          CAUSE_CONFIGURATION,
          "the framework asked the metadata server and got no answer",
          "start it with tpuctl run --framework, which makes the question needless" },
        /* MaxText's megascale_hang_playbook.md */
        { { "Megascale detects a hang" },
          CAUSE_HANG,
          "Megascale found that the slices hang",
          "tpuctl diagnose SLICE" },
        /* XLA's distributed client (client.h), as JAX prints it when a task is lost */
        { { "Terminating process because the JAX distributed service detected" },
          CAUSE_PEER_LOST,
          "JAX's coordination service lost another host of the run",
          "tpuctl why --fleet NAME: another host ended first" },
        /* The project's source documents, F11: the coordinator of another slice does not listen (yet) */
        { { "GetMultiSliceTopology returned with status: UNAVAILABLE" },
          CAUSE_PEER_LOST,
          "another slice of the run was not up, or could not be reached",
          "tpuctl check path; look at the other slice's tpuctl runs" },
        /* gloo's tcp/pair.cc, under torch.distributed: the socket to another rank ended */
        { { "gloo/transport/tcp/pair.cc", "Connection closed by peer" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "tpuctl why --fleet NAME: another host ended first" },
        { { "gloo/transport/tcp/pair.cc", "Connection reset by peer" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "tpuctl why --fleet NAME: another host ended first" },
        { { "gloo/transport/tcp/pair.cc", "Connection timed out" },
          CAUSE_PEER_LOST,
          "gloo lost the connection to another host of the run",
          "tpuctl why --fleet NAME: another host ended first" },
        /* F11 */
        { { "TPU initialization failed: Failed to connect" },
          CAUSE_PEER_LOST,
          "libtpu could not connect to the other hosts of the slice",
          "tpuctl check path; look at the other hosts' tpuctl runs" },
};

const struct log_sign *log_sign(int i) {
        return i >= 0 && (size_t) i < ELEMENTSOF(signs) ? &signs[i] : NULL;
}

static bool has_all(const struct log_sign *s, const char *line, size_t len) {
        const char *at = line;

        for (size_t w = 0; w < ELEMENTSOF(s->words) && s->words[w]; w++) {
                size_t n = strlen(s->words[w]);

                at = memmem(at, len - (size_t) (at - line), s->words[w], n);
                if (!at)
                        return false;
                at += n;
        }
        return true;
}

int log_sign_find(const char *line, size_t len) {
        for (size_t i = 0; i < ELEMENTSOF(signs); i++)
                if (has_all(&signs[i], line, len))
                        return (int) i;
        return -1;
}

/* An address of another host, as inet_ntop(3) writes it; what is IPv4 within IPv6 is IPv4. */
static bool take_address(const char *text, size_t len, bool brackets, char ret[static LOST_PEER_MAX]) {
        char copy[INET6_ADDRSTRLEN];
        struct in6_addr six;
        struct in_addr four;

        if (len == 0 || len >= sizeof(copy))
                return false;
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (inet_pton(AF_INET, copy, &four) != 1) {
                /* Without brackets "c10d::" would be one. */
                if (!brackets || inet_pton(AF_INET6, copy, &six) != 1)
                        return false;
                if (!IN6_IS_ADDR_V4MAPPED(&six))
                        return !IN6_IS_ADDR_LOOPBACK(&six) && !IN6_IS_ADDR_UNSPECIFIED(&six) &&
                               inet_ntop(AF_INET6, &six, ret, LOST_PEER_MAX);
                memcpy(&four, &six.s6_addr[12], sizeof(four));
        }
        return four.s_addr != 0 && (ntohl(four.s_addr) >> 24) != 127 &&
               inet_ntop(AF_INET, &four, ret, LOST_PEER_MAX);
}

static size_t word_of(const char *at, size_t len, const char *of) {
        size_t n = 0;

        while (n < len && at[n] != '\0' && strchr(of, at[n]))
                n++;
        return n;
}

static bool lost_address(const char *line, size_t len, char ret[static LOST_PEER_MAX]) {
        bool found = false;

        for (size_t i = 0, n; i < len; i += n + 1) {
                bool brackets = line[i] == '[';
                const char *at = line + i + brackets;
                size_t address;

                n = address = word_of(at, len - (size_t) (at - line),
                                      brackets ? "0123456789abcdefABCDEF.:" : "0123456789.");
                while (address > 0 && at[address - 1] == '.') /* of a sentence that ends */
                        address--;
                found |= take_address(at, address, brackets, ret);
        }
        return found;
}

/* "/job:jax_worker/replica:0/task:3", all of the line. */
static bool lost_task(const char *line, size_t len, char ret[static LOST_PEER_MAX]) {
        static const char job[] = "/job:", task[] = "/task:";
        const char *at = memmem(line, len, task, strlen(task));
        size_t digits;

        if (len < strlen(job) || memcmp(line, job, strlen(job)) != 0 || !at)
                return false;
        at += strlen(task);
        digits = word_of(at, len - (size_t) (at - line), "0123456789");
        if (digits == 0 || digits > 6 || at + digits != line + len || memchr(line, ' ', len))
                return false;
        (void) snprintf(ret, LOST_PEER_MAX, "task %.*s", (int) digits, at);
        return true;
}

bool log_lost_peer(const char *line, size_t len, int sign, char ret[static LOST_PEER_MAX]) {
        const struct log_sign *s = log_sign(sign);

        if (s)
                return s->cause == CAUSE_PEER_LOST && lost_address(line, len, ret);
        return lost_task(line, len, ret);
}

/* --- Whether it is restarted ------------------------------------------------------------------------- */

static bool made_progress(const struct restarts *done, const struct exit_record *end, usec_t lived) {
        if (end->step_known && (!done->step_known || end->last_step > done->best_step))
                return true;
        return lived >= RESTART_LIVED && !end->step_known && !done->step_known;
}

static usec_t pause_after(uint32_t idle) {
        usec_t pause = RESTART_FIRST;

        for (uint32_t i = 0; i < idle && pause < RESTART_PAUSE_MAX; i++)
                pause *= 2;
        return MIN(pause, RESTART_PAUSE_MAX);
}

void restart_decide(const struct restarts *done, uint32_t max, const struct exit_record *end,
                    enum cause cause, usec_t lived, struct restart_decision *ret) {
        struct restart_decision d = { .next = *done };
        bool progress = made_progress(done, end, lived);

        if (end->step_known && (!done->step_known || end->last_step > done->best_step)) {
                d.next.step_known = true;
                d.next.best_step = end->last_step;
        }
        d.next.idle = progress ? 0 : done->idle + 1;
        d.next.done = done->done + 1;
        if (max == 0 || !is_worth_a_restart(cause))
                ;
        else if (done->done >= max)
                (void) snprintf(d.words, sizeof(d.words), "not restarted: all %u restarts are done",
                                max);
        else if (d.next.idle >= RESTART_NO_PROGRESS)
                (void) snprintf(d.words, sizeof(d.words),
                                "not restarted: %u starts in a row made no progress",
                                (unsigned) d.next.idle);
        else {
                d.again = true;
                d.pause = pause_after(d.next.idle);
                (void) snprintf(d.words, sizeof(d.words), "restart %u of %u follows", d.next.done, max);
        }
        assert(!d.again || (d.next.done <= max && d.pause <= RESTART_PAUSE_MAX));
        *ret = d;
}
