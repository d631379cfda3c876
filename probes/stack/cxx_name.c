/* SPDX-License-Identifier: Apache-2.0 */
#include "cxx_name.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>

#define FULL_NAME_MAX 16384u /* with template arguments */

/* --- The full name ------------------------------------------------------------------------------------- */

struct full_name {
        char text[FULL_NAME_MAX];
        size_t n;
        jmp_buf too_long;
};

static void add_piece(const char *piece, size_t n, void *userdata) {
        struct full_name *f = userdata;

        if (n >= sizeof(f->text) - f->n)
                longjmp(f->too_long, 1);
        memcpy(f->text + f->n, piece, n);
        f->n += n;
}

/*
 * A symbol of 200 bytes can say "twice that" so often that its name is never printed to its end, and
 * libiberty prints on, whatever its caller has room for: so its callback leaves it. It has allocated nothing
 * then, and holds nothing.
 */
static int demangle(const char *symbol, struct full_name *f) {
        f->n = 0;
        if (setjmp(f->too_long))
                return -E2BIG;
        if (!cplus_demangle_v3_callback(symbol, DMGL_NO_OPTS, add_piece, f))
                return -EINVAL;
        f->text[f->n] = '\0';
        return 0;
}

/* --- What people call it ------------------------------------------------------------------------------- */

/* The length of "operator<<" behind this letter, when it has brackets that open no group; 0: it is none. */
static size_t operator_length(char before, const char *at) {
        static const char *const signs[] = { "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=",
                                             "->",  "()",  "[]",  "<",   ">" };
        const size_t n = strlen("operator");

        if (isalnum((unsigned char) before) || before == '_' || !startswith(at, "operator"))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(signs); i++)
                if (startswith(at + n, signs[i]))
                        return n + strlen(signs[i]);
        return 0;
}

/* Behind the template arguments or parameters that begin here. NULL: they do not end. */
static const char *skip_group(const char *at) {
        char open = *at++, close = open == '<' ? '>' : ')';
        unsigned depth = 1, parentheses = 0; /* those within template arguments: "(a > b)" */

        while (*at && depth > 0) {
                size_t n = operator_length(at[-1], at);

                if (n == 0 && open == '<' && *at == '(')
                        parentheses++;
                else if (n == 0 && parentheses > 0)
                        parentheses -= *at == ')';
                else if (n == 0 && *at == open)
                        depth++;
                else if (n == 0 && *at == close)
                        depth--;
                at += MAX(n, (size_t) 1);
        }
        return depth == 0 ? at : NULL;
}

struct short_name {
        char *start, *to, *end;
};

static int put_piece(struct short_name *s, const char *text, size_t n) {
        if ((size_t) (s->end - s->to) <= n)
                return -E2BIG;
        memcpy(s->to, text, n);
        s->to += n;
        return 0;
}

/* One step through the full name; *at is NULL where the short one ends. */
static int shorten_step(struct short_name *s, const char **at) {
        static const char anonymous[] = "(anonymous namespace)";
        const char *here = *at;
        size_t n = operator_length(s->to > s->start ? s->to[-1] : ' ', here);

        if (n == 0 && startswith(here, anonymous))
                n = strlen(anonymous);
        if (n > 0 || !strchr("<([{", *here) || startswith(here, "[]")) {
                n = MAX(n, (size_t) 1);
                *at += n;
                return put_piece(s, here, n);
        }
        if (*here == '[') { /* "[abi:cxx11]" */
                *at += strcspn(here, "]");
                *at += **at == ']';
                return 0;
        }
        if (*here == '{') { /* "{lambda(int)#1}", "{unnamed type#1}" */
                n = strcspn(here, "( #}");
                *at += strcspn(here, "}");
                return **at != '}' ? -EINVAL : put_piece(s, here, n) < 0 ? -E2BIG : put_piece(s, (*at)++, 1);
        }
        *at = skip_group(here);
        if (!*at)
                return -EINVAL;
        if (*here == '<')
                return 0;
        here = strstr(*at, "::") ? "::{…}" : ""; /* what follows the parameters is inside of it */
        *at = NULL;
        return put_piece(s, here, strlen(here));
}

int cxx_name(const char *symbol, char buf[static CXX_NAME_MAX]) {
        struct short_name s = { .start = buf, .to = buf, .end = buf + CXX_NAME_MAX };
        struct full_name full;
        const char *at, *thunk;
        int r;

        if (!startswith(symbol, "_Z") || strnlen(symbol, CXX_SYMBOL_MAX) == CXX_SYMBOL_MAX)
                return -EINVAL;
        r = demangle(symbol, &full);
        if (r < 0)
                return r;
        thunk = strstr(full.text, " thunk to ");
        at = thunk ? thunk + strlen(" thunk to ") : full.text;
        while (r == 0 && at && *at)
                r = shorten_step(&s, &at);
        if (r < 0)
                return r;
        while (s.to > buf && isspace((unsigned char) s.to[-1])) /* "operator< <int>" */
                s.to--;
        *s.to = '\0';
        return s.to > buf ? 0 : -EINVAL;
}
