/* SPDX-License-Identifier: Apache-2.0 */
#include "run_secrets.h"

#include <fcntl.h>

#include "io.h"

static int refuse(const char *what, const char *why) {
        fprintf(stderr, "tpuctl run: --secret %.200s: %s\n", what, why);
        return -EINVAL;
}

static int read_one(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        char *text = calloc(1, RUN_SECRETS_BYTES_MAX + 2);
        ssize_t n = fd < 0 ? -errno : text ? io_read_up_to(fd, text, RUN_SECRETS_BYTES_MAX + 1) : -ENOMEM;
        const char *why = NULL;

        if (n > 0 && text[n - 1] == '\n')
                text[--n] = '\0';
        if (n < 0)
                why = strerror((int) -n);
        else if (n > RUN_SECRETS_BYTES_MAX)
                why = "longer than 64 KiB";
        else if (n == 0)
                why = "it is empty";
        else if (strlen(text) != (size_t) n)
                why = "it holds a NUL byte";
        if (!why) {
                *ret = text;
                return 0;
        }
        if (text)
                explicit_bzero(text, RUN_SECRETS_BYTES_MAX + 2);
        free(text);
        return refuse(path, why);
}

int run_secrets_read(const struct words *given, struct run_secrets *ret) {
        if (given->n > RUN_SECRETS_MAX)
                return refuse("NAME=FILE", "more than 64");
        for (size_t i = 0; i < given->n; i++) {
                const char *equals = strchr(given->items[i], '=');
                Local__Secret *s = &ret->items[ret->n];
                int r;

                if (!equals || equals == given->items[i] || !equals[1])
                        return refuse(given->items[i],
                                      "it is NAME=FILE: a variable's name, and a file that holds its value");
                local__secret__init(s);
                s->name = strndup(given->items[i], (size_t) (equals - given->items[i]));
                if (!s->name)
                        return -ENOMEM;
                ret->list[ret->n] = s;
                ret->n++;
                r = read_one(equals + 1, &s->value);
                if (r < 0)
                        return r;
        }
        return 0;
}

void run_secrets_clear(struct run_secrets *s) {
        for (size_t i = 0; i < s->n; i++) {
                if (s->items[i].value && s->items[i].value[0]) { /* else it is protobuf-c's empty text */
                        explicit_bzero(s->items[i].value, strlen(s->items[i].value));
                        free(s->items[i].value);
                }
                free(s->items[i].name);
        }
        s->n = 0;
}
