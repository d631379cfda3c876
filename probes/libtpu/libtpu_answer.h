/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside of libtpu: what its files ask of each other. */
#include "libtpu.pb-c.h"

#include "libtpu_metrics.h"

/*
 * Looks at an answer and unpacks it; what comes back is valid until the next call. NULL: *ret_error says
 * why, as libtpu_list_read().
 */
void *libtpu_unpack(struct libtpu_reader *r, const ProtobufCMessageDescriptor *d, const void *data,
                    size_t len, int *ret_error);

/* The attributes of a point, in either encoding, into r; and the values of the metric's own keys. */
void libtpu_attributes_read(struct libtpu_reader *r, const Libtpu__Attribute *a);
const char *libtpu_attribute_value(const struct libtpu_reader *r, const char *key);

/* Into r->histogram, its values times factor. False: it makes no sense. */
bool libtpu_distribution_read(struct libtpu_reader *r, const Libtpu__Distribution *d, double factor);
bool libtpu_summary_read(struct libtpu_reader *r, const Libtpu__Summary *s, double factor);
