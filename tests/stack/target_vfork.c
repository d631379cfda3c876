/* SPDX-License-Identifier: Apache-2.0 */
/* Waits uninterruptibly (state D) in vfork(2) for a child that never comes back, under two functions of its
 * own. */
#define _GNU_SOURCE
#include <unistd.h>

__attribute__((noinline)) static int waits_for_child(int n) {
        pid_t pid = vfork();

        if (pid == 0) {
                (void) write(1, "ready\n", 6);
                for (;;)
                        pause();
        }
        return n + (int) pid;
}

__attribute__((noinline)) static int calls(int n) {
        return waits_for_child(n) + 1;
}

int main(void) {
        return calls(2);
}
