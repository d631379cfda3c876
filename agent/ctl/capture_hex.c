/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_hex.h"

#include "capture_wire.h"

static int digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int from_hex(const char *text, uint8_t **ret, size_t *ret_len) {
        size_t n = strlen(text) / 2;
        _cleanup_free_ uint8_t *data = malloc(n + 1);

        if (!data)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EPROTO;
                data[i] = (uint8_t) (high << 4 | low);
        }
        *ret = TAKE_PTR(data);
        *ret_len = n;
        return 0;
}

int capture_hex_add(struct scene *s, const char *hex, const struct host_capture *who) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        _cleanup_free_ uint8_t *data = NULL;
        const char *why = "it cannot be unpacked";
        size_t len;
        int r;

        host_capture_init(&c);
        r = from_hex(hex, &data, &len);
        if (r == 0)
                r = capture_wire_unpack(data, len, &c, &t, &why);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                fprintf(stderr, "tpuctl diagnose: the capture of %s is left out: %s\n", who->host, why);
                return 0;
        }
        memcpy(c.slice, who->slice, sizeof(c.slice));
        memcpy(c.host, who->host, sizeof(c.host));
        if (who->address[0])
                memcpy(c.address, who->address, sizeof(c.address));
        c.worker = who->worker;
        c.round = who->round;
        r = scene_add(s, &c, &t);
        return r < 0 ? r : 1;
}
