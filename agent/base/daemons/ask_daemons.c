/* SPDX-License-Identifier: Apache-2.0 */
#include "ask_daemons.h"

#include <fcntl.h>
#include <poll.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-journal.h>
#include <systemd/sd-messages.h>

#include "clock.h"
#include "frame.h"
#include "local.pb-c.h"
#include "paths.h"
#include "proc_pid.h"
#include "utf8.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define BUS_TIME USEC_PER_SEC /* a call */

static const struct {
        const char *unit, *socket;
} daemons[] = {
        [DAEMON_HOSTD] = { "tpu-hostd.service", PATH_HOSTD_SOCKET },
        [DAEMON_LAUNCHD] = { "tpu-launchd.service", PATH_LAUNCHD_SOCKET },
        [DAEMON_NETCFG] = { "tpu-netcfg.service", PATH_NETCFG_SOCKET },
        [DAEMON_JOURNALD] = { "systemd-journald.service", NULL },
};
_Static_assert(ELEMENTSOF(daemons) == _DAEMON_MAX, "every daemon is asked about");

/* --- systemd ------------------------------------------------------------------------------------------- */

static int read_word(sd_bus *bus, const char *path, const char *interface, const char *name, char *buf,
                     size_t size) {
        _cleanup_free_ char *value = NULL;
        int r = sd_bus_get_property_string(bus, SYSTEMD, path, interface, name, NULL, &value);

        if (r >= 0)
                (void) snprintf(buf, size, "%s", value);
        return r;
}

#define UNIT_WORD(name, member) read_word(bus, path, SYSTEMD ".Unit", (name), (member), sizeof(member))

static int read_unit(sd_bus *bus, const char *unit, struct daemon_state *d) {
        static const char service[] = SYSTEMD ".Service";
        _cleanup_free_ char *path = NULL;
        uint64_t started = 0, ended = 0;
        usec_t now = clock_ns(CLOCK_MONOTONIC) / NSEC_PER_USEC; /* systemd's timestamps are on it */
        int r = sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit, &path);

        if (r >= 0)
                r = UNIT_WORD("LoadState", d->load);
        if (r >= 0)
                r = UNIT_WORD("ActiveState", d->active);
        if (r >= 0)
                r = UNIT_WORD("SubState", d->sub);
        if (r >= 0)
                r = UNIT_WORD("UnitFileState", d->enabled);
        if (r < 0 || !streq(d->load, "loaded"))
                return r;
        r = read_word(bus, path, service, "Result", d->result, sizeof(d->result));
        if (r >= 0)
                r = sd_bus_get_property_trivial(bus, SYSTEMD, path, service, "NRestarts", NULL, 'u',
                                                &d->restarts);
        if (r >= 0)
                r = sd_bus_get_property_trivial(bus, SYSTEMD, path, service, "MainPID", NULL, 'u', &d->pid);
        if (r >= 0)
                r = sd_bus_get_property_trivial(bus, SYSTEMD, path, service,
                                                "ExecMainStartTimestampMonotonic", NULL, 't', &started);
        if (r >= 0)
                r = sd_bus_get_property_trivial(bus, SYSTEMD, path, service,
                                                "ExecMainExitTimestampMonotonic", NULL, 't', &ended);
        d->up = started > 0 && now > started ? now - started : 0;
        d->lived = started > 0 && ended > started ? ended - started : 0;
        return r;
}

/* The result of the failure that the journal is at. */
static void take_result(sd_journal *j, struct daemon_state *d) {
        static const char name[] = "UNIT_RESULT=";
        const void *field;
        size_t len;

        if (sd_journal_get_data(j, "UNIT_RESULT", &field, &len) >= 0 && len > strlen(name))
                (void) snprintf(d->result, sizeof(d->result), "%.*s", (int) (len - strlen(name)),
                                (const char *) field + strlen(name));
}

