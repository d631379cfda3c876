/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>

#include "cxx_name.h"
#include "elf_symbols.h"
#include "grow.h"
#include "mapped_file.h"
#include "text.h"
#include "utf8.h"

#define MODULES_MAX 2048u
#define SYMBOLS_MAX 65536u
#define RSP 7u /* its DWARF number: System V ABI for x86-64, figure 3.36 */
#define LIVE_MAX (8u * 1024 * 1024) /* of a stack above its copy */

/* What is used of libdw. */
#define FUNCTIONS(X) \
        X(elf_version) X(elf_begin) \
        X(dwfl_begin) X(dwfl_end) X(dwfl_report_begin) X(dwfl_report_end) X(dwfl_report_module) \
        X(dwfl_attach_state) X(dwfl_getthread_frames) X(dwfl_thread_state_registers) \
        X(dwfl_frame_pc) X(dwfl_addrmodule) X(dwfl_module_addrinfo) X(dwfl_module_info) \
        X(dwfl_module_build_id) X(dwfl_module_getsymtab) X(dwfl_module_getsymtab_first_global) \
        X(dwfl_module_getsym_info) X(dwfl_offline_section_address)

struct library {
        void *handle;
        /* dwfl_frame_reg(), from elfutils 0.188; NULL */
        int (*frame_reg)(Dwfl_Frame *, unsigned, Dwarf_Word *);
#define MEMBER(name) __typeof__(name) *name;
        FUNCTIONS(MEMBER)
};

struct unwinder {
        struct library dw;
        Dwfl_Callbacks callbacks;
        Dwfl *dwfl;
        const struct process *process;
        struct memory *memory;
        struct native_module *modules[MODULES_MAX];
        size_t n_modules, n_symbols;
        struct native_symbol *buckets[1024];
        struct native_symbol *unnamed; /* whose names were not looked for yet */
        struct mapping start; /* of the file that was mapped last: it is a module if it holds code */
        int error; /* of the callbacks */

        /* Of the thread that is being unwound. */
        const struct seized *seized;
        bool live, cut;
        bool missed; /* what the next frame needs could not be read: libdw takes that for the end */
        struct native_frame *frames;
        size_t n, size;
};

static int library_open(struct library *l) {
        l->handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!l->handle)
                return -ENOPKG;
#define LOAD(name) \
        l->name = (__typeof__(name) *) dlsym(l->handle, #name); \
        if (!l->name) \
                return -ENOPKG;
        FUNCTIONS(LOAD)
        l->frame_reg = (__typeof__(l->frame_reg)) dlsym(l->handle, "dwfl_frame_reg");
        return 0;
}

struct unwinder *unwinder_free(struct unwinder *u) {
        if (!u)
                return NULL;
        if (u->dwfl)
                u->dw.dwfl_end(u->dwfl);
        for (size_t i = 0; i < u->n_modules; i++) {
                (void) close_fd(u->modules[i]->fd);
                free(u->modules[i]->name);
                free(u->modules[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(u->buckets); i++)
                for (struct native_symbol *next, *s = u->buckets[i]; s; s = next) {
                        next = s->next;
                        free(s->name);
                        free(s);
                }
        if (u->dw.handle)
                (void) dlclose(u->dw.handle); /* nothing of it is used any more */
        free(u);
        return NULL;
}

DEFINE_CLEANUP(struct unwinder *, unwinder_free)

/* No separate debug file is looked for, and none is fetched. */
static int no_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                        const char *file, const char *link, GElf_Word crc, char **ret) {
        (void) module, (void) userdata, (void) name, (void) base, (void) file, (void) link, (void) crc,
                (void) ret;
        return -1;
}

static struct native_module *find_module(const struct unwinder *u, uint64_t begin) {
        for (size_t i = 0; i < u->n_modules; i++)
                if (u->modules[i]->begin == begin)
                        return u->modules[i];
        return NULL;
}

/*
 * A file is mapped when a frame is in it. libdw by itself maps it to be written, and the whole of it would
 * count as memory of ours (RLIMIT_DATA).
 */
static int open_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr start,
                    char **ret_path, Elf **ret) {
        const struct unwinder *u = *userdata;
        struct native_module *m = find_module(u, start);

        (void) module, (void) name, (void) ret_path;
        *ret = m && m->fd >= 0 ? u->dw.elf_begin(m->fd, ELF_C_READ_MMAP, NULL) : NULL;
        return *ret ? TAKE_FD(m->fd) : -1; /* now libdw's */
}

