/* SPDX-License-Identifier: Apache-2.0 */
/* tpu-stack's whole walk over the memory of a process: images of every CPython, and memory that means
 * harm. */
#include "capture.h"

#include "test.h"

#define BASE UINT64_C(0x10000)
#define IMAGE 65536u
#define RUNTIME (BASE + 64)

struct image {
        uint8_t bytes[IMAGE];
        uint64_t calls, seed;
        bool moves; /* bytes change between two calls */
};

static uint64_t random_next(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static ssize_t image_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        struct image *i = userdata;
        ssize_t done = 0;

        i->calls++;
        for (size_t k = 0; i->moves && k < 64; k++)
                i->bytes[random_next(&i->seed) % IMAGE] = (uint8_t) random_next(&i->seed);
        for (size_t k = 0; k < n; k++) {
                uint64_t at = (uint64_t) (uintptr_t) remote[k].iov_base;

                ASSERT_EQ(local[k].iov_len, remote[k].iov_len);
                if (at < BASE || at - BASE > IMAGE - remote[k].iov_len)
                        return done > 0 ? done : -EFAULT;
                memcpy(local[k].iov_base, i->bytes + (at - BASE), remote[k].iov_len);
                done += (ssize_t) remote[k].iov_len;
        }
        return done;
}

static void put_u64(struct image *i, uint64_t address, uint64_t v) {
        memcpy(i->bytes + (address - BASE), &v, 8);
}

static void put_u32(struct image *i, uint64_t address, uint32_t v) {
        memcpy(i->bytes + (address - BASE), &v, 4);
}

static int capture_image_of(struct image *i, const struct python_layout *l, struct capture *c) {
        capture_init(c, (struct memory_source) { image_readv, i, NULL });
        c->interpreter = (struct interpreter) { .layout = l, .runtime = RUNTIME, .types = { 7, 0, 9 } };
        return capture_stacks(c);
}

static int capture_image(struct image *i, struct capture *c) {
        return capture_image_of(i, python_layout_find(0x030B02F0), c);
}

#define INTERPRETER (BASE + 0x1000)
#define THREAD (BASE + 0x3000)
#define CFRAME (BASE + 0x4000)
#define FRAME (BASE + 0x5000)
#define CODE (BASE + 0x6000)
#define NAME (BASE + 0x7000)
#define TABLE (BASE + 0x8000)
#define BYTECODE (BASE + 0x9000)
#define GIL (BASE + 0xA000)
#define PLACES 11u /* pages from BASE to the last of them */

static void make_frame(struct image *i, const struct python_layout *l, unsigned k) {
        uint64_t at = FRAME + k * 0x100;

        put_u64(i, at + l->frame.code, CODE);
        put_u64(i, at + l->frame.previous, k == 0 ? FRAME + 0x100 : 0);
        if (l->frame.instruction_size == 0)
                put_u64(i, at + l->frame.instruction, CODE + l->code.size + k * 2);
        else
                put_u32(i, at + l->frame.instruction, k * 2 / l->frame.instruction_size);
        if (l->frame.state != LAYOUT_NONE)
                i->bytes[at + l->frame.state - BASE] = (uint8_t) l->frame.executing;
        if (l->frame.stack_top_is_pointer && k == 1)
                put_u64(i, at + l->frame.stack_top, FRAME); /* it has put its stack pointer away */
}

