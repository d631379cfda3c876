/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the kernel's command line that matter to a TPU host, and those that TPU7x wants. */
#include "texts.h"
#include "words.h"
#include "tpu_sysfs.h"

#define CMDLINE_MAX 4096

/* What is published and compared between hosts; the rest (root=, console=) differs for good reasons. */
static const char *const telling[] = {
        "intel_iommu",
        "amd_iommu",
        "iommu",
        "idle",
        "transparent_hugepage",
        "hugepages",
        "hugepagesz",
        "mitigations",
        "isolcpus",
        "nohz_full",
        "intel_idle.max_cstate",
        "nosmt",
        "default_hugepagesz",
        "pcie_aspm",
        "numa_balancing",
        "systemd.unified_cgroup_hierarchy",
};
static const char *const wanted_7x[] = { "intel_iommu=on,sm_on", "idle=poll" };

static bool is_telling(const char *word) {
        size_t n = strcspn(word, "=");

        for (size_t i = 0; i < ELEMENTSOF(telling); i++)
                if (strlen(telling[i]) == n && strncmp(telling[i], word, n) == 0)
                        return true;
        return false;
}

static bool is_7x(const struct host *h) {
        struct tpu_inventory v;

        return tpu_inventory_read(h, &v) == 0 && v.n > 0 && streq(v.chips[0].model.generation, "tpu7x");
}

/* Words are parted by blanks; known holds the telling ones, missing those that TPU7x wants and that are not
 * there. */
static void judge_cmdline(const struct host *h, char *text, struct sink *s) {
        char known[CMDLINE_MAX] = "", missing[128] = "", *save = NULL;
        bool seen[ELEMENTSOF(wanted_7x)] = { false };

        for (char *w = strtok_r(text, " \t\n", &save); w; w = strtok_r(NULL, " \t\n", &save)) {
                for (size_t i = 0; i < ELEMENTSOF(wanted_7x); i++)
                        seen[i] |= streq(w, wanted_7x[i]);
                if (is_telling(w))
                        text_append(known, sizeof(known), " ", "%s", w);
        }
        for (size_t i = 0; i < ELEMENTSOF(wanted_7x); i++)
                if (!seen[i])
                        text_append(missing, sizeof(missing), "", " %s", wanted_7x[i]);
        probe_tell(s,
                   !is_7x(h)  ? WORDS_CMDLINE :
                   missing[0] ? WORDS_CMDLINE_7X_LACKS :
                                WORDS_CMDLINE_7X,
                   NULL, missing, "%s", known[0] ? known : "nothing special");
}

int probe_cmdline(const struct host *h, const struct probe_context *c, struct sink *s) {
        char text[CMDLINE_MAX];
        int r;

        (void) c;
        r = host_read(h, "/proc/cmdline", text, sizeof(text), NULL);
        if (r < 0)
                probe_tell(s, WORDS_CMDLINE_UNREADABLE, NULL, strerror(-r), "%s", "");
        else
                judge_cmdline(h, text, s);
        return 0;
}