static void read_build_id(struct unwinder *u, Dwfl_Module *module, struct native_module *m) {
        const unsigned char *bits;
        GElf_Addr at;
        int n = u->dw.dwfl_module_build_id(module, &bits, &at);

        for (int i = 0; i < n && 2 * i + 2 < (int) sizeof(m->build_id); i++)
                (void) snprintf(m->build_id + 2 * i, 3, "%02x", bits[i]);
}

/* The file whose first byte u->start maps. What cannot be opened or is no ELF file has no frames. */
static int add_module(struct unwinder *u) {
        const struct mapping *map = &u->start;
        _cleanup_close_ int fd = -1;
        struct native_module *m;
        Dwfl_Module *module;
        void **userdata;
        uint64_t begin, end;

        if (u->n_modules == MODULES_MAX || elf_mapped_span(u->memory, map->start, &begin, &end) < 0)
                return 0;
        fd = mapped_file_open(u->process, u->memory, map);
        if (fd < 0)
                return 0;
        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        u->modules[u->n_modules++] = m;
        m->start = map->start;
        m->begin = begin;
        m->fd = TAKE_FD(fd);
        m->name = strdup(map->path);
        if (!m->name)
                return -ENOMEM;
        utf8_mend(m->name);
        module = u->dw.dwfl_report_module(u->dwfl, map->path, begin, end);
        if (module) {
                /* returns its name */
                (void) u->dw.dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
                *userdata = u;
        }
        return 0;
}

/* Frames are in code: a file of which no part is executable, data most often, is none to look into. */
static int take_mapping(const struct mapping *map, void *userdata) {
        struct unwinder *u = userdata;

        if (map->offset == 0)
                u->start = *map;
        if (!map->executable || u->start.end == 0 || u->start.inode != map->inode ||
            !streq(u->start.path, map->path))
                return 0;
        u->error = add_module(u);
        u->start.end = 0; /* it has its module */
        return u->error;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg) {
        (void) dwfl, (void) arg, (void) thread_arg;
        return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg) {
        (void) dwfl, (void) tid;
        *thread_arg = arg;
        return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *arg) {
        struct unwinder *u = arg;
        const struct seized *s = u->seized;
        uint64_t v;

        (void) dwfl;
        if (address >= s->stack_at && s->stack_len >= 8 && address - s->stack_at <= s->stack_len - 8) {
                memcpy(&v, s->stack + (address - s->stack_at), sizeof(v));
                *ret = v;
                return true;
        }
        if (!u->live || address < s->stack_at || address - s->stack_at > LIVE_MAX ||
            memory_read_u64(u->memory, address, &v) < 0) {
                u->missed = true;
                return false;
        }
        *ret = v;
        return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg) {
        struct unwinder *u = arg;
        const struct user_regs_struct *r = &u->seized->registers;
        /* Their DWARF numbers: System V ABI for x86-64, figure 3.36. */
        const Dwarf_Word all[] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8,
                                   r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip };

        return u->dw.dwfl_thread_state_registers(thread, 0, ELEMENTSOF(all), all);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
        .next_thread = next_thread,
        .get_thread = get_thread,
        .memory_read = read_word,
        .set_initial_registers = set_registers,
};

/* Which file it is in; its name is looked for with all others of that file. */
static void place_symbol(struct unwinder *u, struct native_symbol *s) {
        Dwfl_Module *module = u->dw.dwfl_addrmodule(u->dwfl, s->pc);
        struct native_module *found;
        Dwarf_Addr start;

        if (!module)
                return;
        (void) u->dw.dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
        found = find_module(u, start);
        if (found)
                found->used = true;
        s->module = found;
        s->next_unnamed = u->unnamed;
        u->unnamed = s;
}

static int take_name(struct native_symbol *s, const char *name, uint64_t offset) {
        char cxx[CXX_NAME_MAX];

        s->offset = offset;
        s->evaluates = startswith(name, "_PyEval_EvalFrameDefault");
        s->name = strdup(cxx_name(name, cxx) == 0 ? cxx : name);
        if (!s->name)
                return -ENOMEM;
        utf8_mend(s->name);
        return 0;
}

/* Each address once. */
static int symbol_of(struct unwinder *u, uint64_t pc, const struct native_symbol **ret) {
        struct native_symbol **bucket = &u->buckets[(pc * UINT64_C(0x9E3779B97F4A7C15)) >> 54], *s;

        for (s = *bucket; s; s = s->next)
                if (s->pc == pc) {
                        *ret = s;
                        return 0;
                }
        if (u->n_symbols == SYMBOLS_MAX)
                return -E2BIG;
        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->pc = pc;
        s->next = *bucket;
        *ret = *bucket = s;
        u->n_symbols++;
        place_symbol(u, s);
        return 0;
}

