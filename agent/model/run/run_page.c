/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the build: fills the keys of a run into tpuctl(1), from standard input to standard output, in the
 * place of the lines
 * '.\" RUN_KEYS HERE' (keys that a run of this host may have) and '.\" RUN_KEYS SLICES' (the others).
 */
#include "run_key.h"

#define LINE_MAX_BYTES 1024
#define HELP_MAX 200

/* mdoc reads a line that begins with '.' or '\'' as a request; no help does. */
static void print_keys(bool here) {
        char flag[RUN_KEY_TEXT_MAX], help[HELP_MAX];

        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);

                if (!run_key_flag(k, flag) || ((k->who & RUN_HERE) != 0) != here)
                        continue;
                printf(".It Fl -%s%s%s\n", flag, k->value ? " Ar " : "", k->value ? k->value : "");
                printf("%s.\n", run_key_help(k, help, sizeof(help)));
        }
}

int main(void) {
        char line[LINE_MAX_BYTES];

        while (fgets(line, sizeof(line), stdin)) {
                if (streq(line, ".\\\" RUN_KEYS HERE\n"))
                        print_keys(true);
                else if (streq(line, ".\\\" RUN_KEYS SLICES\n"))
                        print_keys(false);
                else
                        fputs(line, stdout);
        }
        return fflush(stdout) == EOF ? EXIT_FAILURE : EXIT_SUCCESS;
}
