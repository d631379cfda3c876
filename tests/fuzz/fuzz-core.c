/* SPDX-License-Identifier: Apache-2.0 */
/* A core file that means harm: its notes, its mappings, and its memory as tpu-stack reads it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "core_file.h"
#include "io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(const struct mapping *m, void *userdata) {
        char byte;

        if (m->end <= m->start || m->path[0] != '/')
                abort();
        (void) memory_read(userdata, m->end - 1, &byte, 1); /* most are not there */
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_host_ struct host nowhere = HOST_NULL; /* no file that it names is there */
        _cleanup_(core_file_freep) struct core_file *core = NULL;
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        _cleanup_memory_ struct memory m = { 0 };
        char why[CORE_WHY_MAX], reason[REASON_MAX];
        int fd = memfd_create("core", MFD_CLOEXEC);
        bool empty;

        if (fd < 0 || io_write_all(fd, data, size) < 0 || core_file_new(&nowhere, fd, &core, why) < 0)
                return 0;
        memory_init(&m, core_file_source(core));
        (void) core_file_maps(core, visit, &m, &empty);
        (void) capture_core(core, &c, reason); /* whatever comes of it */
        return 0;
}