static int take_frame(Dwfl_Frame *state, void *arg) {
        struct unwinder *u = arg;
        struct native_frame f;
        bool interrupted;
        Dwarf_Addr pc;
        Dwarf_Word sp;
        int r;

        u->missed = false; /* the next call already looks for the frame behind this one */
        if (!u->dw.dwfl_frame_pc(state, &pc, &interrupted))
                return DWARF_CB_ABORT;
        if (u->n == NATIVE_FRAMES_MAX) {
                u->cut = true;
                return DWARF_CB_ABORT;
        }
        f.pc = pc;
        f.sp = u->dw.frame_reg && u->dw.frame_reg(state, RSP, &sp) == 0 ? sp : 0;
        /* a return address may lie behind its function */
        r = symbol_of(u, interrupted ? pc : pc - 1, &f.symbol);
        if (r == 0)
                r = grow(&u->frames, &u->size, u->n + 1, sizeof(*u->frames));
        if (r < 0) {
                u->error = r;
                return DWARF_CB_ABORT;
        }
        u->frames[u->n++] = f;
        return DWARF_CB_OK;
}

int unwinder_frames(struct unwinder *u, const struct seized *s, bool live, struct native_frame **ret,
                    size_t *ret_n, bool *ret_cut) {
        int r;

        u->seized = s;
        u->live = live;
        u->cut = false;
        u->frames = NULL;
        u->n = u->size = 0;
        u->error = 0;
        /* 0: the tables say that the stack ends here */
        r = u->dw.dwfl_getthread_frames(u->dwfl, s->tid, take_frame, u);
        if (u->error < 0 || u->n == 0) {
                free(u->frames);
                return u->error < 0 ? u->error : -EBADMSG;
        }
        *ret = u->frames;
        *ret_n = u->n;
        *ret_cut = u->cut || u->missed || r != 0;
        return 0;
}

/* One address, and the best that was found for it so far. */
struct wanted {
        struct native_symbol *symbol;
        const char *name; /* libdw's; NULL: none */
        GElf_Sym best;
        uint64_t value;   /* where it begins */
        /* up to here there are other symbols: one without a size that lies below is none of ours */
        uint64_t covered;
        uint64_t label;   /* one without a size; 0: none */
};

static int compare_pc(const void *a, const void *b) {
        const struct wanted *x = a, *y = b;

        return COMPARE(x->symbol->pc, y->symbol->pc);
}

static unsigned binding(const GElf_Sym *s) {
        static const unsigned ranks[] = { [STB_LOCAL] = 1, [STB_WEAK] = 2, [STB_GLOBAL] = 3 };
        unsigned bind = GELF_ST_BIND(s->st_info);

        return bind < ELEMENTSOF(ranks) ? ranks[bind] : 0;
}

/* As dwfl_module_addrinfo() prefers them: the closest, the more global, the shorter, the first. */
static bool is_better(const struct wanted *w, const GElf_Sym *s, uint64_t value) {
        if (!w->name || w->value < value || binding(&w->best) < binding(s))
                return true;
        return w->value == value && w->best.st_size > s->st_size && binding(&w->best) == binding(s);
}

static void consider_symbol(struct wanted *w, const GElf_Sym *s, uint64_t value, const char *name) {
        w->covered = MAX(w->covered, value + s->st_size);
        if (s->st_size == 0) {
                if (value >= w->covered)
                        w->label = value;
        } else if (w->symbol->pc - value < s->st_size && is_better(w, s, value)) {
                w->name = name;
                w->best = *s;
                w->value = value;
        }
}

/* Symbols [from, to) of a module against all addresses in it, which are sorted. */
static void search_symbols(struct unwinder *u, Dwfl_Module *module, int from, int to, struct wanted *w,
                           size_t n) {
        for (int i = from; i < to; i++) {
                GElf_Sym s;
                GElf_Addr value;
                const char *name = u->dw.dwfl_module_getsym_info(module, i, &s, &value, NULL, NULL, NULL);
                unsigned type = GELF_ST_TYPE(s.st_info);

                if (!name || !name[0] || s.st_shndx == SHN_UNDEF || type == STT_SECTION ||
                    type == STT_FILE || type == STT_TLS)
                        continue;
                for (size_t k = n; k > 0 && w[k - 1].symbol->pc >= value; k--)
                        consider_symbol(&w[k - 1], &s, value, name);
        }
}

