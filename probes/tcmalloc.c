/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator that runs preload: there, and loadable. */
#include "elf_class.h"
#include "probe.h"
#include "paths.h"
#include "tpu_sysfs.h"

int probe_tcmalloc(const struct host *h, const struct probe_context *c, struct sink *s) {
        char why[ELF_WHY_MAX];
        struct finding f;
        int r, tpu;

        (void) c;
        finding_init(&f, "tcmalloc", NULL);
        r = elf_check_library(h, PATH_TCMALLOC, why);
        tpu = r < 0 ? tpu_are_there(h) : 1;
        finding_set(f.found, "%s", r < 0 ? why : "loadable");
        if (r == 0 || (r == -ENOENT && tpu == 0))
                f.verdict = VERDICT_OK; /* no TPU: nothing is wanted */
        else if (r == -ENOENT && tpu < 0)
                finding_set(f.reason, "whether this host has TPU chips cannot be told");
        else if (r == -ENOENT || r == -ENOEXEC)
                f.verdict = VERDICT_WARN;
        else
                finding_set(f.reason, PATH_TCMALLOC ": %s", strerror(-r));
        if (f.verdict == VERDICT_WARN) {
                finding_set(f.wanted, "loadable");
                finding_set(
                        f.source,
                        "Google Cloud TPU docs: TPU VMs preload tcmalloc; pytorch/xla docker/Dockerfile");
                finding_set(f.reason, PATH_TCMALLOC ": runs with --malloc auto use glibc's allocator%s",
                            r == -ENOEXEC ? ", and what preloads it elsewhere is ignored by ld.so" : "");
                finding_set(f.remedy, "apt-get install %slibgoogle-perftools4",
                            r == -ENOEXEC ? "--reinstall " : "");
        }
        s->finding(s, &f);
        return 0;
}