/* When it was restarted only the journal knows: NRestarts has no times, and a service that lives again has
 * the result "success". What a person stops or restarts does not fail. */
static void read_failures(const char *unit, struct daemon_state *d) {
        _cleanup_(sd_journal_closep) sd_journal *j = NULL;
        usec_t now = clock_ns(CLOCK_MONOTONIC) / NSEC_PER_USEC, at;
        char of_unit[64];
        int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

        (void) snprintf(of_unit, sizeof(of_unit), "UNIT=%s", unit);
        if (r >= 0)
                r = sd_journal_add_match(j, of_unit, 0);
        if (r >= 0)
                r = sd_journal_add_match(j, "MESSAGE_ID=" SD_MESSAGE_UNIT_FAILURE_RESULT_STR, 0);
        if (r >= 0)
                r = sd_journal_add_match(j, "_PID=1", 0); /* anybody may log the fields above */
        if (r >= 0)
                r = sd_journal_seek_tail(j);
        while (r >= 0 && d->failures < d->restarts && sd_journal_previous(j) > 0) {
                r = sd_journal_get_monotonic_usec(j, &at, NULL); /* -ESTALE: before this boot */
                if (r < 0 || at + DAEMON_FAILURES_TIME < now)
                        break;
                if (d->failures++ == 0)
                        take_result(j, d);
        }
}

/* One that this version of systemd does not have is left out. */
static void read_limits(sd_bus *bus, struct daemon_states *s) {
        static const struct run_limit limits[] = {
                { "tpu.slice", "TasksMax", 0 },      { "tpu-run.slice", "TasksMax", 0 },
                { "tpu.slice", "MemoryMax", 0 },     { "tpu-run.slice", "MemoryMax", 0 },
                { "tpu.slice", "MemoryHigh", 0 },    { "tpu-run.slice", "MemoryHigh", 0 },
                { "tpu.slice", "CPUQuotaPerSecUSec", 0 }, { "tpu-run.slice", "CPUQuotaPerSecUSec", 0 },
                { NULL, "DefaultTasksMax", 0 },      { NULL, "DefaultLimitNPROC", 0 },
                { NULL, "DefaultLimitAS", 0 },       { NULL, "DefaultLimitDATA", 0 },
                { NULL, "DefaultLimitFSIZE", 0 },    { NULL, "DefaultLimitCPU", 0 },
        };

        _Static_assert(ELEMENTSOF(limits) <= RUN_LIMITS_MAX, "each has room");
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct run_limit *l = &s->limits[s->n_limits];
                _cleanup_free_ char *path = NULL;

                *l = limits[i];
                if (l->unit && sd_bus_path_encode("/org/freedesktop/systemd1/unit", l->unit, &path) < 0)
                        continue;
                s->n_limits += sd_bus_get_property_trivial(bus, SYSTEMD,
                                                           path ? path : "/org/freedesktop/systemd1",
                                                           l->unit ? SYSTEMD ".Slice" : SYSTEMD ".Manager",
                                                           l->property, NULL, 't', &l->value) >= 0;
        }
}

static int connect_bus(sd_bus **ret) {
        int r = sd_bus_open_system(ret);

        return r < 0 ? r : sd_bus_set_method_call_timeout(*ret, BUS_TIME);
}

static void ask_systemd(struct daemon_states *s) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        int r = connect_bus(&bus);

        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++) {
                if (r >= 0) /* one that does not answer is not asked again */
                        r = read_unit(bus, daemons[i].unit, &s->of[i]);
                s->of[i].error = MIN(r, 0);
                if (s->of[i].restarts > 1)
                        read_failures(daemons[i].unit, &s->of[i]);
        }
        if (r >= 0)
                read_limits(bus, s);
}

/* --- The kernel ---------------------------------------------------------------------------------------- */

static void read_process(const struct host *h, struct daemon_state *d) {
        struct proc_pid_stat s;

        if (d->pid != 0 && proc_pid_stat_read(h, d->pid, &s) >= 0)
                d->process = s.state;
}