/* Those that have no name yet first, in their order. Returns how many. */
static size_t unnamed_first(struct wanted *w, size_t n) {
        size_t rest = 0;

        for (size_t i = 0; i < n; i++)
                if (!w[i].name) {
                        struct wanted moved = w[i];

                        memmove(&w[rest + 1], &w[rest], (i - rest) * sizeof(*w));
                        w[rest++] = moved;
                }
        return rest;
}

/* All addresses in a module by one walk over its symbols: libdw's own search walks over them for each. */
static int name_all(struct unwinder *u, Dwfl_Module *module, struct wanted *w, size_t n) {
        int symbols = u->dw.dwfl_module_getsymtab(module), r = 0;
        int global = u->dw.dwfl_module_getsymtab_first_global(module);
        size_t rest;

        if (symbols < 0 || global < 0)
                return 0;
        qsort(w, n, sizeof(*w), compare_pc);
        search_symbols(u, module, MAX(global, 1), symbols, w, n);
        rest = unnamed_first(w, n);
        /* those local to their file only when no other fits */
        search_symbols(u, module, 1, global, w, rest);
        for (size_t i = 0; r == 0 && i < n; i++) {
                GElf_Off offset = w[i].symbol->pc - w[i].value;
                GElf_Sym symbol;

                if (!w[i].name && w[i].label && w[i].label >= w[i].covered) /* it knows which ones count */
                        w[i].name = u->dw.dwfl_module_addrinfo(module, w[i].symbol->pc, &offset, &symbol,
                                                               NULL, NULL, NULL);
                if (w[i].name)
                        r = take_name(w[i].symbol, w[i].name, offset);
        }
        return r;
}

int unwinder_name(struct unwinder *u) {
        int r = 0;

        while (r == 0 && u->unnamed) {
                Dwfl_Module *module = u->dw.dwfl_addrmodule(u->dwfl, u->unnamed->pc);
                _cleanup_free_ struct wanted *w = NULL;
                struct native_module *of = u->unnamed->module;
                size_t n = 0, size = 0;

                for (struct native_symbol **at = &u->unnamed, *s; r == 0 && (s = *at);) {
                        if (s->module != of) {
                                at = &s->next_unnamed;
                                continue;
                        }
                        r = grow(&w, &size, n + 1, sizeof(*w));
                        if (r == 0)
                                w[n++] = (struct wanted){ .symbol = s };
                        *at = s->next_unnamed;
                }
                if (r == 0)
                        r = name_all(u, module, w, n);
                if (of)
                        read_build_id(u, module, of); /* the file is open by now */
        }
        for (size_t i = 0; i < u->n_modules; i++)
                u->modules[i]->fd = close_fd(u->modules[i]->fd); /* no frame is in it */
        return r;
}

int unwinder_modules(const struct unwinder *u, int (*visit)(const struct native_module *m, void *userdata),
                     void *userdata) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < u->n_modules; i++)
                r = u->modules[i]->used ? visit(u->modules[i], userdata) : 0;
        return r;
}

int unwinder_new(const struct process *p, struct memory *m, struct unwinder **ret) {
        _cleanup_(unwinder_freep) struct unwinder *u = calloc(1, sizeof(*u));
        bool empty;
        int r;

        if (!u)
                return -ENOMEM;
        r = library_open(&u->dw);
        if (r < 0)
                return r;
        u->process = p;
        u->memory = m;
        u->callbacks = (Dwfl_Callbacks){ .find_elf = open_elf,
                                         .find_debuginfo = no_debuginfo,
                                         .section_address = u->dw.dwfl_offline_section_address };
        (void) u->dw.elf_version(EV_CURRENT); /* libelf wants to be asked; this one it knows */
        u->dwfl = u->dw.dwfl_begin(&u->callbacks);
        if (!u->dwfl)
                return -ENOMEM;
        u->dw.dwfl_report_begin(u->dwfl);
        r = maps_visit(p, take_mapping, u, &empty);
        if (r < 0)
                return r;
        if (u->dw.dwfl_report_end(u->dwfl, NULL, NULL) != 0 || u->n_modules == 0 ||
            !u->dw.dwfl_attach_state(u->dwfl, NULL, p->pid, &thread_callbacks, u))
                return -EBADMSG;
        *ret = TAKE_PTR(u);
        return 0;
}
