/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include "rhythm.h"
#include "steps.h"
#include "utf8.h"

/* --- Where it is --------------------------------------------------------------------------------------- */

#define BLANKS " \t\r\n"

static bool is_one_of(char c, const char *set) {
        return c != '\0' && strchr(set, c);
}

/* Behind "checkpoint" as a word of its own, which no name of a source file is; NULL: there is none. */
static const char *behind_checkpoint(const char *line, size_t len) {
        const char *end = line + len, *p = line;

        while ((p = memmem(p, (size_t) (end - p), "heckpoint", 9))) {
                bool begins = p == line + 1 || (p > line && is_one_of(p[-2], " \t\"'("));

                p += 9;
                if (begins && (p == end || is_one_of(*p, " \t:\n")))
                        return p;
        }
        return NULL;
}

/* to: the word before it was "to". */
static bool is_place(const char *s, const char *e, bool to) {
        size_t len = (size_t) (e - s);

        if (len < 2 || !memchr(s, '/', len))
                return false;
        return *s == '/' || (*s == '.' && is_one_of(s[1], "./")) || *s == '~' || memmem(s, len, "://", 3) ||
               (to && !is_digit(*s));
}

/* Without what stands around it, and without the name in "directory=/x". */
static void trim_token(const char **s, const char **e) {
        const char *equals = memchr(*s, '=', (size_t) (*e - *s));

        if (equals && !memchr(*s, '/', (size_t) (equals - *s)))
                *s = equals + 1;
        while (*s < *e && is_one_of(**s, "([{'\"`:"))
                ++*s;
        while (*s < *e && is_one_of((*e)[-1], ".,;:)]}'\"`"))
                --*e;
}

/* cut: the line goes on behind len. A place that has no end here would be another one. */
static void find_path(const char *line, size_t len, bool cut, struct checkpoint_line *ret) {
        const char *p = behind_checkpoint(line, len), *end = line + len, *s, *e;
        bool to = false;

        for (; p && p < end; p = e) {
                for (s = p; s < end && is_one_of(*s, BLANKS);)
                        s++;
                for (e = s; e < end && !is_one_of(*e, BLANKS);)
                        e++;
                p = e;
                if (s == e || (cut && e == end) ||
                    (is_one_of(*s, "`'\"") && !memchr(s + 1, *s, (size_t) (e - s - 1))))
                        return;
                trim_token(&s, &p);
                if (is_place(s, p, to)) {
                        ret->path = s;
                        ret->path_len = (size_t) (p - s);
                        return;
                }
                to = p - s == 2 && memcmp(s, "to", 2) == 0;
        }
}

/* --- What it says -------------------------------------------------------------------------------------- */

/*
 * A line in lower case with one blank around each word, without its path. What is no letter, digit or '_'
 * parts words, but for the '.' of a number; the ',' in one is dropped.
 */
struct words {
        char text[PAUSE_LINE_MAX + 2];
        size_t len;
};

static void put_letter(struct words *w, char c) {
        if (c != ' ' || w->text[w->len - 1] != ' ')
                w->text[w->len++] = c;
}

static void take_words(const char *line, size_t len, const struct checkpoint_line *c, struct words *w) {
        w->text[0] = ' ';
        w->len = 1;
        for (size_t i = 0; i < len; i++) {
                char at = line[i] >= 'A' && line[i] <= 'Z' ? (char) (line[i] | 0x20) : line[i];
                bool in_number = i > 0 && is_digit(line[i - 1]) && i + 1 < len && is_digit(line[i + 1]);

                if (c->path && line + i >= c->path && line + i < c->path + c->path_len)
                        put_letter(w, ' ');
                else if ((at >= 'a' && at <= 'z') || is_digit(at) || at == '_' || (at == '.' && in_number))
                        put_letter(w, at);
                else if (at != ',' || !in_number)
                        put_letter(w, ' ');
        }
        put_letter(w, ' ');
}

