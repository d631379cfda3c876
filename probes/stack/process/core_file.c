/* SPDX-License-Identifier: Apache-2.0 */
#include "core_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>
#include <sys/stat.h>

#include "grow.h"
#include "io.h"
#include "texts.h"

#define COMPARED 1024u /* bytes at the start of a file: header, segments and most often the build id */

struct segment {
        uint64_t address, size, offset; /* size: what is in the core */
        bool executable;
};

/* What NT_FILE says of one mapping. */
struct core_map {
        uint64_t start, end, offset;
        size_t file;
};

struct named_file {
        const char *path; /* within the notes */
        int fd;           /* -1: not open */
        bool tried;
};

struct core_file {
        const struct host *host;
        int fd;
        uint8_t *notes;
        size_t notes_len;
        struct segment *segments; /* by address */
        size_t n_segments;
        struct core_map *maps; /* likewise */
        struct named_file *files;
        size_t n_maps, n_files, n_open;
        struct core_thread *threads;
        size_t n_threads, threads_size;
        pid_t pid;
        int signal;
        char command[64];
};

struct core_file *core_file_free(struct core_file *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < c->n_files; i++)
                (void) close_fd(c->files[i].fd);
        (void) close_fd(c->fd);
        free(c->notes);
        free(c->segments);
        free(c->maps);
        free(c->files);
        free(c->threads);
        free(c);
        return NULL;
}

/* --- Notes --------------------------------------------------------------------------------------------- */

/* The names follow the table, in its order; neighbours with one name are of one file. */
static int take_names(struct core_file *c, const char *names, const char *end) {
        for (size_t i = 0; i < c->n_maps; i++) {
                const char *stop = memchr(names, '\0', (size_t) (end - names));

                if (!stop)
                        return -EBADMSG;
                if (c->n_files == 0 || !streq(c->files[c->n_files - 1].path, names))
                        c->files[c->n_files++] = (struct named_file){ .path = names, .fd = -1 };
                c->maps[i].file = c->n_files - 1;
                names = stop + 1;
        }
        return 0;
}

/* NT_FILE: how many, the size of a page, start, end and page of each, their names. */
static int take_files(struct core_file *c, const uint8_t *data, size_t len) {
        uint64_t head[2], last = 0;

        if (c->maps || len < sizeof(head))
                return -EBADMSG;
        memcpy(head, data, sizeof(head));
        if (head[0] > UINT16_MAX) /* more segments than that are refused, too */
                return -E2BIG;
        if (head[0] > (len - sizeof(head)) / 24 || head[1] == 0 || head[1] > UINT32_MAX)
                return -EBADMSG;
        c->maps = calloc(head[0] + 1, sizeof(*c->maps));
        c->files = calloc(head[0] + 1, sizeof(*c->files));
        if (!c->maps || !c->files)
                return -ENOMEM;
        for (size_t i = 0; i < head[0]; i++) {
                uint64_t v[3];

                memcpy(v, data + sizeof(head) + i * sizeof(v), sizeof(v));
                if (v[0] < last || v[1] <= v[0] || v[2] > INT64_MAX / head[1])
                        return -EBADMSG;
                last = v[1];
                c->maps[i] = (struct core_map){ .start = v[0], .end = v[1], .offset = v[2] * head[1] };
        }
        c->n_maps = head[0];
        return take_names(c, (const char *) data + sizeof(head) + 24 * head[0], (const char *) data + len);
}

static int take_thread(struct core_file *c, const uint8_t *data, size_t len) {
        struct elf_prstatus s;
        struct core_thread *t;
        int r;

        if (len < sizeof(s))
                return -EBADMSG;
        if (c->n_threads == TASKS_MAX)
                return -E2BIG;
        memcpy(&s, data, sizeof(s));
        r = grow(&c->threads, &c->threads_size, c->n_threads + 1, sizeof(*c->threads));
        if (r < 0)
                return r;
        t = &c->threads[c->n_threads++];
        t->tid = s.pr_pid;
        _Static_assert(sizeof(t->registers) == sizeof(s.pr_reg), "the registers of x86-64");
        memcpy(&t->registers, &s.pr_reg, sizeof(t->registers));
        if (c->n_threads == 1)
                c->signal = s.pr_cursig;
        return 0;
}

