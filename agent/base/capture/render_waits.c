/* SPDX-License-Identifier: Apache-2.0 */
#include "render_waits.h"

#include <sys/socket.h>

#include "wait_words.h"

#define WAITS_SHOWN  8u    /* in text, of one thread */
#define ITEM_BYTES   1024u /* of a wait, socket or end without its texts, more than it takes */

static bool has_room(const struct text_sink *s, size_t texts, uint64_t limit) {
        return s->put + ITEM_BYTES + 6 * texts <= limit;
}

/* Nothing when it is 0. */
static void put_known(struct text_sink *s, const char *key, uint64_t n) {
        if (n != 0)
                sink_number_member(s, key, (int64_t) n);
}

static void put_flag(struct text_sink *s, const char *key, bool v) {
        if (v)
                sink_text(s, key);
}

/* --- Waits -------------------------------------------------------------------------------------------- */

static void put_json_wait(struct text_sink *s, const struct captured_wait *w, const char *text,
                          const char *words) {
        sink_text_member(s, "{\"for\":", wait_kind_name(w->kind));
        sink_text_member(s, ",\"words\":", words);
        if (w->fd != WAIT_FD_NONE)
                sink_number_member(s, ",\"fd\":", w->fd);
        put_flag(s, ",\"any\":true", w->any);
        put_flag(s, ",\"writes\":true", w->writes);
        put_flag(s, ",\"limited\":true", w->limited);
        put_flag(s, ",\"spins\":true", w->spins);
        put_known(s, ",\"space\":", w->space);
        put_known(s, ",\"number\":", w->number);
        put_known(s, ",\"holder_pid\":", w->holder_pid);
        put_known(s, ",\"holder_tid\":", w->holder_tid);
        if (*text)
                sink_text_member(s, ",\"text\":", text);
        put_known(s, ",\"since_usec\":", w->since_usec);
        sink_text(s, "}");
}

bool render_thread_waits(struct text_sink *s, const struct host_capture *c, const struct stack_table *t,
                         const struct captured_process *p, const struct captured_thread *th, bool json,
                         uint64_t limit) {
        char words[WAIT_WORDS_MAX];

        if (json)
                sink_text(s, ",\"waits\":[");
        for (uint32_t i = 0; i < th->n_waits; i++) {
                const struct captured_wait *w = &c->waits[th->first_wait + i];
                const char *text = stack_table_text(t, w->text);

                wait_words(c, t, p, w, words);
                if (!has_room(s, strlen(text) + strlen(words), limit)) {
                        sink_text(s, json ? "]" : "");
                        return false;
                }
                if (json) {
                        sink_text(s, i > 0 ? "," : "");
                        put_json_wait(s, w, text, words);
                } else if (i < WAITS_SHOWN)
                        sink_format(s, "  %s%s\n", w->any && i > 0 ? "or " : "", words);
        }
        if (json)
                sink_text(s, "]");
        else if (th->n_waits > WAITS_SHOWN)
                sink_format(s, "  or for one of %ld others\n", (long) (th->n_waits - WAITS_SHOWN));
        return true;
}

/* --- Sockets ------------------------------------------------------------------------------------------ */

static void put_json_socket(struct text_sink *s, const struct captured_socket *k, const char *local,
                            const char *remote) {
        sink_number_member(s, "{\"fd\":", k->fd);
        put_known(s, ",\"inode\":", k->inode);
        put_known(s, ",\"net\":", k->net);
        put_known(s, ",\"peer\":", k->peer);
        put_known(s, ",\"family\":", k->family);
        put_known(s, ",\"protocol\":", k->protocol);
        put_known(s, ",\"state\":", k->state);
        sink_text_member(s, ",\"local\":", local);
        sink_text_member(s, ",\"remote\":", remote);
        put_known(s, ",\"unread\":", k->unread);
        put_known(s, ",\"unsent\":", k->unsent);
        put_known(s, ",\"unacknowledged\":", k->unacknowledged);
        put_known(s, ",\"retransmits\":", k->retransmits);
        if (k->sent_ms != SOCKET_MS_NONE)
                sink_number_member(s, ",\"sent_ms\":", k->sent_ms);
        if (k->received_ms != SOCKET_MS_NONE)
                sink_number_member(s, ",\"received_ms\":", k->received_ms);
        put_known(s, ",\"bytes_acked\":", k->bytes_acked);
        put_known(s, ",\"bytes_received\":", k->bytes_received);
        sink_text(s, "}");
}

