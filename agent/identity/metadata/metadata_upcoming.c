/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_upcoming.h"

#include <ctype.h>
#include <jansson.h>

#define WORD_MAX 40

/* "window_start_time" is "windowStartTime". */
static bool is_key(const char *found, const char *wanted) {
        for (; *found || *wanted; wanted++) {
                found += strspn(found, "_");
                if (tolower((unsigned char) *found) != *wanted)
                        return false;
                found += *found != '\0';
        }
        return true;
}

/* "" when it is not there, or no word. */
static void take(const json_t *o, const char *key, char word[static WORD_MAX]) {
        const char *name, *text;
        json_t *v;

        word[0] = '\0';
        json_object_foreach((json_t *) (uintptr_t) o, name, v) {
                text = json_string_value(v);
                if (!is_key(name, key) || !text)
                        continue;
                (void) snprintf(word, WORD_MAX, "%s", text);
                for (char *p = word; *p; p++)
                        if (*p < ' ' || *p > '~')
                                *p = '?';
        }
}

bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]) {
        char start[WORD_MAX], end[WORD_MAX], latest[WORD_MAX], type[WORD_MAX], status[WORD_MAX], move[WORD_MAX];
        json_t *o = json_loads(value, 0, NULL);

        take(o, "windowstarttime", start);
        take(o, "windowendtime", end);
        take(o, "latestwindowstarttime", latest);
        take(o, "type", type);
        if (!type[0])
                take(o, "maintenancetype", type);
        take(o, "maintenancestatus", status);
        take(o, "canreschedule", move);
        json_decref(o);
        if (!start[0])
                return false;
        (void) snprintf(text, METADATA_UPCOMING_MAX, "%s%s%s%s%s%s%s%s%s%s", type, type[0] ? ", " : "", status,
                        status[0] ? ", " : "", start, end[0] ? " to " : "", end, latest[0] ? ", at the latest from " : "", latest,
                        strcasecmp(move, "true") == 0 ? ", can be rescheduled" : "");
        return true;
}
