/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_words.h"

#include <assert.h>
#include <sys/socket.h>

#include "texts.h"
#include "utf8.h"

#define SHORT_MAX       300 /* of a text within a clause */
#define STATE_SYN_SENT  2   /* net/tcp_states.h */
#define STATE_LISTEN    10
#define SINCE_SHOWN_MIN USEC_PER_SEC /* what is younger is no wait to speak of */

static const char *const kind_names[_WAIT_KIND_MAX] = {
        [WAIT_UNKNOWN] = "unknown",     [WAIT_LOCK] = "lock",           [WAIT_GIL] = "gil",
        [WAIT_SOCKET] = "socket",       [WAIT_PIPE] = "pipe",           [WAIT_EVENTFD] = "eventfd",
        [WAIT_FILE] = "file",           [WAIT_FILE_LOCK] = "file_lock", [WAIT_DEVICE] = "device",
        [WAIT_CHILD] = "child",         [WAIT_TIMER] = "timer",         [WAIT_PAGE] = "page",
        [WAIT_IO_URING] = "io_uring",   [WAIT_STOPPED] = "stopped",     [WAIT_FROZEN] = "frozen",
        [WAIT_THROTTLED] = "throttled",
};

const char *wait_kind_name(uint8_t kind) {
        return kind_names[kind < _WAIT_KIND_MAX ? kind : WAIT_UNKNOWN];
}

/* --- Sockets ------------------------------------------------------------------------------------------ */

void wait_socket_words(const struct stack_table *t, const struct captured_socket *s,
                       char buf[static WAIT_WORDS_MAX]) {
        const char *local = stack_table_text(t, s->local), *remote = stack_table_text(t, s->remote);

        if (s->family == AF_UNIX && !*local && !*remote)
                (void) snprintf(buf, WAIT_WORDS_MAX, "Unix socket:[%" PRIu64 "]", s->inode);
        else if (s->family == AF_UNIX)
                (void) snprintf(buf, WAIT_WORDS_MAX, "Unix socket:[%" PRIu64 "] %.*s", s->inode, SHORT_MAX,
                                *local ? local : remote);
        else if (!*local && !*remote)
                (void) snprintf(buf, WAIT_WORDS_MAX, "socket:[%" PRIu64 "]", s->inode);
        else
                (void) snprintf(buf, WAIT_WORDS_MAX, "%.*s%s%.*s", SHORT_MAX, local, *remote ? " → " : "",
                                SHORT_MAX, remote);
        (void) utf8_scrub(buf, strlen(buf));
}

void wait_queue_words(const struct captured_socket *s, char buf[static WAIT_WORDS_MAX]) {
        buf[0] = '\0';
        if (s->state == STATE_LISTEN)
                return;
        if (s->unread > 0)
                text_append(buf, WAIT_WORDS_MAX, ", ", "%" PRIu32 " bytes unread", s->unread);
        if (s->unsent > 0)
                text_append(buf, WAIT_WORDS_MAX, ", ", "%" PRIu32 " bytes unsent", s->unsent);
        if (s->unacknowledged > 0)
                text_append(buf, WAIT_WORDS_MAX, ", ", "%" PRIu32 " segments not acknowledged",
                            s->unacknowledged);
        if (s->retransmits > 0)
                text_append(buf, WAIT_WORDS_MAX, "", " (retransmitted %u times in a row)",
                            (unsigned) s->retransmits);
}

