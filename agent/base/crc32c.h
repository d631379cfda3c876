/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A file of its own for the code that is compiled for one instruction of the CPU. CRC-32C (Castagnoli, RFC
 * 3720 appendix B.4), by the CPU's own instruction where it has one. Pure. */
#include "base.h"

/* Continues crc (0 to begin) over data: crc32c(crc32c(0, a), b) is the checksum of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);
/* The same on every CPU, slowly. */
uint32_t crc32c_bitwise(uint32_t crc, const void *data, size_t len);
