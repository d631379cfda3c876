/* SPDX-License-Identifier: Apache-2.0 */
#include "cxx_name.h"

#include <ctype.h>

#define GROUPS_MAX 128u
#define NAME_MAX_BYTES 4096u

struct scan {
        const char *at;
        char *to, *end;
        const char *last; /* where in the output the last name begins: a constructor's */
        size_t last_len;
        int error;
};

static void put(struct scan *s, const char *text, size_t n) {
        if ((size_t) (s->end - s->to) <= n) {
                s->error = -E2BIG;
                return;
        }
        memcpy(s->to, text, n);
        s->to += n;
}

/* A name behind those before it. */
static void put_name(struct scan *s, const char *text, size_t n, const char *start) {
        if (s->to > start)
                put(s, "::", 2);
        s->last = s->to;
        s->last_len = n;
        put(s, text, n);
}

static void skip_digits(struct scan *s) {
        while (isdigit((unsigned char) *s->at))
                s->at++;
}

/* "[0-9A-Z]*_" */
static bool skip_sequence(struct scan *s) {
        while (isdigit((unsigned char) *s->at) || isupper((unsigned char) *s->at))
                s->at++;
        return *s->at == '_' ? (s->at++, true) : false;
}

/* "3foo": the name, and its length; NULL: none. */
static const char *take_source(struct scan *s, size_t *ret) {
        const char *name;
        size_t n = 0;

        while (isdigit((unsigned char) *s->at) && n < NAME_MAX_BYTES)
                n = n * 10 + (size_t) (*s->at++ - '0');
        name = s->at;
        if (n == 0 || strnlen(name, n) < n)
                return NULL;
        s->at += n;
        *ret = n;
        return name;
}

/* "Li5E", "Lb0E", "LN1a1bE3E", "L1e3E": the L is past. What is neither opens a group of its own. */
static bool skip_literal(struct scan *s, bool *ret_group) {
        size_t n;

        *ret_group = false;
        if (isdigit((unsigned char) *s->at) && !take_source(s, &n))
                return false;
        if (*s->at == 'N' || *s->at == '_') {
                s->at += *s->at == '_' ? 2 : 0;
                *ret_group = true;
                return true;
        }
        while (*s->at && *s->at != 'E')
                s->at++;
        return *s->at == 'E' ? (s->at++, true) : false;
}

struct groups {
        char kinds[GROUPS_MAX]; /* what each is closed with: 'E' alone, 'l' a number behind it, 'L' a value */
        size_t n;
};

static bool open_group(struct groups *g, char kind) {
        if (g->n == GROUPS_MAX)
                return false;
        g->kinds[g->n++] = kind;
        return true;
}

static bool close_group(struct scan *s, struct groups *g) {
        char kind = g->kinds[--g->n];

        if (kind == 'l')
                return skip_sequence(s);
        if (kind == 'L') /* the value behind a nested name, and its own end, are the next ones to come */
                skip_digits(s);
        return true;
}

/* What begins with D, U or another letter of which two belong together; the first is past. */
static bool skip_pair(struct scan *s, struct groups *g, char first) {
        char second = *s->at;

        if (!second)
                return false;
        s->at++;
        if (first == 'D' && (second == 't' || second == 'T'))
                return open_group(g, 'E');
        if (first == 'D' && second == 'v')
                return skip_sequence(s);
        if (first == 'U' && second == 'l')
                return open_group(g, 'l');
        if (first == 'U' && second == 't')
                return skip_sequence(s);
        if (first == 'f' && second == 'p')
                return skip_sequence(s);
        if (first == 'f')
                s->at--; /* float */
        return true;
}

/* One step of what stands between I and its E. */
static bool skip_one(struct scan *s, struct groups *g) {
        char c = *s->at;
        bool group;
        size_t n;

        if (isdigit((unsigned char) c))
                return take_source(s, &n);
        s->at += c != '\0';
        switch (c) {
        case '\0':
                return false;
        case 'E':
                return close_group(s, g);
        case 'N':
        case 'I':
        case 'J':
        case 'X':
        case 'F':
        case 'Z':
                return open_group(g, 'E');
        case 'L':
                return skip_literal(s, &group) &&
                       (!group || (open_group(g, 'E') && (*s->at != 'N' || (s->at++, open_group(g, 'L')))));
        case 'S':
                return islower((unsigned char) *s->at) ? (s->at++, true) : skip_sequence(s);
        case 'T':
        case 'A':
                return skip_sequence(s);
        case 'D':
        case 'U':
        case 'f':
                return skip_pair(s, g, c);
        case '_': /* a discriminator */
                skip_digits(s);
                return true;
        }
        return true;
}

/* From an opening letter to what closes it. */
static bool skip_group(struct scan *s) {
        struct groups g = { .n = 0 };

        do {
                if (!skip_one(s, &g))
                        return false;
        } while (g.n > 0);
        return true;
}

