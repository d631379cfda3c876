/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <linux/capability.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "processes.h"
#include "texts.h"

#define TRACEPOINT "tp_btf/"
#define FUNCTION "fentry/"
#define TRIES 24 /* a program each that the verifier refuses */

/*
 * What libbpf last said of a program that could not be loaded, and whether a person wants all of it;
 * libbpf's print function takes no argument of ours.
 */
static char refused[BPF_NAME_MAX];
static bool wordy;

void load_say_all(void) {
        wordy = true;
}

/* Of its many lines we need one: "prog 'NAME': BPF program load failed: …" (libbpf 1.x), later "failed to
 * load". */
static int on_print(enum libbpf_print_level level, const char *format, va_list args) _printf_(2, 0);
static int on_print(enum libbpf_print_level level, const char *format, va_list args) {
        char line[256], name[BPF_NAME_MAX];

        if (level != LIBBPF_WARN)
                return 0;
        if (wordy) {
                va_list copy;

                va_copy(copy, args);
                (void) vfprintf(stderr, format, copy);
                va_end(copy);
        }
        (void) vsnprintf(line, sizeof(line), format, args);
        if (refused[0] == '\0' && sscanf(line, "libbpf: prog '%31[^']': ", name) == 1 &&
            strstr(line, "load"))
                memcpy(refused, name, sizeof(refused));
        return 0;
}

#define add_reason(r, ...)                                                                          \
        do {                                                                                        \
                (r)->verdict = VERDICT_UNKNOWN;                                                     \
                text_append((r)->reason, sizeof((r)->reason), "; ", __VA_ARGS__);                   \
        } while (0)

/* --- What is left out ---------------------------------------------------------------------------------- */

static bool named(const char *const *list, const char *name) {
        for (; list && *list; list++)
                if (streq(*list, name))
                        return true;
        return false;
}

/* What a program hangs on, behind the kind of its section; NULL: another kind. */
static const char *hook_of(const struct bpf_program *p, const char *kind) {
        const char *section = bpf_program__section_name(p);

        return startswith(section, kind) ? section + strlen(kind) : NULL;
}

/* The kernel's types name each of its tracepoints: btf_trace_NAME. */
static bool has_tracepoint(const struct btf *kernel, const char *name) {
        char type[80];

        (void) snprintf(type, sizeof(type), "btf_trace_%s", name);
        return btf__find_by_name_kind(kernel, type, BTF_KIND_TYPEDEF) > 0;
}

static bool is_absent(const struct btf *kernel, const char *tracepoint, const char *function) {
        return tracepoint ? !has_tracepoint(kernel, tracepoint)
                          : function && btf__find_by_name_kind(kernel, function, BTF_KIND_FUNC) <= 0;
}

static void leave_out_absent(const struct bpf_set *set, struct bpf_object *o, const struct btf *kernel,
                             struct bpf_report *report) {
        struct bpf_program *p;

        bpf_object__for_each_program(p, o) {
                const char *tracepoint = hook_of(p, TRACEPOINT), *function = hook_of(p, FUNCTION);

                report->programs++;
                if (!is_absent(kernel, tracepoint, function))
                        continue;
                (void) bpf_program__set_autoload(p, false);
                if (named(set->optional, bpf_program__name(p)))
                        report->programs--;
                else
                        add_reason(report, "this kernel has no %s %s",
                                   tracepoint ? "tracepoint" : "function",
                                   tracepoint ? tracepoint : function);
        }
}

/* --- Loading ------------------------------------------------------------------------------------------- */

static struct bpf_map *map_of_section(const struct bpf_object *o, const char *section) {
        struct bpf_map *m;

        bpf_object__for_each_map(m, o) {
                const char *name = bpf_map__name(m), *dot = strchr(name, '.');

                if (dot && streq(dot, section))
                        return m;
        }
        return NULL;
}

/* The first of its type's is no argument (include/linux/tracepoint.h). */
unsigned bpf_set_arguments(const struct btf *kernel, const char *tracepoint) {
        const struct btf_type *t;
        char type[80];
        int id;

        (void) snprintf(type, sizeof(type), "btf_trace_%s", tracepoint);
        id = btf__find_by_name_kind(kernel, type, BTF_KIND_TYPEDEF);
        for (unsigned i = 0; id > 0 && i < 8; i++) {
                t = btf__type_by_id(kernel, (uint32_t) id);
                if (btf_is_func_proto(t))
                        return btf_vlen(t) > 0 ? btf_vlen(t) - 1u : 0;
                if (!btf_is_typedef(t) && !btf_is_ptr(t))
                        break;
                id = (int) t->type;
        }
        return 0;
}

