/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "layout311.h"

const char python_layout_supported[] = "3.11";

const struct python_layout *python_layout_find(uint64_t py_version) {
        static const struct python_layout *const rows[] = { &python_layout_311 };
        uint64_t level = (py_version >> 4) & 0xF; /* 0xA alpha, 0xB beta, 0xC candidate, 0xF release */

        if (py_version > UINT32_MAX || level < 0xC)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i]->version == py_version >> 16)
                        return rows[i];
        return NULL;
}
