/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes in place of a state file: what is taken of them is what the program itself would have
 * written. */
#include <assert.h>

#include "state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct state_format format = { .what = "test", .version = 1, .max = SIZE_MAX };
        char why[STATE_FILE_WHY_MAX] = "", head[STATE_FILE_HEAD_MAX];
        const char *bytes = (const char *) data;
        size_t at = 0;
        int r = state_file_parse(&format, bytes, size, &at, why);

        assert(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
        if (r < 0) {
                assert(why[0] && strlen(why) < sizeof(why));
                return 0;
        }
        assert(at <= size && state_file_head(&format, bytes + at, size - at, head) == at);
        assert(memcmp(head, bytes, at) == 0);
        return 0;
}
