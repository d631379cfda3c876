/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <strings.h>

#include "saving.h"

/* Parts of files whose code writes checkpoints, and which of its functions; function NULL: all of them. */
static const struct {
        const char *file, *function;
} savers[] = {
        { "torch/serialization.py", "save" }, /* torch.save and what it is made of */
        { "torch/serialization.py", "_save" },
        { "torch/serialization.py", "_legacy_save" },
        { "torch/distributed/checkpoint/", NULL }, /* torch.distributed.checkpoint */
        { "orbax/checkpoint/", NULL },             /* Orbax, which MaxText saves with */
        { "flax/training/checkpoints.py", NULL },
        { "safetensors/torch.py", "save_file" },
        { "numpy/lib/npyio.py", "save" }, /* numpy before 2.0; since: numpy/lib/_npyio_impl.py */
        { "numpy/lib/npyio.py", "_savez" },
        { "numpy/lib/_npyio_impl.py", "save" },
        { "numpy/lib/_npyio_impl.py", "_savez" },
        { "/pickle.py", "dump" }, /* CPython's library */
        { "/shutil.py", "copyfileobj" },
        { "/shutil.py", "copyfile" },
};

/* Linux: they write to a file, or wait until it is written. What goes to sockets has calls of its own, mostly. */
static const char *const calls[] = {
        "write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync", "sync_file_range", "copy_file_range", "sendfile",
};

bool function_saves(const char *name) {
        static const char *const words[] = { "save", "saving", "write", "writing", "dump" };

        for (const char *p = name; *p; p++) {
                bool begins = p == name || !isalnum((unsigned char) p[-1]) ||
                              (isupper((unsigned char) *p) && islower((unsigned char) p[-1]));

                for (size_t i = 0; begins && i < ELEMENTSOF(words); i++) {
                        size_t n = strlen(words[i]);

                        if (strncasecmp(p, words[i], n) == 0 && !islower((unsigned char) p[n]))
                                return true;
                }
        }
        return false;
}

static const char *last_part(const char *function) {
        const char *dot = strrchr(function, '.');

        return dot ? dot + 1 : function;
}

static bool frame_saves(const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file), *function = last_part(stack_table_text(t, f->function));

        if (f->kind != FRAME_PYTHON)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(savers); i++)
                if (strstr(file, savers[i].file) && (!savers[i].function || streq(function, savers[i].function)))
                        return true;
        return !frame_is_library(t, f) && function_saves(function);
}

bool rank_saves(const struct evidence *e, const struct rank *r) {
        const struct captured_thread *thread = r->thread[1] ? r->thread[1] : r->thread[0];
        const struct stack_table *t = &e->scene->table;

        if (!thread || r->place.standing == STANDING_COLLECTIVE || r->place.standing == STANDING_STOPPED)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (streq(stack_table_text(t, thread->syscall), calls[i]))
                        return true;
        for (uint32_t i = 0; thread->stack != STACK_NONE && i < t->stacks[thread->stack].n; i++)
                if (frame_saves(t, &t->frames[stack_table_frames(t, thread->stack)[i]]))
                        return true;
        return false;
}