static void make_code(struct image *i, const struct python_layout *l) {
        static const uint8_t tables[][4] = { [LINES_LNOTAB] = { 2, 1 },
                                             [LINES_RANGES] = { 2, 0, 2, 1 },
                                             [LINES_LOCATIONS] = { 0x80, 0x80 | 11 << 3 } };
        uint64_t units_at = l->code.bytecode == LAYOUT_NONE ? CODE : BYTECODE;

        put_u64(i, CODE + l->object.type, 7);
        put_u64(i, units_at + l->object.var_size, l->code.bytecode == LAYOUT_NONE ? 2 : 4);
        if (l->code.bytecode != LAYOUT_NONE) {
                put_u64(i, CODE + l->code.bytecode, BYTECODE);
                put_u64(i, BYTECODE + l->object.type, 9);
        }
        put_u64(i, CODE + l->code.filename, NAME);
        put_u64(i, CODE + l->code.qualname, NAME);
        put_u64(i, CODE + l->code.linetable, TABLE);
        put_u32(i, CODE + l->code.first_line, 5);
        put_u64(i, NAME + l->unicode.length, 1);
        put_u32(i, NAME + l->unicode.state,
                1u << l->unicode.kind_shift | 1u << l->unicode.compact_bit | 1u << l->unicode.ascii_bit);
        i->bytes[NAME + l->unicode.ascii_data - BASE] = 'f';
        put_u64(i, TABLE + l->object.type, 9);
        put_u64(i, TABLE + l->object.var_size, l->lines == LINES_RANGES ? 4 : 2);
        memcpy(i->bytes + (TABLE + l->object.bytes_data - BASE), tables[l->lines], 4);
}

/* One thread, which holds the lock, with two frames of one function: "f" in file "f", lines 5 (inner) and 6.
 */
static void make_image_of(struct image *i, const struct python_layout *l) {
        memset(i, 0, sizeof(*i));
        put_u64(i, RUNTIME + l->runtime.interpreters, INTERPRETER);
        if (l->runtime.gil_holder != LAYOUT_NONE)
                put_u64(i, RUNTIME + l->runtime.gil_holder, THREAD);
        else {
                put_u64(i, INTERPRETER + l->interpreter.gil, GIL);
                put_u64(i, GIL + l->gil.last_holder, THREAD);
                put_u32(i, GIL + l->gil.locked, 1);
        }
        put_u64(i, INTERPRETER + l->interpreter.threads, THREAD);
        put_u64(i, THREAD + l->thread.interpreter, INTERPRETER);
        if (l->thread.cframe != LAYOUT_NONE)
                put_u64(i, THREAD + l->thread.cframe, CFRAME);
        put_u64(i, (l->thread.cframe != LAYOUT_NONE ? CFRAME : THREAD) + l->thread.frame, FRAME);
        make_frame(i, l, 0);
        make_frame(i, l, 1);
        make_code(i, l);
}

static void make_image(struct image *i) {
        make_image_of(i, python_layout_find(0x030B02F0));
}

/* 3.8 to 3.15. */
static const struct python_layout *nth_layout(unsigned n) {
        return python_layout_find(0x030000F0 | (uint64_t) (8 + n % 8) << 16);
}

static void test_image_of_every_version(void) {
        for (unsigned n = 0; n < 8; n++) {
                _cleanup_capture_ struct capture c = CAPTURE_NULL;
                const struct python_layout *l = nth_layout(n);
                const struct chain *chain;
                struct image i;

                make_image_of(&i, l);
                if (l->frame.stack_top != LAYOUT_NONE && !l->frame.stack_top_is_pointer)
                        put_u32(&i, FRAME + l->frame.stack_top, 0xFFFFFFFF); /* the innermost one runs */
                ASSERT_OK(capture_image_of(&i, l, &c));
                ASSERT_EQ(c.n_threads, 1);
                ASSERT_TRUE(c.threads[0].gil && !c.threads[0].changed && !c.threads[0].error);
                chain = &c.threads[0].chain;
                ASSERT_EQ(chain->n, 2);
                ASSERT_STREQ(chain->frames[0].code->function, "f");
                ASSERT_EQ(code_line(chain->frames[0].code, chain->frames[0].instruction), 5);
                ASSERT_EQ(code_line(chain->frames[1].code, chain->frames[1].instruction), 6);
        }
}

static void test_image(void) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;

        make_image(&i);
        put_u32(&i, FRAME + 64, 0xFFFFFFFF); /* the innermost one runs */
        ASSERT_OK(capture_image(&i, &c));
        ASSERT_EQ(c.n_threads, 1);
        ASSERT_TRUE(c.threads[0].gil && !c.threads[0].changed && !c.threads[0].error);
        ASSERT_EQ(c.threads[0].chain.n, 2);
        ASSERT_STREQ(c.threads[0].chain.frames[0].code->function, "f");
        ASSERT_EQ(code_line(c.threads[0].chain.frames[0].code, c.threads[0].chain.frames[0].instruction), 5);
        ASSERT_EQ(code_line(c.threads[0].chain.frames[1].code, c.threads[0].chain.frames[1].instruction), 6);
}

