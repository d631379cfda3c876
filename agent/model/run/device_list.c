/* SPDX-License-Identifier: Apache-2.0 */
#include "device_list.h"

#include "texts.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:+@"

/* No ".." and nothing that means something to systemd but '*', and that in names of drivers alone. */
static bool is_node(const char *text) {
        const char *driver = startswith(text, "char-")    ? text + 5
                             : startswith(text, "block-") ? text + 6
                                                          : NULL;

        if (driver)
                return driver[0] && strspn(driver, LETTERS "*") == strlen(driver);
        return startswith(text, "/dev/") && text[5] && strspn(text, LETTERS "/") == strlen(text) &&
               !strstr(text, "..") && !strstr(text, "//") && text[strlen(text) - 1] != '/';
}

static size_t count(char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]) {
        const char *words[DEVICE_LIST_MAX + 1];
        char nodes[DEVICE_LIST_MAX][DEVICE_NODE_MAX], **all;
        size_t n = count(*list), more = 0;

        for (size_t i = 0; i < n && i < DEVICE_LIST_MAX; i++)
                words[i] = (*list)[i];
        while (*(text += strspn(text, " ,\t"))) {
                size_t len = strcspn(text, " ,\t");

                (void) snprintf(bad, DEVICE_NODE_MAX, "%.*s", (int) MIN(len, (size_t) DEVICE_NODE_MAX),
                                text);
                if (streq(bad, "tpu")) { /* these it may open anyhow */
                        text += len;
                        continue;
                }
                if (n + more >= DEVICE_LIST_MAX)
                        return -E2BIG;
                if (len >= DEVICE_NODE_MAX || !is_node(bad))
                        return -EINVAL;
                memcpy(nodes[more], bad, len + 1);
                words[n + more] = nodes[more];
                more++;
                text += len;
        }
        if (more == 0)
                return 0;
        all = strings_copy(words, n + more);
        if (!all)
                return -ENOMEM;
        (void) strings_free(*list);
        *list = all;
        return 0;
}