static const char *operator_name(const char *code) {
        static const char names[][12] = {
                "nwnew",  "nanew[]", "dldelete", "dadelete[]", "ps+",   "ng-",  "ad&",   "de*",  "co~",  "pl+",
                "mi-",    "ml*",     "dv/",      "rm%",        "an&",   "or|",  "eo^",   "aS=",  "pL+=", "mI-=",
                "mL*=",   "dV/=",    "rM%=",     "aN&=",       "oR|=",  "eO^=", "ls<<",  "rs>>", "lS<<=", "rS>>=",
                "eq==",   "ne!=",    "lt<",      "gt>",        "le<=",  "ge>=", "ss<=>", "nt!",  "aa&&", "oo||",
                "pp++",   "mm--",    "cm,",      "pm->*",      "pt->",  "cl()", "ix[]",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strncmp(names[i], code, 2) == 0)
                        return names[i] + 2;
        return NULL;
}

static bool take_operator(struct scan *s, const char *start) {
        const char *name = operator_name(s->at);
        char text[32];
        int n;

        if (!name)
                return false;
        s->at += 2;
        n = snprintf(text, sizeof(text), "operator%s%s", isalpha((unsigned char) name[0]) ? " " : "", name);
        put_name(s, text, (size_t) n, start);
        return true;
}

/* St, Sa, …: the abbreviations; others would need all that stood before. */
static bool take_standard(struct scan *s, const char *start) {
        static const struct {
                char letter;
                const char *name;
        } known[] = { { 't', "std" },
                      { 'a', "std::allocator" },
                      { 'b', "std::basic_string" },
                      { 's', "std::string" },
                      { 'i', "std::istream" },
                      { 'o', "std::ostream" },
                      { 'd', "std::iostream" } };

        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (s->at[1] == known[i].letter) {
                        const char *last = strrchr(known[i].name, ':');

                        put_name(s, known[i].name, strlen(known[i].name), start);
                        if (last) {
                                s->last = s->to - strlen(last + 1);
                                s->last_len = strlen(last + 1);
                        }
                        s->at += 2;
                        return true;
                }
        return false;
}

static bool take_source_name(struct scan *s, const char *start) {
        size_t n = 0;
        const char *name = take_source(s, &n);

        if (!name)
                return false;
        if (n >= 10 && strncmp(name, "_GLOBAL__N", 10) == 0)
                put_name(s, "(anonymous namespace)", strlen("(anonymous namespace)"), start);
        else
                put_name(s, name, n, start);
        return true;
}

/* C1, D2: the constructor and destructor of the class before. */
static bool take_structor(struct scan *s, const char *start) {
        char name[256];
        size_t n = s->last_len;

        if (!s->last || n >= sizeof(name) || s->at[1] == 't' || s->at[1] == 'T')
                return false;
        memcpy(name, s->last, n);
        put(s, "::", s->to > start ? 2 : 0);
        put(s, "~", s->at[0] == 'D' ? 1 : 0);
        put(s, name, n);
        s->at += s->at[1] == 'I' ? 3 : 2;
        return true;
}

/* One component of a name. */
static bool take_component(struct scan *s, const char *start) {
        size_t n;

        switch (*s->at) {
        case 'S':
                return take_standard(s, start);
        case 'I':
                return skip_group(s);
        case 'C':
        case 'D':
                return isdigit((unsigned char) s->at[1]) || s->at[1] == 'I' ? take_structor(s, start) : false;
        case 'L':
        case 'M':
                s->at++;
                return true;
        case 'B': /* abi tag */
                s->at++;
                return take_source(s, &n);
        case 'U': {
                bool lambda = s->at[1] == 'l';

                if ((!lambda && s->at[1] != 't') || !skip_group(s))
                        return false;
                put_name(s, lambda ? "{lambda}" : "{unnamed}", lambda ? 8 : 9, start);
                return true;
        }
        }
        return isdigit((unsigned char) *s->at) ? take_source_name(s, start) : take_operator(s, start);
}

/* "N…E": nested; else one name, with "St" before it or not. Qualifiers of the function say nothing here. */
static bool take_name(struct scan *s) {
        const char *start = s->to;

        if (*s->at != 'N') {
                bool std = s->at[0] == 'S' && s->at[1] == 't';

                return take_component(s, start) && (!std || take_component(s, start));
        }
        s->at++;
        s->at += strspn(s->at, "rVKRO");
        while (*s->at && *s->at != 'E' && s->error == 0)
                if (!take_component(s, start))
                        return false;
        return *s->at == 'E' && s->to > start;
}

int cxx_name(const char *symbol, char buf[static CXX_NAME_MAX]) {
        struct scan s = { .at = symbol, .to = buf, .end = buf + CXX_NAME_MAX };
        bool local;

        if (!startswith(symbol, "_Z"))
                return -EINVAL;
        s.at += 2;
        if (s.at[0] == 'T' && s.at[1] == 'h') { /* a thunk: "Thn16_" and the function */
                s.at += strcspn(s.at, "_");
                s.at += *s.at == '_';
        }
        local = s.at[0] == 'Z';
        s.at += strspn(s.at, "Z"); /* inside a function inside a function: the outermost says enough */
        if (!take_name(&s))
                return s.error < 0 ? s.error : -EINVAL;
        if (local)
                put(&s, "::{…}", strlen("::{…}"));
        if (s.error < 0)
                return s.error;
        *s.to = '\0';
        return 0;
}
