/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that tell of a checkpoint, lines that only look like them, and the last whole one that follows. */
#include "checkpoint.h"
#include "steps.h"
#include "test.h"

#define S USEC_PER_SEC
#define REAL ((usec_t) 1795237200 * USEC_PER_SEC)

struct expected {
        const char *line;
        enum checkpoint_sign sign;
        int64_t step;
        const char *path; /* NULL: none */
};

#define WHOLE CHECKPOINT_WHOLE
#define BEGINS CHECKPOINT_BEGINS

static const struct expected lines[] = {
        /* MaxText */
        { "saved a checkpoint at step 40", WHOLE, 40, NULL },
        { "I0101 checkpointing.py:1] Saved a checkpoint at step 40.", WHOLE, 40, NULL },
        { "saved a checkpoint at step x", WHOLE, -1, NULL },
        { "Started an asynchronous checkpoint save for step 40", BEGINS, 40, NULL },
        /* Orbax */
        { "I0426 140438783083 checkpoint_manager.py:1] [process=0] Saving checkpoint at step 2000", BEGINS,
          2000, NULL },
        { "I0426 140438783083 atomicity.py:847] [process=0][thread=MainThread] Finished saving checkpoint "
          "(finalized tmp dir) to `gs://b/run/checkpoints/2000`.",
          WHOLE, 2000, "gs://b/run/checkpoints/2000" },
        { "Finished saving checkpoint (finalized tmp dir) to `/kept/checkpoint_2000`.", WHOLE, 2000,
          "/kept/checkpoint_2000" },
        { "Finished saving checkpoint (finalized tmp dir) to `/kept/2000", WHOLE, -1, NULL }, /* cut */
        /* Megatron */
        { "saving checkpoint at iteration      20 to /ckpt in torch_dist format", BEGINS, 20, "/ckpt" },
        { "scheduled an async checkpoint save at iteration      20 to /ckpt", BEGINS, 20, "/ckpt" },
        { "  successfully saved checkpoint from iteration      20 to /ckpt [ t 1/1, p 1/1 ]", WHOLE, 20,
          "/ckpt" },
        /* Hugging Face's Trainer */
        { "Saving model checkpoint to ./results/checkpoint-500", BEGINS, 500, "./results/checkpoint-500" },
        { "Saving model checkpoint to tmp_trainer/checkpoint-500", BEGINS, 500,
          "tmp_trainer/checkpoint-500" },
        /* in words of one's own */
        { "saved checkpoint to /gs/run/ckpt-400.pt", WHOLE, 400, "/gs/run/ckpt-400.pt" },
        { "saved checkpoint to /gs/run/model.pt.", WHOLE, -1, "/gs/run/model.pt" },
        { "/opt/train.py:7: checkpoint saved: step=1,200 directory=/data/download/a in 3.5 s (1.2 GB/s)",
          WHOLE, 1200, "/data/download/a" },
        { "Checkpoint saved at global_step 7 to 'out/last-failed-run'", WHOLE, 7, "out/last-failed-run" },
        { "saved checkpoint to /gs/run-2026", WHOLE, -1, "/gs/run-2026" },
        { "saved checkpoint step 3/10 epoch 2", WHOLE, 3, NULL },
        { "Failed to save checkpoint at step 40: disk full", CHECKPOINT_FAILS, 40, NULL },
        { "Error saving checkpoint to /gs/40", CHECKPOINT_FAILS, 40, "/gs/40" },
};

static const char *const nothing[] = {
        "",
        "completed step: 1, seconds: 1",
        "checkpoint",
        "saved a checkpoin",
        "aved a checkpoint at ste",
        "Restored checkpoint from /gs/run/40",
        "resuming from checkpoint at step 40",
        "Resuming from saved checkpoint at step 40",
        "successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 20",
        "Loading saved checkpoint /gs/run/40",
        "the last saved checkpoint is of step 40",
        "the saved checkpoint of step 40 is kept",
        "Deleting older saved checkpoint /gs/run/40",
        "checkpoint not saved",
        "checkpoint was not saved checkpoint",
        "found no saved checkpoint in /gs/run",
        "[2025-01-01] zero checkpoint saved /ckpt/global_step10/zero_pp_rank_0_optim_states.pt",
        "Finished saving the checkpoint (or staging if async is enabled) in 2.00 seconds.",
};

static bool same_path(const struct checkpoint_line *l, const char *path) {
        if (!path || !l->path)
                return !path && !l->path;
        return l->path_len == strlen(path) && memcmp(l->path, path, l->path_len) == 0;
}

static void known_lines(void) {
        struct checkpoint_line l;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                const struct expected *e = &lines[i];

                l = (struct checkpoint_line){ .step = -2 };
                if (!checkpoint_line_parse(e->line, strlen(e->line), &l) || l.sign != e->sign ||
                    l.step != e->step || !same_path(&l, e->path))
                        test_fail(__FILE__, __LINE__, "%s: %d, step %" PRId64 ", %.*s", e->line,
                                  (int) l.sign, l.step, (int) l.path_len, l.path ? l.path : "");
        }
        for (size_t i = 0; i < ELEMENTSOF(nothing); i++)
                if (checkpoint_line_parse(nothing[i], strlen(nothing[i]), &l))
                        test_fail(__FILE__, __LINE__, "%s: %d", nothing[i], (int) l.sign);
        ASSERT_FALSE(checkpoint_line_parse(NULL, 0, &l));
}