static void words_of_socket(const struct host_capture *c, const struct stack_table *t,
                            const struct captured_process *p, const struct captured_wait *w,
                            char buf[static WAIT_WORDS_MAX]) {
        const struct captured_socket *s = captured_socket_of(c, p, w->number);
        char ends[WAIT_WORDS_MAX], queue[WAIT_WORDS_MAX] = "";

        if (s)
                wait_socket_words(t, s, ends);
        else
                (void) snprintf(ends, sizeof(ends), "socket:[%" PRIu64 "] of which nothing is known",
                                w->number);
        if (s)
                wait_queue_words(s, queue);
        if (s && s->state == STATE_LISTEN)
                (void) snprintf(buf, WAIT_WORDS_MAX, "a connection to %.800s", ends);
        else if (s && s->state == STATE_SYN_SENT)
                (void) snprintf(buf, WAIT_WORDS_MAX, "an answer to its connection %.400s, %.400s", ends,
                                queue[0] ? queue : "nothing sent");
        else
                (void) snprintf(buf, WAIT_WORDS_MAX, "%s %.500s%s%.300s", w->writes ? "room on" : "data on",
                                ends, s ? ", " : "", queue[0] ? queue : s ? "nothing unread" : "");
}

/* --- Who holds it ------------------------------------------------------------------------------------- */

/* " that thread 214 'writer' holds", " that process 12 holds"; "" where nobody is known. */
static void words_of_holder(const struct host_capture *c, const struct stack_table *t,
                            const struct captured_process *p, const struct captured_wait *w,
                            char buf[static SHORT_MAX]) {
        bool own = w->holder_pid == p->pid || w->holder_pid == 0;
        const struct captured_thread *th = own ? captured_thread_of(c, p, w->holder_tid) : NULL;

        if (th)
                (void) snprintf(buf, SHORT_MAX, " that thread %" PRIu32 " '%.100s' holds", w->holder_tid,
                                stack_table_text(t, th->name));
        else if (w->holder_tid != 0 && w->holder_pid == p->pid)
                (void) snprintf(buf, SHORT_MAX, " that thread %" PRIu32 " holds", w->holder_tid);
        else if (w->holder_tid != 0)
                (void) snprintf(buf, SHORT_MAX, " that thread %" PRIu32 " of process %" PRIu32 " holds",
                                w->holder_tid, w->holder_pid);
        else if (w->holder_pid != 0)
                (void) snprintf(buf, SHORT_MAX, " that process %" PRIu32 " holds", w->holder_pid);
        else
                buf[0] = '\0';
}

static void words_of_lock(const struct stack_table *t, const struct captured_wait *w, const char *holder,
                          char buf[static WAIT_WORDS_MAX]) {
        const char *text = stack_table_text(t, w->text);

        holder = *holder ? holder : ", holder unknown";
        if (*text)
                (void) snprintf(buf, WAIT_WORDS_MAX, "%.500s%s", text, holder);
        else
                (void) snprintf(buf, WAIT_WORDS_MAX, "a lock at 0x%" PRIx64 "%s", w->number, holder);
}

/* --- The clause --------------------------------------------------------------------------------------- */

void wait_object_words(uint8_t kind, uint64_t number, char buf[static WAIT_WORDS_MAX]) {
        if (number == 0)
                (void) snprintf(buf, WAIT_WORDS_MAX, "%s that is not known", wait_kind_name(kind));
        else if (kind == WAIT_PIPE || kind == WAIT_SOCKET)
                (void) snprintf(buf, WAIT_WORDS_MAX, "%s:[%" PRIu64 "]", wait_kind_name(kind), number);
        else
                (void) snprintf(buf, WAIT_WORDS_MAX, "%s %" PRIu64, wait_kind_name(kind), number);
}

