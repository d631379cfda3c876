/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-hostd-probe: runs one probe for tpu-hostd (worker.h), without identity, intent, configuration. A
 * program of its own because loading tpu-hostd's own four dozen libraries costs ten times what a probe does.
 */
#include <sys/stat.h>

#include "host.h"
#include "options.h"
#include "probe_serve.h"

int main(int argc, char *argv[]) {
        const char *probe = NULL;
        const struct option_def defs[] = {
                { .name = "probe", .argument = "NAME", .help = "the probe to run", .value = &probe },
        };
        struct options o = {
                .program = "tpu-hostd-probe",
                .synopsis = "--probe NAME",
                .summary = "Runs one probe for tpu-hostd and prints what it found, a JSON object a line.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        _cleanup_host_ struct host h = HOST_NULL;
        int r = options_parse(&o, argc, argv);

        if (r < 0)
                return options_exit(r);
        if (r < argc || !probe) {
                (void) fprintf(stderr, "tpu-hostd-probe: it takes --probe NAME (--help)\n");
                return EXIT_USAGE;
        }
        (void) umask(077);
        r = host_open(o.root, &h);
        if (r < 0) {
                (void) fprintf(stderr, "tpu-hostd-probe: --root %s cannot be opened: %s\n",
                               o.root ? o.root : "/", strerror(-r));
                return EXIT_FAILURE;
        }
        return probe_serve("tpu-hostd-probe", &h, probe);
}
