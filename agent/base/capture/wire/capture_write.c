/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_write.h"

#include <assert.h>

#include "grow.h"
#include "render.h"

#define PART_MAX    (64u * 1024) /* then it is packed */
#define HEAD_ROOM   (32u * 1024) /* more than a frame with its strings, a stack, a thread, gzip's end */
#define SHARE       (8u * 1024)  /* of a process that is still to come */

/* At most, with tag and length: numbers of strings and frames have four bytes. */
#define STRING_BYTES  4u
#define FRAME_BYTES   40u
#define STACK_BYTES   12u
#define THREAD_BYTES  80u
#define PROCESS_BYTES 120u
#define MODULE_BYTES  26u
#define WAIT_BYTES    80u
#define SOCKET_BYTES  130u
#define END_BYTES     48u

int capture_writer_init(struct capture_writer *w) {
        *w = (struct capture_writer){ .table = STACK_TABLE_NULL };
        host_capture_init(&w->c);
        w->c.detailed = true;
        return pack_new(&w->pack);
}

void capture_writer_clear(struct capture_writer *w) {
        stack_table_clear(&w->table);
        host_capture_clear(&w->c);
        w->pack = pack_free(w->pack);
}

void capture_writer_share(struct capture_writer *w, size_t processes) {
        w->to_come = processes;
        w->kept =
                MIN(processes * SHARE, (CAPTURE_PACKED_MAX - MIN(w->len, (size_t) CAPTURE_PACKED_MAX)) / 2);
}

/* Bytes of the part that gathers, at most. */
static size_t pending_bytes(const struct capture_writer *w) {
        const struct stack_table *t = &w->table;

        return t->text_len - w->text + STRING_BYTES * (t->n_strings - w->strings) +
               FRAME_BYTES * (t->n_frames - w->frames) + STACK_BYTES * (t->n_stacks - w->stacks) +
               4 * (t->n_frames_of - w->frames_of) + THREAD_BYTES * w->c.n_threads +
               PROCESS_BYTES * w->c.n_processes + MODULE_BYTES * w->c.n_modules +
               WAIT_BYTES * w->c.n_waits + SOCKET_BYTES * w->c.n_sockets + END_BYTES * w->c.n_ends;
}

bool capture_writer_has_room(struct capture_writer *w) {
        size_t more = pending_bytes(w) + HEAD_ROOM;

        if (w->len + more + w->kept > CAPTURE_PACKED_MAX ||
            w->raw + more > CAPTURE_STREAM_MAX - CAPTURE_APPENDED_MAX)
                w->full = w->cut = true;
        return !w->full;
}

static bool takes_more(struct capture_writer *w, size_t n, size_t max) {
        if (n >= max)
                w->cut = true;
        return n < max;
}

bool capture_writer_takes_process(struct capture_writer *w) {
        return takes_more(w, w->processes + w->c.n_processes, CAPTURE_PROCESSES_MAX);
}

/* One of each process that is still to come finds its place, too. */
bool capture_writer_takes_thread(struct capture_writer *w) {
        size_t begun = w->processes + (w->opened ? 0 : w->c.n_processes),
               others = MIN(w->to_come, CAPTURE_PROCESSES_MAX - MIN(begun, (size_t) CAPTURE_PROCESSES_MAX));

        return takes_more(w, w->threads + w->c.n_threads + others, CAPTURE_THREADS_MAX);
}

bool capture_writer_takes_module(struct capture_writer *w) {
        return takes_more(w, w->modules + w->c.n_modules, CAPTURE_MODULES_MAX);
}

bool capture_writer_takes_wait(struct capture_writer *w) {
        return capture_writer_has_room(w) && takes_more(w, w->waits + w->c.n_waits, CAPTURE_WAITS_MAX);
}

bool capture_writer_takes_socket(struct capture_writer *w) {
        return capture_writer_has_room(w) && takes_more(w, w->sockets + w->c.n_sockets, CAPTURE_SOCKETS_MAX);
}

bool capture_writer_takes_end(struct capture_writer *w) {
        return capture_writer_has_room(w) && takes_more(w, w->ends + w->c.n_ends, CAPTURE_ENDS_MAX);
}

