/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is asked for, as it goes over the bus: the message is made by sd-bus, and read back as text. */
#include <sys/socket.h>

#include "test.h"
#include "unit_message.h"

struct wire {
        sd_bus *bus;
        char *text;
        size_t len;
};

/* A connection that nobody answers: messages need one to be made, and go nowhere. */
static struct wire wire_new(void) {
        struct wire w = { .bus = NULL };
        int fds[2];

        ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
        ASSERT_OK(sd_bus_new(&w.bus));
        ASSERT_OK(sd_bus_set_fd(w.bus, fds[0], fds[0]));
        ASSERT_OK(sd_bus_start(w.bus));
        (void) close(fds[1]);
        return w;
}

static void wire_free(struct wire *w) {
        free(w->text);
        w->bus = sd_bus_close_unref(w->bus);
}
#define _cleanup_wire_ _cleanup_(wire_free)

static void make(struct wire *w, const struct unit_spec *s, int (*new)(sd_bus *, const struct unit_spec *, sd_bus_message **)) {
        sd_bus_message *m = NULL;
        FILE *f;

        free(TAKE_PTR(w->text));
        f = open_memstream(&w->text, &w->len);
        ASSERT_TRUE(f);
        ASSERT_OK(new(w->bus, s, &m));
        ASSERT_OK(sd_bus_message_seal(m, 1, 0));
        ASSERT_OK(sd_bus_message_dump(m, f, 0));
        (void) fclose(f);
        sd_bus_message_unref(m);
}

/* The text after the property's name, within its own lines; NULL: it is not there. */
static const char *property(const struct wire *w, const char *name) {
        char quoted[64];
        const char *at;

        (void) snprintf(quoted, sizeof(quoted), "STRING \"%s\";", name);
        at = strstr(w->text, quoted);
        return at ? at + strlen(quoted) : NULL;
}

static bool has_number(const struct wire *w, const char *name, uint64_t value) {
        const char *at = property(w, name), *number = at ? strstr(at, "UINT64 ") : NULL;

        return number && strtoull(number + strlen("UINT64 "), NULL, 10) == value;
}

/* Limits of the slice are the slice's: the service has none, and without any there is no unit beside it. */
static void test_memory(void) {
        _cleanup_wire_ struct wire w = wire_new();
        struct run_spec run;
        struct unit_spec s = { .name = "a-b", .id = "0123456789abcdef0123456789abcdef", .user = "alice", .run = &run };
        const char *slice;

        run_spec_init(&run);
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(!property(&w, "MemoryMax") && !property(&w, "MemoryHigh") && !property(&w, "Training run a-b and its containers"));
        run.memory_max = 1000;
        make(&w, &s, unit_message_new);
        ASSERT_TRUE(has_number(&w, "MemoryMax", 1000) && !property(&w, "Training run a-b and its containers"));
        run.memory_max = SPEC_UNLIMITED;
        run.memory_total = 64ull << 30;
        run.memory_high = 60ull << 30;
        make(&w, &s, unit_message_new);
        slice = property(&w, "Training run a-b and its containers");
        ASSERT_TRUE(slice && property(&w, "MemoryMax") > slice && property(&w, "MemoryHigh") > slice);
        ASSERT_TRUE(has_number(&w, "MemoryMax", 64ull << 30) && has_number(&w, "MemoryHigh", 60ull << 30));
        make(&w, &s, unit_message_beside); /* it begins in the slice that is there */
        ASSERT_TRUE(!property(&w, "MemoryMax") && property(&w, "Slice"));
}

int main(void) {
        test_memory();
        return EXIT_SUCCESS;
}