/* --- They themselves ----------------------------------------------------------------------------------- */

static int send_question(enum daemon_id i, int fd) {
        static const char http[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        const Local__StatusRequest frame = LOCAL__STATUS_REQUEST__INIT;

        if (i != DAEMON_HOSTD)
                return frame_send(fd, LOCAL__KIND__KIND_STATUS_REQUEST, &frame.base, DAEMON_ANSWER_TIME);
        return send(fd, http, strlen(http), MSG_NOSIGNAL) == (ssize_t) strlen(http) ? 0 : -EAGAIN;
}

/* tpu-hostd's other answers are /v1/checks': what it says of itself is known to who asks there. */
static int receive_http(int fd, usec_t timeout) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char head[8];

        if (poll(&p, 1, (int) (timeout / USEC_PER_MSEC)) <= 0)
                return -ETIMEDOUT;
        return recv(fd, head, sizeof(head), MSG_DONTWAIT) > 0 ? 0 : -ECONNRESET;
}

static void take_findings(const Local__StatusReply *m, struct daemon_state *d) {
        for (size_t i = 0; m && i < m->n_finding && d->n_says < DAEMON_FINDINGS_MAX; i++) {
                const Local__Finding *in = m->finding[i];
                struct finding *f = &d->says[d->n_says++];

                finding_init(f, in->check, in->subject);
                (void) verdict_parse(in->verdict, &f->verdict); /* of a later version: UNKNOWN */
                utf8_copy(f->found, sizeof(f->found), in->found);
                utf8_copy(f->wanted, sizeof(f->wanted), in->wanted);
                utf8_copy(f->source, sizeof(f->source), in->source);
                utf8_copy(f->reason, sizeof(f->reason), in->reason);
                utf8_copy(f->remedy, sizeof(f->remedy), in->remedy);
        }
}

/* An earlier version answers that it knows no such question, which is an answer. */
static int receive_status(int fd, usec_t timeout, struct daemon_state *d) {
        _cleanup_free_ uint8_t *buf = NULL;
        Local__StatusReply *m = NULL;
        struct frame f;
        int r = frame_receive(fd, timeout, &f, &buf);

        if (r == 0 && f.kind == LOCAL__KIND__KIND_STATUS_REPLY)
                m = local__status_reply__unpack(NULL, f.len, f.data);
        take_findings(m, d);
        local__status_reply__free_unpacked(m, NULL);
        return r;
}

/* systemd holds the sockets: a daemon that is not active would be started by the question. One that a signal
 * has stopped does not answer. */
static bool is_to_be_asked(enum daemon_id i, const struct daemon_state *d) {
        return daemons[i].socket && d->process != 'T' && d->process != 't' &&
               (d->error < 0 || streq(d->active, "active") || streq(d->active, "reloading"));
}

static void ask_all(const struct host *h, struct daemon_states *s) {
        usec_t deadline = host_now(h) + DAEMON_ANSWER_TIME;
        int fds[_DAEMON_MAX];

        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++) {
                struct daemon_state *d = &s->of[i];

                fds[i] = -1;
                d->asked = is_to_be_asked(i, d);
                if (!d->asked)
                        continue;
                fds[i] = frame_connect(daemons[i].socket);
                /* EAGAIN: so many callers wait that there is no room for another */
                d->answer = fds[i] < 0 ? fds[i] : send_question(i, fds[i]);
                if (d->answer == -EAGAIN)
                        d->answer = -ETIMEDOUT;
        }
        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++) {
                struct daemon_state *d = &s->of[i];
                usec_t now = host_now(h), left = deadline - MIN(now, deadline);

                if (d->asked && d->answer == 0)
                        d->answer = i == DAEMON_HOSTD ? receive_http(fds[i], left) :
                                                        receive_status(fds[i], left, d);
                fds[i] = close_fd(fds[i]);
        }
}

