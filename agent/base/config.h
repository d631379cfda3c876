/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ini configuration with drop-ins and origins. For the name "hostd" the files are
 *   the first of /etc, /run and /usr/lib /tpu-hostd/hostd.conf,
 *   then {/usr/lib,/run,/etc}/tpu-hostd/hostd.conf.d/<name>.conf in the order of <name>,
 * where /etc masks /run masks /usr/lib for the same name (an empty file or a link to /dev/null switches it
 * off). --config FILE stands for all of them, and for those of every other program: sections of this project
 * in which the reader has no item are passed over there. Later values win. An unknown key or section, and
 * one that belongs into another file, warns with file and line;
 * a bad value keeps what was there and says so. So does what lies in these folders and is not read: in
 * /etc/tpu-hostd itself what is called like a configuration or begins like one. Read through the host seam.
 */
#include "base.h"
#include "host.h"

#define CONFIG_LINE_MAX 190  /* inih's own limit of a line is 200 bytes; longer lines are refused, not cut */
#define CONFIG_FILE_MAX (256 * 1024)
#define CONFIG_ORIGIN_MAX 128

/* Parses value into dest. Returns 0, or -errno with one line for people in why (e.g. "not a number"). */
typedef int (*config_parse_t)(const char *value, void *dest, char why[static 96]);

struct config_item {
        const char *section, *key; /* key "*": every key of the section, parse gets "key=value" */
        config_parse_t parse;
        void *dest;
        const char *fallback; /* the default as text, parsed first; NULL: dest is left as it is */
        uint64_t least, most; /* of config_parse_u32, u64, usec and bytes; most 0: no bounds */
        /* NULL, or the only values there are, ended by NULL: dest is an unsigned, the number of the word;
         * with config_parse_bool true is the second of two */
        const char *const *words;
        size_t fixed; /* bytes of dest, where only a restart changes it; 0: its reader may read it again */
};
/* The last argument, which may be left out: .fixed = … */
#define CONFIG_ITEM(s, k, p, d, f, ...) \
        { .section = (s), .key = (k), .parse = (p), .dest = (d), .fallback = (f), __VA_ARGS__ }
#define CONFIG_WITHIN(s, k, p, d, f, from, to, ...) \
        CONFIG_ITEM(s, k, p, d, f, .least = (from), .most = (to), __VA_ARGS__)
#define CONFIG_WORD(s, k, p, d, f, w, ...) CONFIG_ITEM(s, k, p, d, f, .words = (w), __VA_ARGS__)

/* Sets item->dest by its parser, bounds and words. -errno with why; dest is as it was. */
int config_item_set(const struct config_item *item, const char *value, char why[static 96]);
int config_parse_u32_within(const char *value, uint32_t least, uint32_t most, uint32_t *dest,
                            char why[static 96]);

/* What an item was last set to, and where: "/etc/tpu-hostd/hostd.conf.d/10-site.conf:3" or "default". */
struct config_origin {
        char where[CONFIG_ORIGIN_MAX];
        char value[CONFIG_LINE_MAX + 1];
};

struct config {
        const struct config_item *items; /* borrowed */
        size_t n_items;
        const char *shared; /* NULL, or the section in which keys that are no item are another program's */
        struct config_origin *origins; /* n_items, made by config_load, freed by config_clear */
        unsigned warnings; /* unknown keys, bad values, files not read: each was logged */
};

/*
 * Loads the defaults, then the files of name (or only file when not NULL). Missing files are no error; a
 * file given by --config that cannot be read is, and so is a shortage (errno_is_shortage()) with any of
 * them: what a file says is not passed over because memory or descriptors are out. Problems in content are
 * logged as warnings and counted.
 */
int config_load(struct config *c, const struct host *h, const char *name, const char *file);

/* Reads one ini text with line numbers (profiles use it). Lines that cannot be read go to problem, and
 * reading goes on. */
struct config_reader {
        void (*entry)(void *userdata, unsigned line, const char *section, const char *key,
                      const char *value);
        void (*problem)(void *userdata, unsigned line, const char *text);
        void *userdata;
};
int config_read_text(const struct config_reader *r, const char *text, size_t len);

/* Prints what is in force for --show-config: "[section]", "key = value" as it was written, and "# from
 * ORIGIN". */
int config_show(const struct config *c, FILE *out);
void config_clear(struct config *c);

/* Parsers for common types: dest is what the name says. */
int config_parse_string63(const char *value, void *dest /* char[64] */, char why[static 96]);
int config_parse_string255(const char *value, void *dest /* char[256] */, char why[static 96]);
int config_parse_bool(const char *value, void *dest /* bool */, char why[static 96]);
int config_parse_u32(const char *value, void *dest /* uint32_t */, char why[static 96]);
int config_parse_u64(const char *value, void *dest /* uint64_t */, char why[static 96]);
int config_parse_usec(const char *value, void *dest /* usec_t; "250ms", "10s", "2min", "1h" */,
                      char why[static 96]);
int config_parse_bytes(const char *value, void *dest /* uint64_t; "64K", "256M", "1G" */,
                       char why[static 96]);
/* All char[256], where empty is allowed: an http:// or https:// URL without user and password; up to
 * CONFIG_URLS_MAX of them with CONFIG_BETWEEN between; an absolute path. */
#define CONFIG_URLS_MAX 4
#define CONFIG_BETWEEN ", \t"
int config_parse_url(const char *value, void *dest, char why[static 96]);
int config_parse_urls(const char *value, void *dest, char why[static 96]);
/* Words with blanks or what else stands in between, up to most, each as one() takes it. -E2BIG, as one(). */
int config_parse_words(const char *value, const char *between, size_t most,
                       int (*one)(const char *word, char why[static 96]), char dest[static 256],
                       char why[static 96]);
int config_parse_path(const char *value, void *dest, char why[static 96]);
/* char[64], not empty: a part of a key or file name, of letters, digits, '-' and '_'. */
int config_parse_name63(const char *value, void *dest, char why[static 96]);
