/* SPDX-License-Identifier: Apache-2.0 */
#include "run_fleet.h"
#include "test.h"

static void test_lines(void) {
        static const struct {
                const char *record, *line;
        } table[] = {
                { "{\"state\":\"waiting\",\"why\":\"\"}", "waiting" },
                { "{\"state\":\"waiting\",\"why\":\"h2 was lost\"}", "waiting: h2 was lost" },
                { "{\"state\":\"waiting\",\"why\":\"h2: busy\\nkill 1\"}", "waiting: h2: busy" },
                { "{\"state\":\"ended\",\"outcome\":\"refused\",\"why\":\"h2: busy\\nkill 1\"}",
                  "ended: refused: h2: busy\nkill 1" },
                { "{\"state\":\"preparing\",\"generation\":2,\"why\":\"h2 was "
                  "lost\",\"slices\":[{\"slice\":\"s0\",\"hosts\":[1,2]},"
                  "{\"slice\":\"s1\",\"hosts\":[1,2]}]}",
                  "preparing, generation 2, on s0, s1 (4 hosts): h2 was lost" },
                { "{\"state\":\"running\",\"generation\":1,\"slices\":[{\"slice\":\"s0\",\"hosts\":[1]}]}",
                  "running, generation 1, on s0 (1 host)" },
                { "{\"state\":\"ended\",\"outcome\":\"failed\",\"why\":\"h1 ended it: oom-kill\"}",
                  "ended: failed: h1 ended it: oom-kill" },
                { "{}", ", generation 0" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                json_t *run = json_loads(table[i].record, 0, NULL);
                char line[800];

                run_fleet_line(run, line, sizeof(line));
                ASSERT_STREQ(line, table[i].line);
                json_decref(run);
        }
}

TEST_MAIN(test_lines)