static int take_process(struct core_file *c, const uint8_t *data, size_t len) {
        struct elf_prpsinfo s;

        if (len < sizeof(s))
                return -EBADMSG;
        memcpy(&s, data, sizeof(s));
        c->pid = s.pr_pid;
        (void) snprintf(c->command, sizeof(c->command), "%.*s", (int) sizeof(s.pr_fname), s.pr_fname);
        return 0;
}

static int take_notes(struct core_file *c) {
        int r = 0;

        for (size_t at = 0; r == 0 && c->notes_len - at >= sizeof(Elf64_Nhdr);) {
                size_t name, data;
                Elf64_Nhdr n;

                memcpy(&n, c->notes + at, sizeof(n));
                name = at + sizeof(n);
                data = name + ((size_t) n.n_namesz + 3) / 4 * 4;
                if (data > c->notes_len || n.n_descsz > c->notes_len - data)
                        return -EBADMSG;
                if (n.n_namesz == 5 && memcmp(c->notes + name, "CORE", 5) == 0)
                        r = n.n_type == NT_PRSTATUS   ? take_thread(c, c->notes + data, n.n_descsz)
                            : n.n_type == NT_PRPSINFO ? take_process(c, c->notes + data, n.n_descsz)
                            : n.n_type == NT_FILE     ? take_files(c, c->notes + data, n.n_descsz)
                                                      : 0;
                at = MIN(data + ((size_t) n.n_descsz + 3) / 4 * 4, c->notes_len);
        }
        return r;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static int read_at(int fd, void *buf, size_t len, uint64_t offset) {
        for (size_t done = 0; done < len;) {
                ssize_t n = offset > INT64_MAX - len ? 0
                                                     : pread(fd, (uint8_t *) buf + done, len - done,
                                                             (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EBADMSG;
                done += (size_t) n;
        }
        return 0;
}

static int read_notes(struct core_file *c, const Elf64_Phdr *p) {
        if (c->notes)
                return -EBADMSG;
        if (p->p_filesz > CORE_NOTES_MAX)
                return -E2BIG;
        c->notes = malloc(p->p_filesz + 1);
        c->notes_len = p->p_filesz;
        return c->notes ? read_at(c->fd, c->notes, c->notes_len, p->p_offset) : -ENOMEM;
}

static int take_segment(struct core_file *c, const Elf64_Phdr *p) {
        const struct segment *last = c->n_segments > 0 ? &c->segments[c->n_segments - 1] : NULL;

        if (p->p_filesz > UINT64_MAX - p->p_vaddr || p->p_filesz > INT64_MAX ||
            p->p_offset > INT64_MAX - p->p_filesz || (last && p->p_vaddr < last->address + last->size))
                return -EBADMSG;
        c->segments[c->n_segments++] = (struct segment){ .address = p->p_vaddr,
                                                         .size = p->p_filesz,
                                                         .offset = p->p_offset,
                                                         .executable = p->p_flags & PF_X };
        return 0;
}

static int read_segments(struct core_file *c, const Elf64_Ehdr *e) {
        _cleanup_free_ Elf64_Phdr *p = NULL;
        int r;

        if (e->e_phentsize != sizeof(*p) || e->e_phnum == 0)
                return -EBADMSG;
        if (e->e_phnum == PN_XNUM)
                return -E2BIG;
        p = calloc(e->e_phnum, sizeof(*p));
        c->segments = calloc(e->e_phnum, sizeof(*c->segments));
        if (!p || !c->segments)
                return -ENOMEM;
        r = read_at(c->fd, p, e->e_phnum * sizeof(*p), e->e_phoff);
        for (size_t i = 0; r == 0 && i < e->e_phnum; i++)
                r = p[i].p_type == PT_NOTE ? read_notes(c, &p[i])
                    : p[i].p_type == PT_LOAD ? take_segment(c, &p[i])
                                             : 0;
        return r;
}

static int check_head(const Elf64_Ehdr *e, char why[static CORE_WHY_MAX]) {
        static const struct {
                const char *magic, *program;
        } packed[] = { { "\x28\xb5\x2f\xfd", "zstd" },
                       { "\x04\x22\x4d\x18", "lz4" },
                       { "\xfd" "7zX", "xz" } };

        for (size_t i = 0; i < ELEMENTSOF(packed); i++)
                if (memcmp(e->e_ident, packed[i].magic, 4) == 0)
                        return text_fail(why, CORE_WHY_MAX, -ENOEXEC,
                                         "it is compressed, and not read as such: unpack it with %s -d",
                                         packed[i].program);
        if (memcmp(e->e_ident, ELFMAG, SELFMAG) == 0 && e->e_ident[EI_CLASS] == ELFCLASS64 &&
            e->e_type == ET_CORE && e->e_machine == EM_X86_64)
                return 0;
        return text_fail(why, CORE_WHY_MAX, -ENOEXEC, "it is no core file of an x86-64 process");
}

int core_file_new(const struct host *h, int fd, struct core_file **ret, char why[static CORE_WHY_MAX]) {
        _cleanup_(core_file_freep) struct core_file *c = calloc(1, sizeof(*c));
        Elf64_Ehdr e;
        int r;

        if (!c) {
                (void) close_fd(fd);
                return text_fail(why, CORE_WHY_MAX, -ENOMEM, "%s", strerror(ENOMEM));
        }
        c->host = h;
        c->fd = fd;
        r = read_at(fd, &e, sizeof(e), 0);
        if (r < 0)
                return text_fail(why, CORE_WHY_MAX, r, "it cannot be read: %s", strerror(-r));
        r = check_head(&e, why);
        if (r < 0)
                return r;
        r = read_segments(c, &e);
        if (r == 0)
                r = take_notes(c);
        if (r == 0 && (c->n_threads == 0 || c->n_maps == 0))
                r = -EBADMSG;
        if (r < 0)
                return text_fail(why, CORE_WHY_MAX, r, "%s",
                                 r == -EBADMSG ? "it was cut short, or is damaged"
                                 : r == -E2BIG ? "it has more mappings or notes than are read"
                                               : strerror(-r));
        if (c->pid == 0)
                c->pid = c->threads[0].tid;
        *ret = TAKE_PTR(c);
        return 0;
}

/* --- Memory -------------------------------------------------------------------------------------------- */

/* The last that begins at or before the address; NULL: there is none. */
static const struct segment *segment_at(const struct core_file *c, uint64_t address) {
        size_t from = 0, to = c->n_segments;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (c->segments[middle].address <= address)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from > 0 ? &c->segments[from - 1] : NULL;
}

static const struct core_map *map_at(const struct core_file *c, uint64_t address) {
        size_t from = 0, to = c->n_maps;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (c->maps[middle].start <= address)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from > 0 && address < c->maps[from - 1].end ? &c->maps[from - 1] : NULL;
}

/* What was dumped, of one address on: how much, at most len; 0: nothing. */
static int read_dumped(const struct core_file *c, uint64_t address, void *buf, size_t len, size_t *ret) {
        const struct segment *s = segment_at(c, address);

        *ret = s && address - s->address < s->size ? MIN(len, s->size - (address - s->address)) : 0;
        return *ret > 0 ? read_at(c->fd, buf, *ret, s->offset + (address - s->address)) : 0;
}

/* Whether the file begins with what the core has of its beginning: without that it counts for nothing. */
static bool is_same(const struct core_file *c, size_t file, int fd) {
        uint8_t mapped[COMPARED], now[COMPARED];
        size_t n;

        for (size_t i = 0; i < c->n_maps; i++)
                if (c->maps[i].file == file && c->maps[i].offset == 0)
                        return read_dumped(c, c->maps[i].start, mapped, sizeof(mapped), &n) == 0 &&
                               n == sizeof(mapped) && read_at(fd, now, sizeof(now), 0) == 0 &&
                               memcmp(mapped, now, sizeof(now)) == 0;
        return false;
}

/* Never a device or fifo: it is looked at before it is opened. */
static int open_named(struct core_file *c, size_t i) {
        struct named_file *f = &c->files[i];
        _cleanup_close_ int handle = -1, fd = -1;
        struct stat st;

        if (f->tried || c->n_open == CORE_FILES_OPEN_MAX)
                return f->fd;
        f->tried = true;
        handle = f->path[0] == '/' ? host_open_file(c->host, f->path, O_PATH) : -1;
        if (handle < 0 || fstat(handle, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        fd = host_open_file(c->host, f->path, O_RDONLY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_same(c, i, fd))
                return -1;
        c->n_open++;
        return f->fd = TAKE_FD(fd);
}

static int read_from_file(struct core_file *c, uint64_t address, void *buf, size_t len, size_t *ret) {
        const struct core_map *m = map_at(c, address);
        const struct segment *next = segment_at(c, address);
        int fd = m ? open_named(c, m->file) : -1;

        *ret = 0;
        if (fd < 0)
                return -EFAULT;
        *ret = MIN(len, m->end - address);
        next = next ? next + 1 : c->segments;
        if (next < c->segments + c->n_segments) /* what was dumped of it counts */
                *ret = MIN(*ret, next->address - address);
        return read_at(fd, buf, *ret, m->offset + (address - m->start)) < 0 ? -EFAULT : 0;
}

static int read_memory(struct core_file *c, uint64_t address, uint8_t *buf, size_t len) {
        while (len > 0) {
                size_t n;
                int r = read_dumped(c, address, buf, len, &n);

                if (r == 0 && n == 0)
                        r = read_from_file(c, address, buf, len, &n);
                if (r < 0 || n == 0)
                        return -EFAULT;
                address += n;
                buf += n;
                len -= n;
        }
        return 0;
}

static ssize_t core_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        ssize_t done = 0;

        for (size_t i = 0; i < n; i++) {
                uint64_t address = (uint64_t) (uintptr_t) remote[i].iov_base;
                size_t len = MIN(local[i].iov_len, remote[i].iov_len);

                if (len > UINT64_MAX - address || read_memory(userdata, address, local[i].iov_base, len) < 0)
                        return done > 0 ? done : -EFAULT;
                done += (ssize_t) len;
        }
        return done;
}

struct memory_source core_file_source(struct core_file *c) {
        return (struct memory_source){ core_readv, c, NULL };
}

/* --- Its mappings -------------------------------------------------------------------------------------- */

int core_file_maps(const struct core_file *c, int (*visit)(const struct mapping *m, void *userdata),
                   void *userdata, bool *ret_empty) {
        struct mapping m = { .device = 0 };
        int r = 0;

        *ret_empty = c->n_maps == 0;
        for (size_t i = 0; r == 0 && i < c->n_maps; i++) {
                const struct core_map *from = &c->maps[i];
                const struct segment *s = segment_at(c, from->start);

                const char *path = c->files[from->file].path;

                if (strlen(path) >= sizeof(m.path) || path[0] != '/')
                        continue;
                m.start = from->start;
                m.end = from->end;
                m.offset = from->offset;
                m.inode = from->file + 1;
                /* gdb leaves code out as a whole: then nobody says */
                m.executable = !s || s->address != from->start || s->executable;
                (void) snprintf(m.path, sizeof(m.path), "%s", path);
                r = visit(&m, userdata);
        }
        return r;
}

int core_file_open_mapped(struct core_file *c, uint64_t start) {
        const struct core_map *m = map_at(c, start);
        int fd = m ? open_named(c, m->file) : -1;

        if (fd < 0)
                return -ESTALE;
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
}

pid_t core_file_pid(const struct core_file *c) {
        return c->pid;
}

int core_file_signal(const struct core_file *c) {
        return c->signal;
}

const char *core_file_command(const struct core_file *c) {
        return c->command;
}

const struct core_thread *core_file_threads(const struct core_file *c, size_t *ret_n) {
        *ret_n = c->n_threads;
        return c->threads;
}
