/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in state D again and again: a parent does until its child of vfork(2) has ended, 0.2 s later. */
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
        for (;;) {
                pid_t child = vfork();

                if (child < 0)
                        return 1;
                if (child == 0) {
                        (void) usleep(200000);
                        _exit(0);
                }
                (void) waitpid(child, NULL, 0);
        }
}
