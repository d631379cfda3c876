/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A set of BPF programs, loaded and judged together. Adding one: NAME.bpf.c, whose .bss holds nothing but
 * `struct NAME_figures figures` (sets/NAME_figures.h); a NAME_set.c that exports `const struct bpf_set
 * bpf_set_NAME`; a line BPF_SET(NAME) in sets/sets.def. Programs are of the kind tp_btf/TRACEPOINT, or
 * fentry/FUNCTION where there is none and nothing else runs through the function; both take CAP_BPF and
 * CAP_PERFMON and no root. A program whose hook this kernel lacks, or which it refuses, is left out and
 * named in the verdict; the others run.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>

struct bpf_set {
        const char *name, *summary;
        const void *(*elf)(size_t *size);  /* NAME__elf_bytes of NAME.skel.h */
        const char *const *watch;          /* programs that stay detached, ended by NULL; NULL: none */
        /* Programs whose hook this kernel may lack without a word, or which it may refuse: the verdict stays
         * OK. Ended by NULL; NULL: none. */
        const char *const *optional;
        /* Before they are loaded: may leave programs out (bpf_program__set_autoload). NULL: nothing to do.
         * -errno. */
        int (*prepare)(struct bpf_object *o, const struct btf *kernel);
        /* After that: figures is where their figures are. NULL: nothing to do. */
        void (*fill)(void *figures, size_t size, const struct btf *kernel);
};

/* How many arguments that tracepoint has here; 0: there is none. */
unsigned bpf_set_arguments(const struct btf *kernel, const char *tracepoint);
/* Gives a constant of the programs (const volatile, in .rodata) its value, before they are loaded. -ENOENT,
 * -EBADMSG: another size. */
int bpf_set_constant(struct bpf_object *o, const char *name, const void *value, size_t size);