static void put_socket(struct text_sink *s, const struct stack_table *t, const struct captured_socket *k) {
        char ends[WAIT_WORDS_MAX], queue[WAIT_WORDS_MAX];

        wait_queue_words(k, queue);
        if (!queue[0])
                return;
        wait_socket_words(t, k, ends);
        sink_format(s, "fd %ld %s: %s", (long) k->fd, ends, queue);
        if (k->sent_ms != SOCKET_MS_NONE && k->received_ms != SOCKET_MS_NONE)
                sink_format(s, "; last sent %ld ms ago, last received %ld ms ago", (long) k->sent_ms,
                            (long) k->received_ms);
        sink_text(s, "\n");
}

bool render_process_waits(struct text_sink *s, const struct host_capture *c, const struct stack_table *t,
                          const struct captured_process *p, bool json, uint64_t limit) {
        if (json) {
                put_known(s, ",\"parent\":", p->parent);
                put_known(s, ",\"children_gone\":", p->children_gone);
                put_known(s, ",\"cpu_usec\":", p->cpu_usec);
                put_known(s, ",\"start_ticks\":", p->start_ticks);
                sink_text(s, ",\"sockets\":[");
        } else if (p->children_gone > 0)
                sink_format(s, "%ld of its child processes ended and it has not waited for them\n",
                            (long) p->children_gone);
        for (uint32_t i = 0; i < p->n_sockets; i++) {
                const struct captured_socket *k = &c->sockets[p->first_socket + i];
                const char *local = stack_table_text(t, k->local), *remote = stack_table_text(t, k->remote);

                if (!has_room(s, strlen(local) + strlen(remote), limit)) {
                        sink_text(s, json ? "]" : "");
                        return false;
                }
                if (json) {
                        sink_text(s, i > 0 ? "," : "");
                        put_json_socket(s, k, local, remote);
                } else
                        put_socket(s, t, k);
        }
        if (json)
                sink_text(s, "]");
        return true;
}

/* --- Ends --------------------------------------------------------------------------------------------- */

bool render_ends(struct text_sink *s, const struct host_capture *c, const struct stack_table *t, bool json,
                 uint64_t limit) {
        char object[WAIT_WORDS_MAX];

        for (size_t i = 0; i < c->n_ends; i++) {
                const struct captured_end *e = &c->ends[i];
                const char *command = stack_table_text(t, e->command);

                if (!has_room(s, strlen(command), limit))
                        return false;
                wait_object_words(e->kind, e->number, object);
                if (!json) {
                        sink_format(s, "%s: process %ld %s has it%s\n", object, (long) e->pid, command,
                                    e->reads && e->writes ? " to read and write"
                                    : e->reads            ? " to read"
                                    : e->writes           ? " to write"
                                                          : "");
                        continue;
                }
                sink_text_member(s, i > 0 ? ",{\"for\":" : "{\"for\":", wait_kind_name(e->kind));
                sink_number_member(s, ",\"pid\":", e->pid);
                sink_text_member(s, ",\"command\":", command);
                put_flag(s, ",\"reads\":true", e->reads);
                put_flag(s, ",\"writes\":true", e->writes);
                put_known(s, ",\"space\":", e->space);
                put_known(s, ",\"number\":", e->number);
                sink_text(s, "}");
        }
        return true;
}
