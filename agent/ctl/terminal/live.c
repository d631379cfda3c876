/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>

#define EVERY_MS 2000
/* The other screen, no cursor, long lines are cut; and back. */
#define TAKE "\033[?1049h\033[?25l\033[?7l"
#define GIVE "\033[?7h\033[?25h\033[?1049l"
#define AGAIN "\033[H\033[J"

/* What a signal handler needs. */
static struct termios before;
static bool changed;

/* Async-signal-safe. */
static void give_back(void) {
        /* a terminal that is gone needs nothing */
        (void) !write(STDOUT_FILENO, GIVE, strlen(GIVE));
        if (changed)
                (void) tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_end(int number) {
        give_back();
        _exit(number == SIGINT ? 0 : 128 + number);
}

static void on_resize(int number) {
        (void) number; /* ends poll(): that is all */
}

static void take_keys(void) {
        struct termios raw;

        changed = tcgetattr(STDIN_FILENO, &before) == 0;
        raw = before;
        raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        changed = changed && tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

/* True: q was typed, or nobody can type any more. */
static bool wait_for_end(void) {
        struct pollfd keys = { .fd = changed ? STDIN_FILENO : -1, .events = POLLIN };
        char key = 'q';

        if (poll(&keys, 1, EVERY_MS) <= 0)
                return false;
        return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
}

static int show_on_terminal(int (*draw)(void *userdata), void *userdata) {
        const struct sigaction end = { .sa_handler = on_end }, resize = { .sa_handler = on_resize };
        int code;

        /* One write a picture, and complaints below it. */
        (void) setvbuf(stdout, NULL, _IOFBF, 65536);
        (void) setvbuf(stderr, NULL, _IOFBF, 4096);
        take_keys();
        /* none of these can fail with these numbers */
        (void) sigaction(SIGINT, &end, NULL);
        (void) sigaction(SIGTERM, &end, NULL);
        (void) sigaction(SIGHUP, &end, NULL);
        (void) sigaction(SIGWINCH, &resize, NULL);
        fputs(TAKE, stdout);
        do {
                fputs(AGAIN, stdout);
                code = draw(userdata);
                (void) fflush(stdout); /* as above, the terminal may be gone: then poll() ends it */
                (void) fflush(stderr);
        } while (!wait_for_end());
        give_back();
        return code;
}

int live_show(int (*draw)(void *userdata), void *userdata) {
        if (isatty(STDOUT_FILENO))
                return show_on_terminal(draw, userdata);
        for (;;) {
                int code = draw(userdata);

                if (fflush(stdout) == EOF)
                        return code;
                (void) usleep(EVERY_MS * USEC_PER_MSEC);
        }
}

size_t live_lines(void) {
        struct winsize size;

        if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0)
                return SIZE_MAX;
        return size.ws_row;
}