int bpf_set_constant(struct bpf_object *o, const char *name, const void *value, size_t size) {
        struct btf *types = bpf_object__btf(o);
        int id = types ? btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC) : -ENOENT;
        struct bpf_map *map = map_of_section(o, ".rodata");
        const struct btf_var_secinfo *v;
        const struct btf_type *t;
        size_t bytes = 0;
        char *memory;

        if (id < 0 || !map)
                return -ENOENT;
        t = btf__type_by_id(types, (uint32_t) id);
        v = btf_var_secinfos(t);
        memory = (char *) (uintptr_t) bpf_map__initial_value(map, &bytes);
        for (unsigned i = 0; memory && i < btf_vlen(t); i++) {
                const struct btf_type *variable = btf__type_by_id(types, v[i].type);

                if (!streq(btf__name_by_offset(types, variable->name_off), name))
                        continue;
                if (v[i].size != size || v[i].offset + size > bytes)
                        return -EBADMSG;
                memcpy(memory + v[i].offset, value, size);
                return 0;
        }
        return -ENOENT;
}

static int open_set(const struct bpf_set *set, const struct bpf_own *own, const struct btf *kernel,
                    const char *const *left_out, struct bpf_object **ret) {
        LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = set->name);
        struct bpf_program *p;
        struct bpf_object *o;
        const void *elf;
        size_t size;
        int r;

        elf = set->elf(&size);
        o = bpf_object__open_mem(elf, size, &opts);
        if (!o)
                return -errno;
        bpf_object__for_each_program(p, o) {
                if (named(left_out, bpf_program__name(p)))
                        (void) bpf_program__set_autoload(p, false);
        }
        r = bpf_set_constant(o, "own", own, sizeof(*own));
        if (r == -ENOENT)
                r = 0; /* they do not ask */
        if (r >= 0 && set->prepare)
                r = set->prepare(o, kernel);
        if (r < 0) {
                bpf_object__close(o);
                return r;
        }
        *ret = o;
        return 0;
}

/* Some kernels let nobody trace functions: their EPERM is about the program, and not about our rights. */
static bool is_about_rights(const struct bpf_object *o, int error) {
        const struct bpf_program *p = bpf_object__find_program_by_name(o, refused);

        return error == -EPERM && !(p && hook_of(p, FUNCTION) && capability_has(CAP_PERFMON) > 0);
}

static void say_refused(const struct bpf_set *set, const char *program, struct bpf_report *report) {
        enum verdict before = report->verdict;

        add_reason(report, "this kernel refuses the program %s", program);
        if (!named(set->optional, program))
                return;
        report->verdict = before;
        report->programs--;
}

/* Programs that are refused are left out, one a try, until the kernel takes the rest. */
static int load(const struct bpf_set *set, const struct bpf_own *own, const struct btf *kernel,
                struct loaded_set *l) {
        char names[TRIES][BPF_NAME_MAX];
        const char *left_out[TRIES + 1] = { NULL };
        int r;

        for (size_t i = 0;; i++) {
                r = open_set(set, own, kernel, left_out, &l->object);
                if (r < 0)
                        return r;
                l->report.programs = 0;
                l->report.reason[0] = '\0';
                l->report.verdict = VERDICT_OK;
                leave_out_absent(set, l->object, kernel, &l->report);
                for (size_t k = 0; k < i; k++)
                        say_refused(set, names[k], &l->report);
                refused[0] = '\0';
                r = bpf_object__load(l->object);
                if (r >= 0 || i == TRIES || refused[0] == '\0' || is_about_rights(l->object, r))
                        return r;
                memcpy(names[i], refused, sizeof(names[i]));
                left_out[i] = names[i];
                bpf_object__close(l->object);
                l->object = NULL;
        }
}

/* --- Handing over -------------------------------------------------------------------------------------- */