/* Who holds the lock, and whose innermost frame does not run, is between two places: marked. */
static void test_image_between(void) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;

        make_image(&i);
        ASSERT_OK(capture_image(&i, &c));
        ASSERT_TRUE(c.threads[0].gil && c.threads[0].changed && !c.threads[0].error);
}

static void capture_again(struct image *i, struct capture *c, const char *function, int inner, int outer) {
        const struct python_frame *f;

        put_u32(i, FRAME + 64, 0xFFFFFFFF); /* the innermost one runs */
        capture_drop_stacks(c);
        ASSERT_OK(capture_stacks(c));
        ASSERT_EQ(c->n_threads, 1);
        ASSERT_TRUE(!c->threads[0].changed && !c->threads[0].error);
        ASSERT_EQ(c->threads[0].chain.n, 2);
        f = c->threads[0].chain.frames;
        ASSERT_STREQ(f[0].code->function, function);
        ASSERT_EQ(f[0].line, inner);
        ASSERT_EQ(f[1].line, outer);
        ASSERT_TRUE(c->codes.n <= 2); /* what is of no use any more goes */
}

/* What an earlier capture left counts only while everything it was made of is the same. */
static void test_image_again(void) {
        const struct python_layout *l = python_layout_find(0x030B02F0);
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        const struct code *code;
        struct image i;

        make_image(&i);
        put_u32(&i, FRAME + 64, 0xFFFFFFFF);
        ASSERT_OK(capture_image(&i, &c));
        code = c.threads[0].chain.frames[0].code;
        capture_again(&i, &c, "f", 5, 6);
        ASSERT_TRUE(c.threads[0].chain.frames[0].code == code);
        i.bytes[NAME + l->unicode.ascii_data - BASE] = 'g'; /* another function where it was */
        capture_again(&i, &c, "g", 5, 6);
        put_u32(&i, CODE + l->code.first_line, 105);
        capture_again(&i, &c, "g", 105, 106);
        i.bytes[TABLE + l->object.bytes_data + 1 - BASE] =
                0x80 | 12 << 3; /* the second line is two further */
        capture_again(&i, &c, "g", 105, 107);
        put_u64(&i, FRAME + l->frame.instruction, CODE + l->code.size + 2); /* the innermost moved on */
        capture_again(&i, &c, "g", 107, 107);
        put_u64(&i, TABLE + l->object.type, 8); /* no table any more */
        capture_again(&i, &c, "g", 0, 0);
        for (unsigned n = 0; n < 100; n++) {
                i.bytes[NAME + l->unicode.ascii_data - BASE] = (uint8_t) ('a' + n % 26);
                capture_again(&i, &c, (char[]) { (char) ('a' + n % 26), '\0' }, 0, 0);
        }
        put_u64(&i, CODE + l->object.type, 8); /* no code object */
        capture_drop_stacks(&c);
        ASSERT_OK(capture_stacks(&c));
        ASSERT_EQ(c.threads[0].error, -EBADMSG);
        put_u64(&i, RUNTIME + l->runtime.interpreters, 0);
        capture_drop_stacks(&c);
        ASSERT_OK(capture_stacks(&c));
        ASSERT_EQ(c.n_threads, 0);
}

/* What one broken place does to the image of test_image(). */
static int thread_error(uint64_t address, uint64_t value) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;
        int r;

        make_image(&i);
        put_u64(&i, address, value);
        r = capture_image(&i, &c);
        return r < 0 ? r : c.n_threads == 1 ? c.threads[0].error : 1000;
}

