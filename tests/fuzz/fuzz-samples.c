/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the database as the disk gives it back; what is read is written and read again as the same. */
#include "samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        struct samples_in in = samples_read(data, len, 1000), again;
        struct samples_out o = { 0 };
        struct stored_sample a, b;
        size_t n = 0;

        samples_begin(&o, 1000);
        while (samples_next(&in, &a) > 0) {
                n++;
                if (samples_put(&o, &a) < 0)
                        abort();
        }
        if (n > len)
                abort();
        in = samples_read(data, len, 1000);
        again = samples_read(o.data, o.len, 1000);
        while (samples_next(&in, &a) > 0)
                if (samples_next(&again, &b) != 1 || a.series != b.series || a.ms != b.ms ||
                    a.is_int != b.is_int || (a.is_int && a.i != b.i))
                        abort();
        if (samples_next(&again, &b) != 0)
                abort();
        samples_clear(&o);
        return 0;
}