/* --- A part -------------------------------------------------------------------------------------------- */

struct building {
        void *blocks[24];
        size_t n;
        bool failed;
};

static void building_clear(struct building *b) {
        for (size_t i = 0; i < b->n; i++)
                free(b->blocks[i]);
}

static void *allocate_block(struct building *b, size_t n, size_t size) {
        void *p = calloc(n + 1, size);

        assert(b->n < ELEMENTSOF(b->blocks));
        b->blocks[b->n++] = p;
        b->failed |= !p;
        return p;
}

/* n messages of a type, each initialised; *ret_list points to them. NULL: out of memory. */
#define MESSAGES(b, n, type, prefix, ret_list)                          \
        ({                                                              \
                type *items_ = allocate_block(b, n, sizeof(type));               \
                type **list_ = allocate_block(b, n, sizeof(type *));             \
                for (size_t i_ = 0; items_ && list_ && i_ < (n); i_++) { \
                        prefix##__init(&items_[i_]);                    \
                        list_[i_] = &items_[i_];                        \
                }                                                       \
                *(ret_list) = list_;                                    \
                (b)->failed ? NULL : items_;                            \
        })

static void build_table(struct building *b, const struct capture_writer *w, Capture__Part *part) {
        const struct stack_table *t = &w->table;
        size_t n_frames = t->n_frames - w->frames, n_stacks = t->n_stacks - w->stacks;
        Capture__Frame *frames = MESSAGES(b, n_frames, Capture__Frame, capture__frame, &part->frames);
        Capture__Stack *stacks = MESSAGES(b, n_stacks, Capture__Stack, capture__stack, &part->stacks);
        size_t n_strings = t->n_strings - w->strings, n_numbers = t->n_frames_of - w->frames_of;
        uint32_t *numbers = allocate_block(b, n_numbers, sizeof(*numbers));
        char **strings = allocate_block(b, n_strings, sizeof(*strings));

        if (b->failed)
                return;
        for (size_t i = 0; i < n_strings; i++)
                strings[i] = t->text + t->string_at[w->strings + i];
        for (size_t i = 0; i < n_frames; i++) {
                const struct stack_frame *f = &t->frames[w->frames + i];

                frames[i].kind = f->kind;
                frames[i].file = f->file;
                frames[i].function = f->function;
                frames[i].line = f->line;
                frames[i].address = f->address;
        }
        for (size_t i = 0; i < n_stacks; i++) { /* innermost first; in the table the outermost is */
                const struct stack_span *s = &t->stacks[w->stacks + i];

                for (uint32_t k = 0; k < s->n; k++)
                        numbers[k] = t->frames_of[s->first + s->n - 1 - k];
                stacks[i].frames = numbers;
                stacks[i].n_frames = s->n;
                numbers += s->n;
        }
        part->strings = strings;
        part->n_strings = n_strings;
        part->n_frames = n_frames;
        part->n_stacks = n_stacks;
}

static void build_sockets(struct building *b, const struct host_capture *c, Capture__Process *to) {
        Capture__Socket *m = MESSAGES(b, c->n_sockets, Capture__Socket, capture__socket, &to->sockets);

        for (size_t i = 0; m && i < c->n_sockets; i++) {
                const struct captured_socket *s = &c->sockets[i];

                m[i].inode = s->inode;
                m[i].net = s->net;
                m[i].peer = s->peer;
                m[i].fd = s->fd;
                m[i].family = s->family;
                m[i].protocol = s->protocol;
                m[i].state = s->state;
                m[i].retransmits = s->retransmits;
                m[i].local = s->local;
                m[i].remote = s->remote;
                m[i].unread = s->unread;
                m[i].unsent = s->unsent;
                m[i].unacknowledged = s->unacknowledged;
                m[i].sent_ms_plus_1 = s->sent_ms + 1; /* SOCKET_MS_NONE becomes 0 */
                m[i].received_ms_plus_1 = s->received_ms + 1;
                m[i].bytes_acked = s->bytes_acked;
                m[i].bytes_received = s->bytes_received;
        }
        to->n_sockets = m ? c->n_sockets : 0;
}

