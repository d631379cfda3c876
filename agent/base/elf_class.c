/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>

#include "elf_class.h"

int elf_check_library(const struct host *h, const char *path, char why[static ELF_WHY_MAX]) {
        _cleanup_close_ int fd = -1;
        Elf64_Ehdr header;
        ssize_t n;

        fd = host_open_file(h, path, O_RDONLY | O_NONBLOCK);
        if (fd < 0) {
                (void) snprintf(why, ELF_WHY_MAX, "%s", fd == -ENOENT ? "not installed" : strerror(-fd));
                return fd;
        }
        n = read(fd, &header, sizeof(header));
        if (n != (ssize_t) sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
                (void) snprintf(why, ELF_WHY_MAX, "not an ELF file");
                return -ENOEXEC;
        }
        if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
            header.e_type != ET_DYN) {
                (void) snprintf(why, ELF_WHY_MAX, "not a 64-bit x86-64 shared library");
                return -ENOEXEC;
        }
        return 0;
}