void ask_daemons(const struct host *h, struct daemon_states *ret) {
        _cleanup_close_ int fd = h->real_root ? host_open_file(h, "/run/systemd/system", O_PATH) : -1;

        *ret = (struct daemon_states){ .systemd = fd >= 0, .since_boot = host_now(h) };
        if (!ret->systemd)
                return;
        ask_systemd(ret);
        for (enum daemon_id i = 0; i < _DAEMON_MAX; i++)
                read_process(h, &ret->of[i]);
        ask_all(h, ret);
}

/* --- Who has the chips -------------------------------------------------------------------------------- */

#define OWNERS_TIME (2 * USEC_PER_SEC)

static void fail_owners(struct device_owners *o, int error, const char *what) {
        *o = (struct device_owners){ .error = error };
        (void) snprintf(o->why, sizeof(o->why), "tpu-launchd (%s): %s", PATH_LAUNCHD_SOCKET, what);
}

static void take_reply(const Local__OwnersReply *reply, struct device_owners *ret) {
        *ret = (struct device_owners){ .incomplete = reply->incomplete };
        for (size_t i = 0; i < reply->n_owner && ret->n < DEVICE_OWNERS_MAX; i++) {
                const Local__Owner *in = reply->owner[i];
                struct device_owner *out = &ret->owners[ret->n++];

                out->pid = in->pid;
                out->uid = in->uid;
                (void) snprintf(out->device, sizeof(out->device), "%s", in->device);
                (void) snprintf(out->unit, sizeof(out->unit), "%s", in->unit);
                (void) snprintf(out->command, sizeof(out->command), "%s", in->command);
        }
        ret->incomplete |= reply->n_owner > DEVICE_OWNERS_MAX;
        for (size_t i = 0; i < reply->n_port && ret->n_ports < PORT_OWNERS_MAX; i++) {
                const Local__PortOwner *in = reply->port[i];
                struct port_owner *out = &ret->ports[ret->n_ports++];

                out->port = (uint16_t) in->port;
                out->pid = in->pid;
                out->uid = in->uid;
                (void) snprintf(out->unit, sizeof(out->unit), "%s", in->unit);
                (void) snprintf(out->command, sizeof(out->command), "%s", in->command);
        }
}

static void take_frame(const struct frame *f, struct device_owners *ret) {
        Local__OwnersReply *reply;
        Local__Error *e;

        if (f->kind == LOCAL__KIND__KIND_ERROR) {
                e = local__error__unpack(NULL, f->len, f->data);
                fail_owners(ret, -EIO, e ? e->text : "its answer cannot be understood");
                local__error__free_unpacked(e, NULL);
                return;
        }
        reply = f->kind == LOCAL__KIND__KIND_OWNERS_REPLY
                        ? local__owners_reply__unpack(NULL, f->len, f->data)
                        : NULL;
        if (reply)
                take_reply(reply, ret);
        else
                fail_owners(ret, -EPROTO, "its answer cannot be understood");
        local__owners_reply__free_unpacked(reply, NULL);
}

void ask_owners(const struct host *h, struct device_owners *ret) {
        Local__OwnersRequest q = LOCAL__OWNERS_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        _cleanup_close_ int fd = -1;
        struct frame f;
        char path[256];
        int r;

        if (snprintf(path, sizeof(path), "%s%s", h->root ? h->root : "", PATH_LAUNCHD_SOCKET) >=
            (int) sizeof(path)) {
                fail_owners(ret, -ENAMETOOLONG, "the path below --root is too long");
                return;
        }
        fd = frame_connect(path);
        r = fd < 0 ? fd : frame_send(fd, LOCAL__KIND__KIND_OWNERS_REQUEST, &q.base, OWNERS_TIME);
        if (r == 0)
                r = frame_receive(fd, OWNERS_TIME, &f, &buf);
        if (r < 0)
                fail_owners(ret, r, strerror(-r));
        else
                take_frame(&f, ret);
}
