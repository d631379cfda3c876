/* SPDX-License-Identifier: Apache-2.0 */
#include "name_list.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "grow.h"
#include "io.h"
#include "texts.h"
#include "tls_files.h"

struct entry {
        const char *name, *value; /* in the text of its file */
};

struct name_file {
        char path[TLS_PATH_MAX], *text;
        struct file_stamp stamp;
        struct entry *entries; /* sorted by name; those with a star are behind them */
        size_t n, stars, size;
};

struct name_list {
        char *words; /* without the files */
        size_t n_files;
        struct name_file files[NAME_LIST_FILES_MAX];
};

bool tls_allows(const char *allow, const char *name) {
        while (*allow) {
                size_t n = strcspn(allow, " ");

                if (n > 0 && allow[n - 1] == '*' && strncmp(allow, name, n - 1) == 0)
                        return true;
                if (n > 0 && strlen(name) == n && memcmp(allow, name, n) == 0)
                        return true;
                allow += n + (allow[n] == ' ');
        }
        return false;
}

bool tls_name_is_plain(const char *name, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (name[i] <= ' ' || name[i] > '~')
                        return false;
        return size > 0;
}

static void name_file_clear(struct name_file *f) {
        free(f->text);
        free(f->entries);
        f->text = NULL;
        f->entries = NULL;
        f->n = f->stars = f->size = 0;
}

/* --- One file ------------------------------------------------------------------------------------------ */

static bool has_star(const char *name) {
        return name[strlen(name) - 1] == '*';
}

static int by_name(const void *a, const void *b) {
        const struct entry *x = a, *y = b;
        int stars = has_star(x->name) - has_star(y->name);

        return stars ?: strcmp(x->name, y->name);
}

static int refuse_line(const struct name_file *f, unsigned line, const char *what,
                       char why[static NAME_LIST_WHY_MAX]) {
        return text_fail(why, NAME_LIST_WHY_MAX, -EBADMSG, "%s:%u: %s", f->path, line, what);
}

/* Cuts the line into its words. 0: there is none. */
static int parse_line(const struct name_file *f, unsigned number, char *line, struct entry *ret,
                      char why[static NAME_LIST_WHY_MAX]) {
        static const char blanks[] = " \t\r";
        char *rest = NULL, *name, *value, *more;

        if (strlen(line) > NAME_LIST_LINE_MAX)
                return refuse_line(f, number, "the line has more than 512 bytes", why);
        line += strspn(line, blanks);
        if (*line == '#')
                return 0;
        name = strtok_r(line, blanks, &rest);
        value = name ? strtok_r(NULL, blanks, &rest) : NULL;
        more = value ? strtok_r(NULL, blanks, &rest) : NULL;
        if (!name)
                return 0;
        if (more && *more != '#')
                return refuse_line(f, number, "the line has more than two words", why);
        if (!tls_name_is_plain(name, strlen(name)))
                return refuse_line(f, number, "the name is not of printable ASCII", why);
        *ret = (struct entry){ .name = name, .value = value && *value != '#' ? value : "" };
        return 1;
}

static int parse_text(struct name_file *f, char *text, char why[static NAME_LIST_WHY_MAX]) {
        unsigned number = 0;

        for (char *next = text, *line; (line = strsep(&next, "\n"));) {
                struct entry e;
                int r = parse_line(f, ++number, line, &e, why);

                if (r > 0 && grow(&f->entries, &f->size, f->n + 1, sizeof(e)) < 0) {
                        (void) refuse_line(f, number, "out of memory", why);
                        return -ENOMEM;
                }
                if (r < 0)
                        return r;
                if (r > 0) {
                        f->stars += has_star(e.name);
                        f->entries[f->n++] = e;
                }
        }
        if (f->n > 0)
                qsort(f->entries, f->n, sizeof(f->entries[0]), by_name);
        f->n -= f->stars;
        return 0;
}

static int read_text(const struct name_file *f, char **ret, char why[static NAME_LIST_WHY_MAX]) {
        _cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        const char *what = NULL;
        struct stat st;
        size_t len;
        int r = 0;

        if (fd < 0 || fstat(fd, &st) < 0)
                r = -errno;
        else if (!S_ISREG(st.st_mode) || st.st_size > NAME_LIST_FILE_MAX)
                what = "not a regular file of at most 64 MiB";
        else if ((r = io_read_whole(fd, NAME_LIST_FILE_MAX, ret, &len)) == 0 && strlen(*ret) != len)
                what = "it holds a NUL: no text";
        if (r < 0)
                return text_fail(why, NAME_LIST_WHY_MAX, r, "%s: %s", f->path, strerror(-r));
        return what ? text_fail(why, NAME_LIST_WHY_MAX, -EBADMSG, "%s: %s", f->path, what) : 0;
}

