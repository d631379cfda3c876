/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_text.h"

#include "render.h"

int capture_text_make(const uint8_t *data, size_t len, size_t max, struct capture_text *ret,
                      char why[static CAPTURE_WHY_MAX]) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        int r = capture_read(data, len, CAPTURE_SHOWN, &c, &t, why);

        if (r < 0 && !why[0])
                (void) snprintf(why, CAPTURE_WHY_MAX, "%s", strerror(-r));
        if (r < 0)
                return r;
        *ret = (struct capture_text){ .cut = c.cut, .threads = (uint32_t) c.n_threads };
        for (size_t i = 0; i < c.n_processes; i++)
                if (c.processes[i].error == 0)
                        ret->processes++;
                else if (!ret->unread[0])
                        (void) snprintf(ret->unread, sizeof(ret->unread), "process %" PRIu32 ": %.160s",
                                        c.processes[i].pid, stack_table_text(&t, c.processes[i].error));
        r = render_text(&c, &t, max, &ret->text);
        if (r < 0)
                (void) snprintf(why, CAPTURE_WHY_MAX, "%s", strerror(-r));
        return r;
}
