/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "net_figures.h"

#include "net.skel.h" /* names their types */

#define PREFIX "SKB_DROP_REASON_"

static int prepare(struct bpf_object *o, const struct btf *kernel) {
        bool tells_error = bpf_set_arguments(kernel, "tcp_retransmit_skb") > 2;
        bool tells_socket = bpf_set_arguments(kernel, "kfree_skb") > 3;
        int r = bpf_set_constant(o, "tells_error", &tells_error, sizeof(tells_error));

        return r < 0 ? r : bpf_set_constant(o, "tells_socket", &tells_socket, sizeof(tells_socket));
}

/* The numbers of reasons differ from kernel to kernel: names come with the figures. */
static void fill(void *figures, size_t size, const struct btf *kernel) {
        int id = btf__find_by_name_kind(kernel, "skb_drop_reason", BTF_KIND_ENUM);
        struct net_figures *f = figures;
        const struct btf_type *t;
        const struct btf_enum *e;

        if (id < 0 || !f || size < sizeof(*f))
                return;
        t = btf__type_by_id(kernel, (uint32_t) id);
        e = btf_enum(t);
        for (unsigned i = 0; i < btf_vlen(t); i++) {
                const char *name = btf__name_by_offset(kernel, e[i].name_off);

                if (e[i].val >= 0 && e[i].val < NET_REASONS)
                        (void) snprintf(f->reasons[e[i].val], NET_REASON_NAME, "%s",
                                        startswith(name, PREFIX) ? name + strlen(PREFIX) : name);
        }
}

const struct bpf_set bpf_set_net = {
        .name = "net",
        .summary = "TCP's retransmits, resets and connects by peer; packets that this host drops",
        .elf = net__elf_bytes,
        .prepare = prepare,
        .fill = fill,
};