static int name_file_read(struct name_file *f, char why[static NAME_LIST_WHY_MAX]) {
        struct name_file now = { .stamp = f->stamp };
        int r;

        memcpy(now.path, f->path, sizeof(now.path));
        r = read_text(f, &now.text, why);
        if (r >= 0)
                r = parse_text(&now, now.text, why);
        if (r < 0) {
                name_file_clear(&now);
                return r;
        }
        name_file_clear(f);
        *f = now;
        return 0;
}

static int compare_name(const void *name, const void *entry) {
        return strcmp(name, ((const struct entry *) entry)->name);
}

static const char *name_file_find(const struct name_file *f, const char *name) {
        const struct entry *e = f->n > 0 ? bsearch(name, f->entries, f->n, sizeof(*e), compare_name) : NULL;

        if (e)
                return e->value;
        for (size_t i = f->n; i < f->n + f->stars; i++)
                if (strncmp(f->entries[i].name, name, strlen(f->entries[i].name) - 1) == 0)
                        return f->entries[i].value;
        return NULL;
}

/* --- The list ------------------------------------------------------------------------------------------ */

bool name_list_look(struct name_list *l, char why[static NAME_LIST_WHY_MAX]) {
        bool changed = false;

        why[0] = '\0';
        for (size_t i = 0; l && i < l->n_files; i++) {
                const char *const path[] = { l->files[i].path };

                if (!file_stamps_changed(path, &l->files[i].stamp, 1))
                        continue;
                changed = true;
                /* why says it, and the old entries stay. What is out for the moment is no word about the
                 * file: one whose name was taken off would stay on the list until the next change. */
                if (errno_is_shortage(name_file_read(&l->files[i], why)))
                        l->files[i].stamp = (struct file_stamp){ .error = -1 };
        }
        return changed;
}

const char *name_list_find(const struct name_list *l, const char *name) {
        const char *value = l && tls_allows(l->words, name) ? "" : NULL;

        for (size_t i = 0; l && !value && i < l->n_files; i++)
                value = name_file_find(&l->files[i], name);
        return value;
}

bool name_list_is_empty(const struct name_list *l) {
        return !l || (l->n_files == 0 && l->words[strspn(l->words, " ")] == '\0');
}

int name_list_new(const char *words, struct name_list **ret) {
        _cleanup_(name_list_freep) struct name_list *l = calloc(1, sizeof(*l));

        if (!l || !(l->words = strdup(words)))
                return -ENOMEM;
        for (char *w = l->words; *(w += strspn(w, " "));) {
                size_t n = strcspn(w, " ");

                if (*w == '/') {
                        if (l->n_files == NAME_LIST_FILES_MAX || n >= TLS_PATH_MAX)
                                return -E2BIG;
                        memcpy(l->files[l->n_files++].path, w, n);
                        memset(w, ' ', n);
                }
                w += n;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int name_list_new_among(char *words,
                        int (*take)(void *userdata, char *word, char why[static NAME_LIST_WHY_MAX]),
                        void *userdata, struct name_list **ret, char why[static NAME_LIST_WHY_MAX]) {
        char files[1024] = "", *rest = NULL;
        int r;

        (void) snprintf(why, NAME_LIST_WHY_MAX, "out of memory, or a list that is too long");
        if (strlen(words) >= sizeof(files) - 1)
                return -E2BIG;
        for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
                if (*w == '/') {
                        text_append(files, sizeof(files), "", "%s ", w);
                        continue;
                }
                r = take(userdata, w, why);
                if (r < 0)
                        return r;
        }
        r = name_list_new(files, ret);
        if (r == 0)
                why[0] = '\0';
        return r;
}

struct name_list *name_list_free(struct name_list *l) {
        if (!l)
                return NULL;
        for (size_t i = 0; i < l->n_files; i++)
                name_file_clear(&l->files[i]);
        free(l->words);
        free(l);
        return NULL;
}
