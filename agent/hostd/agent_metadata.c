/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata server: what it says of this host, kept for a boot without it, and handed to tpu-netcfg. */
#include "check_words.h"
#include "agent.h"
#include "log.h"
#include "paths.h"

#define LIVE "metadata"

_Static_assert(METADATA_NICS_MAX <= MTU_HANDOVER_MAX, "every NIC fits into one handover");

static const char *copy_path(const struct agent *a) {
        return agent_own(a, a->settings.metadata_copy, PATH_METADATA_COPY);
}

/* The address of the metadata server; NULL: none is asked. */
static const char *agent_metadata_address(const struct agent *a) {
        const char *text = agent_own(a, a->settings.metadata_host, METADATA_ADDRESS);

        return text && !streq(text, "none") ? text : NULL;
}

/* --- What is known ------------------------------------------------------------------------------------- */

int agent_metadata_fill(struct agent *a, struct identity *i) {
        return metadata_facts_fill(&a->known.facts, a->known_origin, i);
}

static void hand_over(struct agent *a) {
        struct mtu_entry entries[MTU_HANDOVER_MAX];
        size_t n = 0;

        if (!a->mtu_handover)
                return;
        for (size_t i = 0; i < a->known.facts.n_nics; i++) {
                const struct metadata_nic *nic = &a->known.facts.nics[i];

                if (nic->mtu == 0)
                        continue;
                entries[n].mtu = nic->mtu;
                memcpy(entries[n++].mac, nic->mac, sizeof(nic->mac));
        }
        mtu_handover_offer(a->mtu_handover, entries, n, a->known_origin);
}

static void believe(struct agent *a) {
        agent_look_again(a);
        hand_over(a);
}

/* tpu-netcfg's file says what it took: probes judge by the same. */
static void on_taken(void *userdata) {
        agent_look_again(userdata);
}

/* --- The server ---------------------------------------------------------------------------------------- */

static void on_changed(const struct metadata_facts *f, void *userdata) {
        struct agent *a = userdata;
        struct metadata_copy fresh = { .taken = host_now_real(a->host) };
        int r;

        r = metadata_facts_copy(f, &fresh.facts);
        if (r < 0) {
                (void) log_error_errno(r, "what the metadata server says is lost until it says more: %m");
                return;
        }
        metadata_facts_clear(&a->known.facts);
        a->known = fresh;
        (void) snprintf(a->known.boot_id, sizeof(a->known.boot_id), "%s", a->boot_id);
        (void) snprintf(a->known_origin, sizeof(a->known_origin), "%s", LIVE);
        log_info("metadata server: machine type %s, name %s, %zu network interfaces",
                 f->machine_type[0] ? f->machine_type : "unknown", f->name[0] ? f->name : "unknown",
                 f->n_nics);
        r = 0;
        if (a->metadata_writer)
                r = metadata_copy_put(a->metadata_writer, &a->known);
        if (r < 0)
                (void) log_warning_errno(r, "the metadata server's answers cannot be kept in %s: %m",
                                         copy_path(a));
        believe(a);
}

/*
 * Something is to happen to this host. text: the server's word. What follows for runs is the matter of those
 * who own runs: agent_preempted() tells them.
 */
static void on_notice(enum metadata_notice kind, bool ahead, const char *text, void *userdata) {
        struct agent *a = userdata;

        if (ahead)
                agent_preempted(a, kind, text);
        else
                agent_preemption_over(a, kind, text);
}

/* Copy= is a path of this machine, as SpoolDirectory= is, whatever the root. */
static int read_copy(const struct agent *a, struct metadata_copy *ret) {
        _cleanup_host_ struct host here = HOST_NULL;
        char why[METADATA_WHY_MAX] = "";
        int r;

        r = host_open(NULL, &here);
        if (r == 0)
                r = metadata_copy_read(&here, copy_path(a), ret, why);
        if (r < 0 && r != -ENOENT)
                log_warning("%s is passed over: %s", copy_path(a), why[0] ? why : strerror(-r));
        return r;
}