static bool has_one_of(const struct words *w, const char *const *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (memmem(w->text, w->len, list[i], strlen(list[i])))
                        return true;
        return false;
}

static enum checkpoint_sign sign_of(const struct words *w) {
        static const char *const failed[] = { " fail", " error", " exception", " abort", " cannot ",
                                              " could not ", " unable " };
        static const char *const saving[] = { " sav", " writ" };
        static const char *const background[] = { " asynchronous checkpoint save ",
                                                  " async checkpoint save " };
        /* one that is there, a part of one, or none; DeepSpeed's "zero checkpoint saved" is a rank's part */
        static const char *const other[] = { " restor", " resum", " loaded ", " loading ", " load ",
                                             " delet", " remov", " found ", " not ", " never ", " no ",
                                             " will ", " the saved checkpoint", " from saved",
                                             " from a saved", " last saved", " latest saved",
                                             " zero checkpoint" };
        enum pause_kind kind = PAUSE_NONE;
        enum pause_sign sign = pause_sign_of(w->text, w->len, &kind);

        if (has_one_of(w, failed, ELEMENTSOF(failed)) && has_one_of(w, saving, ELEMENTSOF(saving)))
                return CHECKPOINT_FAILS;
        if (has_one_of(w, other, ELEMENTSOF(other)))
                return CHECKPOINT_SIGN_NONE;
        if (has_one_of(w, background, ELEMENTSOF(background)))
                return CHECKPOINT_BEGINS;
        if (kind != PAUSE_CHECKPOINT)
                return CHECKPOINT_SIGN_NONE;
        return sign == PAUSE_ENDS ? CHECKPOINT_WHOLE : CHECKPOINT_BEGINS;
}

/* Digits and then one of those ends; -1: they are none. */
static int64_t take_number(const char *p, const char *end, const char *ends) {
        const char *start = p;
        uint64_t n = 0;

        for (; p < end && is_digit(*p) && n <= STEP_MAX; p++)
                n = n * 10 + (uint64_t) (*p - '0');
        if (p == start || n > STEP_MAX || (p < end && !is_one_of(*p, ends)))
                return -1;
        return (int64_t) n;
}

static int64_t step_of_words(const struct words *w) {
        static const char *const names[] = { " step ", " iteration ", " iter ", " global_step " };
        const char *end = w->text + w->len;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (const char *p = w->text;
                     (p = memmem(p, (size_t) (end - p), names[i], strlen(names[i])));) {
                        int64_t step;

                        p += strlen(names[i]) - 1; /* its blank may begin the next name */
                        step = take_number(p + 1, end, " ");
                        if (step >= 0)
                                return step;
                }
        return -1;
}

/* "…/2000", "…/checkpoint-500/", "…/iter_0000845", "…/step_40.pt"; of another name it may mean anything. */
static int64_t step_of_path(const char *path, size_t len) {
        static const char *const names[] = { "", "checkpoint", "ckpt", "step", "global_step", "iter",
                                             "iteration" };
        const char *end = path + len, *name, *digits;
        size_t n;

        while (end > path && end[-1] == '/')
                end--;
        name = memrchr(path, '/', (size_t) (end - path));
        name = name ? name + 1 : path;
        for (digits = name; digits < end && !is_digit(*digits);)
                digits++;
        for (n = (size_t) (digits - name); n > 0 && is_one_of(name[n - 1], "-_=");)
                n--;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strlen(names[i]) == n && strncasecmp(name, names[i], n) == 0)
                        return take_number(digits, end, ".");
        return -1;
}

bool checkpoint_line_parse(const char *line, size_t len, struct checkpoint_line *ret) {
        size_t looked = MIN(len, (size_t) PAUSE_LINE_MAX);
        struct checkpoint_line c = { .step = -1 };
        struct words w;

        if (looked == 0 || !memmem(line, looked, "heckpoint", 9)) /* most lines */
                return false;
        find_path(line, looked, looked < len, &c);
        take_words(line, looked, &c, &w);
        c.sign = sign_of(&w);
        if (c.sign == CHECKPOINT_SIGN_NONE)
                return false;
        c.step = step_of_words(&w);
        if (c.step < 0 && c.path)
                c.step = step_of_path(c.path, c.path_len);
        *ret = c;
        return true;
}