static void build_process(struct building *b, const struct host_capture *c, Capture__Process *to) {
        const struct captured_process *p = &c->processes[0];
        Capture__Module *modules = MESSAGES(b, c->n_modules, Capture__Module, capture__module, &to->modules);

        to->pid = p->pid;
        to->command = p->command;
        to->error = p->error;
        to->state = (uint8_t) p->state;
        to->rank_plus_1 = p->rank + 1;
        to->python = p->python;
        to->no_python = p->no_python;
        to->other_threads = p->other_threads;
        to->kernel_by = p->kernel_by;
        to->kernel_unknown = p->kernel_unknown;
        to->parent = p->parent;
        to->children_gone = p->children_gone;
        to->cpu_usec = p->cpu_usec;
        to->start_ticks = p->start_ticks;
        for (size_t i = 0; modules && i < c->n_modules; i++) {
                modules[i].path = c->modules[i].path;
                modules[i].build_id = c->modules[i].build_id;
                modules[i].start = c->modules[i].start;
        }
        to->n_modules = modules ? c->n_modules : 0;
        build_sockets(b, c, to);
}

static void build_wait(const struct captured_wait *w, Capture__Wait *to) {
        to->kind = w->kind;
        to->any = w->any;
        to->writes = w->writes;
        to->limited = w->limited;
        to->spins = w->spins;
        to->fd_plus_1 = w->fd + 1; /* WAIT_FD_NONE becomes 0 */
        to->space = w->space;
        to->number = w->number;
        to->holder_pid = w->holder_pid;
        to->holder_tid = w->holder_tid;
        to->text = w->text;
        to->since_usec = w->since_usec;
}

static void build_thread(const struct captured_thread *t, const struct thread_detail *d, Capture__Thread *to,
                         Capture__Native **native) {
        to->tid = t->tid;
        to->name = t->name;
        to->wait = t->wait;
        to->syscall = t->syscall;
        to->stack_plus_1 = t->stack + 1; /* STACK_NONE becomes 0 */
        to->state = (uint8_t) t->state;
        to->gil = t->gil;
        to->changed = t->changed;
        to->cpu_usec = t->state == 'R' ? t->cpu_usec : 0; /* of one that sleeps it says nothing */
        to->python = d->python;
        to->interpreter = d->interpreter;
        to->python_cut = d->python_cut;
        to->python_error = d->python_error;
        to->native = native;
        to->n_native = d->native;
        (*native)->merged = d->merged;
        (*native)->cut = d->native_cut;
        (*native)->pause_ns = d->pause_ns;
        (*native)->error = d->native_error;
}

static void build_threads(struct building *b, const struct host_capture *c, Capture__Part *part) {
        Capture__Thread *threads =
                MESSAGES(b, c->n_threads, Capture__Thread, capture__thread, &part->threads);
        Capture__Native **natives;
        Capture__Wait **list, *waits = MESSAGES(b, c->n_waits, Capture__Wait, capture__wait, &list);

        if (!MESSAGES(b, c->n_threads, Capture__Native, capture__native, &natives))
                return;
        for (size_t i = 0; i < c->n_waits; i++)
                build_wait(&c->waits[i], &waits[i]);
        for (size_t i = 0; i < c->n_threads; i++) {
                build_thread(&c->threads[i], &c->details[i], &threads[i], &natives[i]);
                threads[i].waits = list + c->threads[i].first_wait;
                threads[i].n_waits = c->threads[i].n_waits;
        }
        part->n_threads = c->n_threads;
}

static void build_ends(struct building *b, const struct host_capture *c, Capture__Part *part) {
        Capture__End *ends = MESSAGES(b, c->n_ends, Capture__End, capture__end, &part->ends);

        for (size_t i = 0; ends && i < c->n_ends; i++) {
                ends[i].kind = c->ends[i].kind;
                ends[i].reads = c->ends[i].reads;
                ends[i].writes = c->ends[i].writes;
                ends[i].pid = c->ends[i].pid;
                ends[i].command = c->ends[i].command;
                ends[i].space = c->ends[i].space;
                ends[i].number = c->ends[i].number;
        }
        part->n_ends = ends ? c->n_ends : 0;
}