static void on_written(uint64_t number, int result, void *userdata) {
        (void) number;
        if (result < 0)
                (void) log_warning_errno(result, "the metadata server's answers are not kept in %s: %m",
                                         copy_path(userdata));
}

static void on_failed(const char *why, void *userdata) {
        log_info("metadata server %s: %s", agent_metadata_address(userdata), why);
}

/*
 * A server that has not answered since start. Not at its first failure: at boot the network may come up
 * after us, and what the server says now is better than what it said before.
 */
static int on_patience_ended(sd_event_source *s, uint64_t usec, void *userdata) {
        struct agent *a = userdata;
        struct metadata_copy copy = { 0 };

        (void) s, (void) usec;
        if (a->known.taken > 0 || read_copy(a, &copy) < 0)
                return 0;
        a->known = copy;
        a->known.taken = MAX(a->known.taken, (usec_t) 1);
        (void) metadata_copy_origin(&copy, a->known_origin);
        log_notice("identity and the networks' MTU are from %s", a->known_origin);
        believe(a);
        return 0;
}

static int start_copy(struct agent *a) {
        int r;

        if (!copy_path(a))
                return 0;
        r = file_writer_new(a->event, copy_path(a), &metadata_copy_file, on_written, a, &a->metadata_writer);
        if (r >= 0)
                r = sd_event_add_time_relative(a->event, &a->metadata_patience, CLOCK_BOOTTIME,
                                               a->settings.metadata_copy_after, 0, on_patience_ended, a);
        if (r >= 0)
                (void) sd_event_source_set_description(a->metadata_patience, "metadata-patience");
        return r;
}

void agent_metadata_judge(struct agent *a) {
        struct metadata_status s;
        struct finding f;

        if (!a->metadata)
                return;
        metadata_get_status(a->metadata, &s);
        if (!s.answering && !s.why[0])
                return; /* the first question is still open */
        finding_init(&f, "metadata", "");
        finding_set(f.source, "[Metadata] Host=%s",
                    a->settings.metadata_host[0] ? a->settings.metadata_host : agent_metadata_address(a));
        f.verdict = VERDICT_OK;
        if (s.answering)
                finding_set(f.found, "answering");
        else if (a->known.taken == 0) {
                finding_set(f.found, "no metadata server; the static file alone counts");
                finding_set(f.reason, "%s", s.why);
        } else {
                finding_set(f.found, "away");
                check_say(&f, WORDS_METADATA_AWAY, s.why, a->known_origin, agent_metadata_address(a));
        }
        agent_take_finding(a, SOURCE_METADATA, a->ticks, &f);
        agent_settle(a, SOURCE_METADATA, a->ticks);
}

int agent_metadata_start(struct agent *a) {
        const struct metadata_options o = {
                .address = agent_metadata_address(a),
                .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                .changed = on_changed,
                .failed = on_failed,
                .notice = on_notice,
                .userdata = a,
        };
        const char *netcfg = agent_own(a, a->settings.netcfg_socket, PATH_NETCFG_SOCKET);
        int r = 0;

        if (!o.address)
                return 0;
        if (netcfg)
                r = mtu_handover_new(a->event, netcfg, on_taken, a, &a->mtu_handover);
        if (r >= 0)
                r = start_copy(a);
        return r < 0 ? r : metadata_new(a->event, &o, &a->metadata);
}

void agent_metadata_stop(struct agent *a) {
        a->metadata = metadata_free(a->metadata);
        metadata_facts_clear(&a->known.facts);
        a->metadata_patience = sd_event_source_disable_unref(a->metadata_patience);
        a->metadata_writer = file_writer_free(a->metadata_writer);
        a->mtu_handover = mtu_handover_free(a->mtu_handover);
}