static void test_image_broken(void) {
        ASSERT_EQ(thread_error(FRAME + 0x100 + 48, FRAME), -ELOOP); /* frames in a loop */
        ASSERT_EQ(thread_error(FRAME + 0x100 + 48, FRAME + 0x100), -ELOOP);
        ASSERT_EQ(thread_error(THREAD + 8, THREAD), -ELOOP);          /* threads in a loop */
        ASSERT_EQ(thread_error(INTERPRETER, INTERPRETER), -ELOOP);    /* interpreters in a loop */
        ASSERT_EQ(thread_error(FRAME + 48, 0xdeadbeef0000), -EFAULT); /* a wild pointer */
        ASSERT_EQ(thread_error(FRAME + 48, UINT64_MAX - 8), -EFAULT); /* one that wraps */
        ASSERT_EQ(thread_error(THREAD + 56, 0), -EFAULT);
        ASSERT_EQ(thread_error(THREAD + 16, THREAD), -EBADMSG); /* a thread of another interpreter */
        ASSERT_EQ(thread_error(CODE + 8, 8), -EBADMSG);         /* no code object */
        ASSERT_EQ(thread_error(CODE + 16, 0), -EBADMSG);        /* an instruction past its end */
        ASSERT_EQ(thread_error(FRAME + 64, 0x00000000), 0);
        ASSERT_EQ(thread_error(FRAME + 0x100 + 64, 0xFFFFFFFF),
                  -EBADMSG);                                       /* a caller that is executing itself */
        ASSERT_EQ(thread_error(NAME + 16, UINT64_MAX), -EBADMSG);  /* a string of impossible length */
        ASSERT_EQ(thread_error(NAME + 16, UINT64_C(1) << 62), 0);  /* a huge one is cut */
        ASSERT_EQ(thread_error(NAME + 32, 5 << 2), -EBADMSG);      /* characters of five bytes */
        ASSERT_EQ(thread_error(TABLE + 16, UINT64_C(1) << 40), 0); /* no lines, but a stack */
        ASSERT_EQ(thread_error(RUNTIME + 40, 0), 1000);            /* no interpreter: no thread */
}

static void break_image(struct image *i, uint64_t *seed, unsigned changes) {
        for (unsigned k = 0; k < changes; k++) {
                uint64_t at = (random_next(seed) % PLACES) * 0x1000 + random_next(seed) % 0x280 / 8 * 8,
                         kind = random_next(seed);

                put_u64(i, BASE + at,
                        kind % 3 == 0   ? BASE + random_next(seed) % (IMAGE + 4096) / 8 * 8
                        : kind % 3 == 1 ? random_next(seed) % 64
                                        : random_next(seed));
        }
}

/* Pointers into the image, small numbers and noise: whatever it makes of it, it ends, within its bounds. */
static void test_image_random(void) {
        uint64_t seed = test_seed() | 1, calls = 0, frames = 0;
        struct image *i = malloc(sizeof(*i));

        ASSERT_TRUE(i != NULL);
        for (unsigned round = 0; round < 10000; round++) {
                _cleanup_capture_ struct capture c = CAPTURE_NULL;
                unsigned changes = (unsigned) (random_next(&seed) % 200);

                make_image_of(i, nth_layout(round));
                i->seed = random_next(&seed);
                i->moves = round / 8 % 2;
                break_image(i, &seed, changes);
                (void) capture_image_of(i, nth_layout(round), &c);
                ASSERT_TRUE(c.n_threads <= WALK_THREADS_MAX && c.frames <= WALK_FRAMES_TOTAL_MAX);
                frames += c.frames;
                break_image(i, &seed, changes % 8);
                capture_drop_stacks(&c);
                (void) capture_stacks(&c);
                ASSERT_TRUE(c.n_threads <= WALK_THREADS_MAX && c.frames <= WALK_FRAMES_TOTAL_MAX);
                calls += i->calls;
        }
        ASSERT_TRUE(frames > 1000); /* the rounds must reach the frames */
        printf("10000 images: %" PRIu64 " reads, %" PRIu64 " frames\n", calls, frames);
        free(i);
}

TEST_MAIN(test_image, test_image_between, test_image_again, test_image_of_every_version, test_image_broken,
          test_image_random)