/* What stands behind "waits for". */
static void words_of_object(const struct host_capture *c, const struct stack_table *t,
                            const struct captured_process *p, const struct captured_wait *w,
                            char buf[static WAIT_WORDS_MAX]) {
        const char *text = stack_table_text(t, w->text);
        char holder[SHORT_MAX], object[WAIT_WORDS_MAX];

        words_of_holder(c, t, p, w, holder);
        wait_object_words(w->kind, w->number, object);
        switch (w->kind) {
        case WAIT_LOCK:
                words_of_lock(t, w, holder, buf);
                break;
        case WAIT_GIL:
                (void) snprintf(buf, WAIT_WORDS_MAX, "the interpreter's lock (GIL)%s", holder);
                break;
        case WAIT_SOCKET:
                words_of_socket(c, t, p, w, buf);
                break;
        case WAIT_PIPE:
                (void) snprintf(buf, WAIT_WORDS_MAX, "%s %.100s%s%.500s", w->writes ? "room in" : "data in",
                                object, *text ? " " : "", text);
                break;
        case WAIT_EVENTFD:
                (void) snprintf(buf, WAIT_WORDS_MAX, "%.100s%s%.500s", object, *text ? " " : "", text);
                break;
        case WAIT_FILE_LOCK:
                (void) snprintf(buf, WAIT_WORDS_MAX, "a lock of the file %.500s%s",
                                *text ? text : "(name unknown)", holder);
                break;
        case WAIT_CHILD:
                if (w->holder_pid != 0)
                        (void) snprintf(buf, WAIT_WORDS_MAX, "the end of its child process %" PRIu32,
                                        w->holder_pid);
                else
                        (void) snprintf(buf, WAIT_WORDS_MAX, "the end of a child process");
                break;
        case WAIT_FILE:
                (void) snprintf(buf, WAIT_WORDS_MAX, "the file system %.500s", text);
                break;
        case WAIT_DEVICE:
                (void) snprintf(buf, WAIT_WORDS_MAX, "the device %.500s", text);
                break;
        case WAIT_PAGE:
                (void) snprintf(buf, WAIT_WORDS_MAX, "a page of memory (%.500s)",
                               *text ? text : "not known");
                break;
        case WAIT_IO_URING:
                (void) snprintf(buf, WAIT_WORDS_MAX, "what it handed to io_uring%s%.500s", *text ? ": " : "",
                                text);
                break;
        default:
                (void) snprintf(buf, WAIT_WORDS_MAX, "something that is not known: %.500s", text);
        }
}

/* A clause of its own; false: the thread waits for something. */
static bool words_without_object(const struct stack_table *t, const struct captured_wait *w,
                                 char buf[static WAIT_WORDS_MAX]) {
        const char *text = stack_table_text(t, w->text);

        if (w->kind == WAIT_TIMER)
                (void) snprintf(buf, WAIT_WORDS_MAX, "sleeps%s%.500s", *text ? " " : "", text);
        else if (w->kind == WAIT_STOPPED && w->holder_pid != 0)
                (void) snprintf(buf, WAIT_WORDS_MAX, "is stopped by its tracer, process %" PRIu32,
                                w->holder_pid);
        else if (w->kind == WAIT_STOPPED)
                (void) snprintf(buf, WAIT_WORDS_MAX, "is stopped by a signal (SIGCONT lets it go on)");
        else if (w->kind == WAIT_FROZEN)
                (void) snprintf(buf, WAIT_WORDS_MAX, "is frozen with its control group %.500s", text);
        else if (w->kind == WAIT_THROTTLED)
                (void) snprintf(buf, WAIT_WORDS_MAX, "is held back by its control group %.500s", text);
        else
                return false;
        return true;
}

void wait_words(const struct host_capture *c, const struct stack_table *t, const struct captured_process *p,
                const struct captured_wait *w, char buf[static WAIT_WORDS_MAX]) {
        char object[WAIT_WORDS_MAX], since[32] = "";

        assert(w->kind < _WAIT_KIND_MAX);
        if (words_without_object(t, w, buf))
                return;
        words_of_object(c, t, p, w, object);
        if (w->since_usec >= SINCE_SHOWN_MIN)
                (void) snprintf(since, sizeof(since), " %" PRIu64 " s", w->since_usec / USEC_PER_SEC);
        (void) snprintf(buf, WAIT_WORDS_MAX, "%s%s for %.900s%s", w->spins ? "looks" : "waits", since,
                        object,
                        w->spins     ? " again and again"
                        : w->limited ? ", with a time limit"
                                     : "");
        (void) utf8_scrub(buf, strlen(buf)); /* a text may have been cut within a character */
}