static void take(struct checkpoint *c, const char *line, int64_t seen, usec_t at) {
        checkpoint_take(c, line, strlen(line), seen, at, REAL + at);
}

static void of_a_run(void) {
        struct checkpoint c = { .at_real = 0 };

        ASSERT_EQ(checkpoint_steps_since(&c, 5), -1);
        take(&c, "Started an asynchronous checkpoint save for step 40", 39, 100 * S);
        take(&c, "Started an asynchronous checkpoint save for step 40", 39, 101 * S); /* another process */
        ASSERT_EQ(c.at_real, 0); /* begun, and not whole */
        take(&c, "Finished saving checkpoint (finalized tmp dir) to `/r/40`.", 52, 130 * S);
        ASSERT_TRUE(c.at_real == REAL + 130 * S && c.took == 30 * S && c.step == 40);
        ASSERT_STREQ(c.path, "/r/40");
        take(&c, "Saved a checkpoint at step 40.", 52, 131 * S); /* the same once more */
        ASSERT_TRUE(c.at_real == REAL + 130 * S && c.took == 30 * S);
        ASSERT_STREQ(c.path, "/r/40");
        ASSERT_EQ(checkpoint_steps_since(&c, 52), 12);
        ASSERT_EQ(checkpoint_steps_since(&c, 39), 0); /* its step is told later */
        ASSERT_EQ(checkpoint_steps_since(&c, -1), -1);
        take(&c, "Saving checkpoint at step 80", 80, 200 * S);
        take(&c, "Failed to save checkpoint at step 80", 80, 210 * S);
        take(&c, "Saving checkpoint at step 81", 81, 220 * S); /* never ends */
        ASSERT_EQ(checkpoint_steps_since(&c, 81), 41);
        checkpoint_restart(&c);
        checkpoint_resumed(&c, 40);
        take(&c, "Restored checkpoint from /r/40", -1, 300 * S);
        ASSERT_EQ(checkpoint_steps_since(&c, 45), 5);
        checkpoint_resumed(&c, 10); /* from an older one: by what is lost then nobody knows */
        ASSERT_EQ(checkpoint_steps_since(&c, 45), -1);
        take(&c, "saved checkpoint at step 40", 40, 400 * S);
        ASSERT_TRUE(checkpoint_steps_since(&c, 45) == 5 && c.took == 0 && c.path[0] == '\0');
}

/* What the line does not say, and what makes no sense. */
static void steps_of_saves(void) {
        struct checkpoint c = { .at_real = 0 };

        take(&c, "checkpoint saved", 7, S); /* when it began nobody knows */
        ASSERT_TRUE(c.at_real > 0 && c.step == -1 && c.took == 0);
        take(&c, "saving checkpoint", 7, 100 * S);
        take(&c, "checkpoint saved", 9, 103 * S);
        ASSERT_TRUE(c.step == 7 && c.took == 3 * S);
        take(&c, "saved checkpoint to /r/checkpoint-3", 3000, 200 * S); /* an epoch */
        ASSERT_EQ(c.step, -1);
        take(&c, "saved checkpoint to /r/20261129", 3000, 300 * S);
        ASSERT_EQ(c.step, -1);
        take(&c, "saving checkpoint at step 60", 60, 400 * S);
        take(&c, "saved checkpoint at step 50", 60, 410 * S); /* an earlier one ends */
        ASSERT_TRUE(c.step == 50 && c.took == 0);
        take(&c, "saved checkpoint at step 60", 62, 420 * S);
        ASSERT_TRUE(c.step == 60 && c.took == 20 * S);
}

static void hostile(void) {
        static char big[1 << 16];
        static const char nul[] = "saved checkpoint to /a\0b\xff\x1b/40 x";
        struct checkpoint c = { .at_real = 0 };
        struct checkpoint_line l;

        ASSERT_TRUE(checkpoint_line_parse(nul, sizeof(nul) - 1, &l));
        checkpoint_take(&c, nul, sizeof(nul) - 1, -1, 1, 1);
        ASSERT_STREQ(c.path, "/a?b?\?/40");
        ASSERT_EQ(c.step, 40);
        take(&c, "saved checkpoint to s3://key:secret@bucket/41", -1, 2);
        ASSERT_STREQ(c.path, "");
        take(&c, "saved checkpoint to https://x/42?signature=abc", -1, 3);
        ASSERT_STREQ(c.path, "");
        take(&c, "saved checkpoint at step 99999999999999999999999999", -1, 4);
        ASSERT_EQ(c.step, -1);
        for (size_t i = 0; i + 10 <= sizeof(big); i += 10)
                memcpy(big + i, "checkpoint", 10);
        ASSERT_FALSE(checkpoint_line_parse(big, sizeof(big), &l));
        memset(big, 'x', sizeof(big));
        memcpy(big, "saved checkpoint to /", 21);
        ASSERT_TRUE(checkpoint_line_parse(big, sizeof(big), &l) && !l.path); /* without an end */
        ASSERT_TRUE(checkpoint_line_parse(big, 300, &l) && l.path_len == 280);
        checkpoint_take(&c, big, 300, -1, 5, 5);
        ASSERT_STREQ(c.path, ""); /* too long */
        ASSERT_TRUE(checkpoint_line_parse("saved checkpoint", 16, &l));
        ASSERT_FALSE(checkpoint_line_parse("saved checkpoint", 15, &l));
}

TEST_MAIN(known_lines, of_a_run, steps_of_saves, hostile)