int capture_writer_add(struct capture_writer *w, const Capture__Part *part, bool last) {
        Capture__Part *parts[] = { (Capture__Part *) (uintptr_t) part }; /* only read */
        Capture__Capture all = CAPTURE__CAPTURE__INIT;
        _cleanup_free_ uint8_t *data = NULL;
        size_t len;

        all.parts = parts;
        all.n_parts = 1;
        len = capture__capture__get_packed_size(&all);
        data = malloc(len);
        if (!data)
                return -ENOMEM;
        w->raw += capture__capture__pack(&all, data);
        return pack_add(w->pack, data, len, last, &w->data, &w->len);
}

static int write_part(struct capture_writer *w, bool last) {
        _cleanup_(building_clear) struct building b = { .n = 0 };
        Capture__Process process = CAPTURE__PROCESS__INIT, *processes[] = { &process };
        Capture__Part part = CAPTURE__PART__INIT;
        int r;

        assert(w->c.n_processes <= 1);
        part.version = w->raw == 0 ? CAPTURE_VERSION : 0;
        part.cut = last && w->cut;
        build_table(&b, w, &part);
        build_threads(&b, &w->c, &part);
        build_ends(&b, &w->c, &part);
        if (w->c.n_processes > 0 && !w->opened) {
                build_process(&b, &w->c, &process);
                part.process = processes;
                part.n_process = 1;
        }
        r = b.failed ? -ENOMEM : capture_writer_add(w, &part, last);
        w->processes += part.n_process;
        w->threads += part.n_threads;
        w->modules += process.n_modules;
        w->sockets += process.n_sockets;
        w->waits += w->c.n_waits;
        w->ends += part.n_ends;
        w->strings = w->table.n_strings;
        w->text = w->table.text_len;
        w->frames = w->table.n_frames;
        w->frames_of = w->table.n_frames_of;
        w->stacks = w->table.n_stacks;
        return r;
}

int capture_writer_thread(struct capture_writer *w) {
        int r;

        if (pending_bytes(w) < PART_MAX)
                return 0;
        r = write_part(w, false);
        w->opened = true;
        w->c.n_threads = w->c.n_modules = w->c.n_waits = w->c.n_sockets = w->c.n_ends = 0;
        /* the process stays, for those that follow */
        w->c.processes[0].first_thread = w->c.processes[0].n_threads = 0;
        return r;
}

int capture_writer_process(struct capture_writer *w) {
        int r = write_part(w, false);

        host_capture_empty(&w->c);
        w->opened = w->full = false;
        return r;
}

int capture_writer_end(struct capture_writer *w) {
        return write_part(w, true);
}

int captures_pack(const Capture__Captures *m, uint8_t **data, size_t *len, size_t *size) {
        int r = grow(data, size, *len + capture__captures__get_packed_size(m), 1);

        if (r == 0)
                *len += capture__captures__pack(m, *data + *len);
        return r;
}

/* --- For people --------------------------------------------------------------------------------------- */

int capture_text_make(const uint8_t *data, size_t len, size_t max, struct capture_text *ret,
                      char why[static CAPTURE_WHY_MAX]) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        int r = capture_read(data, len, CAPTURE_SHOWN, &c, &t, why);

        if (r < 0 && !why[0])
                (void) snprintf(why, CAPTURE_WHY_MAX, "%s", strerror(-r));
        if (r < 0)
                return r;
        *ret = (struct capture_text){ .cut = c.cut, .threads = (uint32_t) c.n_threads };
        for (size_t i = 0; i < c.n_processes; i++)
                if (c.processes[i].error == 0)
                        ret->processes++;
                else if (!ret->unread[0])
                        (void) snprintf(ret->unread, sizeof(ret->unread), "process %" PRIu32 ": %.160s",
                                        c.processes[i].pid, stack_table_text(&t, c.processes[i].error));
        r = render_text(&c, &t, max, &ret->text);
        if (r < 0)
                (void) snprintf(why, CAPTURE_WHY_MAX, "%s", strerror(-r));
        return r;
}