/* --- The last one -------------------------------------------------------------------------------------- */

#define SAME_SAVE (60 * USEC_PER_SEC) /* each process of a run may tell of it, and Orbax below MaxText */

/* A number that is far from the steps that the log tells is none of them: an epoch, a day. */
static int64_t step_near(int64_t step, int64_t seen) {
        return seen < 0 || (step <= 2 * seen + 1000 && 2 * step + 100 >= seen) ? step : -1;
}

static bool is_told(const struct checkpoint *c, const struct checkpoint_line *l, usec_t at_real) {
        return c->at_real > 0 && l->step >= 0 && l->step == c->step && at_real < c->at_real + SAME_SAVE;
}

static void keep_path(struct checkpoint *c, const struct checkpoint_line *l) {
        if (!l->path || l->path_len > CHECKPOINT_PATH_MAX ||
            (memmem(l->path, l->path_len, "://", 3) &&
             (memchr(l->path, '@', l->path_len) || memchr(l->path, '?', l->path_len))))
                return;
        memcpy(c->path, l->path, l->path_len);
        c->path[l->path_len] = '\0';
        (void) utf8_scrub(c->path, l->path_len); /* how much of it was mended does not matter */
}

static void take_begin(struct checkpoint *c, const struct checkpoint_line *l, int64_t seen, usec_t at) {
        if (c->begun_at > 0 && l->step >= 0 && l->step == c->begun_step)
                return; /* another process of the run */
        c->begun_at = at;
        c->begun_step = l->step;
        c->begun_seen = seen;
}

static void take_whole(struct checkpoint *c, const struct checkpoint_line *l, int64_t seen, usec_t at,
                       usec_t at_real) {
        bool begun = c->begun_at > 0 && (l->step < 0 || c->begun_step < 0 || l->step == c->begun_step);
        int64_t step = l->step >= 0 ? l->step : begun ? c->begun_step : -1;

        if (step >= 0)
                step = step_near(step, begun ? c->begun_seen : seen);
        c->step = step < 0 && begun ? c->begun_seen : step;
        c->took = begun && at > c->begun_at ? at - c->begun_at : 0;
        c->at_real = at_real;
        c->went_back = false;
        c->path[0] = '\0';
        keep_path(c, l);
        if (begun)
                c->begun_at = 0;
}

void checkpoint_take(struct checkpoint *c, const char *line, size_t len, int64_t seen, usec_t at,
                     usec_t at_real) {
        struct checkpoint_line l;

        if (!checkpoint_line_parse(line, len, &l))
                return;
        if (l.sign == CHECKPOINT_FAILS)
                c->begun_at = 0;
        else if (is_told(c, &l, at_real)) {
                if (c->path[0] == '\0')
                        keep_path(c, &l);
        } else if (l.sign == CHECKPOINT_BEGINS)
                take_begin(c, &l, seen, at);
        else
                take_whole(c, &l, seen, at, at_real);
}

void checkpoint_resumed(struct checkpoint *c, uint64_t step) {
        /* some programs number a checkpoint by its last step, some by the next one */
        c->went_back = c->went_back || (c->step > 0 && step + 1 < (uint64_t) c->step);
}

void checkpoint_restart(struct checkpoint *c) {
        c->begun_at = 0;
}

int64_t checkpoint_steps_since(const struct checkpoint *c, int64_t seen) {
        if (c->at_real == 0 || c->step < 0 || seen < 0 || c->went_back)
                return -1;
        return MAX(seen - c->step, (int64_t) 0); /* a step may be reported after its checkpoint */
}