static void add_thing(struct loaded_set *l, enum bpf_thing_kind kind, const char *name, size_t size,
                      int fd) {
        struct bpf_thing *t = &l->report.things[l->report.n_things];

        if (l->report.n_things == BPF_THINGS_MAX) {
                add_reason(&l->report, "it has more than %u maps and programs", BPF_THINGS_MAX);
                return;
        }
        t->kind = kind;
        t->size = (uint32_t) size;
        (void) snprintf(t->name, sizeof(t->name), "%s", name);
        l->fds[l->report.n_things++] = fd;
}

static void add_maps(struct loaded_set *l) {
        struct bpf_map *m, *figures = map_of_section(l->object, ".bss"),
                           *data = map_of_section(l->object, ".data");

        bpf_object__for_each_map(m, l->object) {
                size_t size = 0;

                if (strstr(bpf_map__name(m), ".rodata") || bpf_map__fd(m) < 0)
                        continue;
                if (bpf_map__map_flags(m) & BPF_F_MMAPABLE)
                        size = ((size_t) bpf_map__value_size(m) + 7) / 8 * 8 * bpf_map__max_entries(m);
                add_thing(l, BPF_THING_MAP,
                          m == figures ? "figures"
                          : m == data  ? "orders"
                                       : bpf_map__name(m),
                          m == figures || m == data ? bpf_map__value_size(m) : size, bpf_map__fd(m));
        }
}

static void attach(const struct bpf_set *set, struct loaded_set *l) {
        struct bpf_program *p;

        bpf_object__for_each_program(p, l->object) {
                const char *name = bpf_program__name(p);
                struct bpf_link *link;

                if (bpf_program__fd(p) < 0)
                        continue;
                l->report.loaded++;
                if (named(set->watch, name)) {
                        add_thing(l, BPF_THING_WATCH, name, 0, bpf_program__fd(p));
                        continue;
                }
                link = bpf_program__attach(p);
                if (!link) {
                        add_reason(&l->report, "the program %s cannot be attached: %s", name,
                                   strerror(errno));
                        continue;
                }
                if (l->n_links < ELEMENTSOF(l->links))
                        l->links[l->n_links++] = link;
                add_thing(l, BPF_THING_LINK, name, 0, bpf_link__fd(link));
        }
}

/* libbpf maps them for users of its skeletons only. */
static void fill(const struct bpf_set *set, struct loaded_set *l, const struct btf *kernel) {
        const struct bpf_map *map = map_of_section(l->object, ".bss");
        size_t size = map ? bpf_map__value_size(map) : 0;
        void *memory;

        if (!set->fill || !map)
                return;
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
        if (memory == MAP_FAILED) {
                add_reason(&l->report, "its figures cannot be mapped: %s", strerror(errno));
                return;
        }
        set->fill(memory, size, kernel);
        (void) munmap(memory, size);
}

static void say_failure(struct bpf_report *report, int error) {
        report->n_things = 0;
        report->reason[0] = '\0';
        if (error == -EPERM || error == -EACCES)
                add_reason(report,
                           "not permitted: it takes CAP_BPF and CAP_PERFMON (Linux 5.8), and a system call "
                           "filter that lets bpf() pass");
        else
                add_reason(report, "this kernel refuses it: %s", strerror(-error));
}

void load_set(const struct bpf_set *set, const struct bpf_own *own, const struct btf *kernel,
              struct loaded_set *ret) {
        int r;

        memset(ret, 0, sizeof(*ret));
        (void) snprintf(ret->report.name, sizeof(ret->report.name), "%s", set->name);
        (void) snprintf(ret->report.summary, sizeof(ret->report.summary), "%s", set->summary);
        if (!kernel) {
                add_reason(&ret->report,
                           "this kernel does not tell its types: there is no /sys/kernel/btf/vmlinux "
                           "(CONFIG_DEBUG_INFO_BTF)");
                return;
        }
        (void) libbpf_set_print(on_print);
        r = load(set, own, kernel, ret);
        if (r < 0) {
                say_failure(&ret->report, r);
                return;
        }
        fill(set, ret, kernel);
        add_maps(ret);
        attach(set, ret);
}

void loaded_set_clear(struct loaded_set *l) {
        for (size_t i = 0; i < l->n_links; i++)
                (void) bpf_link__destroy(l->links[i]);
        bpf_object__close(l->object); /* takes NULL */
        l->object = NULL;
        l->n_links = 0;
}
