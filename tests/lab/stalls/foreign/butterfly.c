/* SPDX-License-Identifier: Apache-2.0 */
/* A fit in a compiled program, without Python. Gradients go over a butterfly: with the neighbour over eth0,
 * then with the host two further on over eth1. One thread does all of the wire in an event loop, one makes
 * batches ahead, the main thread does the arithmetic; they hand over behind condition variables. A forked
 * process checks texts in shared memory, asked by semaphores. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/srv/training/"
#define N_SHARDS 4
#define TEXT_MAX 65536
#define BLOCK 4096
#define ROWS 32
#define WIDTH 24
#define AHEAD 2
#define N_SLOPE 12500 /* numbers, of four bytes each */
#define BASE_PORT 7700

uint64_t tokens_scan(const char *text, size_t n, size_t stride);
void tokens_account(size_t n, int reversed);
size_t tokens_shared_size(void);
int tokens_shared_new(void *memory);
int tokens_shared_take(void *memory);
int tokens_shared_release(void *memory);

extern char **environ;

static unsigned rank_here, n_hosts;
static char hosts[8][64];

static void die(const char *what) {
        perror(what);
        exit(1);
}

static double now(clockid_t clock) {
        struct timespec t;

        clock_gettime(clock, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* --- Numbers that may be changed while it runs --------------------------------------------------------- */

static double wish(const char *name, double otherwise) {
        char text[1024], quoted[64], *at;
        FILE *f = fopen(FOLDER "settings.json", "re");
        size_t n = 0;

        if (f) {
                n = fread(text, 1, sizeof text - 1, f);
                fclose(f);
        }
        text[n] = '\0';
        snprintf(quoted, sizeof quoted, "\"%s\":", name);
        at = strstr(text, quoted);
        return at ? strtod(at + strlen(quoted), NULL) : otherwise;
}

/* --- The process that checks --------------------------------------------------------------------------- */

struct desk {
        sem_t asked, answered;
        char tally[64];
        uint64_t count, sum;
        size_t n;
        char text[BLOCK];
};
static struct desk *desk;
static pid_t inspector;

static uint64_t sum_of(const char *text, size_t n) {
        uint64_t sum = 14695981039346656037u;

        for (size_t i = 0; i < n; i++)
                sum = (sum ^ (unsigned char) text[i]) * 1099511628211u;
        return sum;
}

static void count_up(bool keep) {
        tokens_shared_take(desk->tally);
        desk->count++;
        if (!keep)
                tokens_shared_release(desk->tally);
}

static void inspect(void) {
        for (;;) {
                while (sem_wait(&desk->asked) < 0)
                        ;
                count_up(wish("keep_tally", 0) != 0);
                desk->sum = sum_of(desk->text, desk->n);
                sem_post(&desk->answered);
        }
}

static void open_desk(void) {
        desk = mmap(NULL, sizeof *desk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (desk == MAP_FAILED || tokens_shared_size() > sizeof desk->tally)
                die("desk");
        sem_init(&desk->asked, 1, 0);
        sem_init(&desk->answered, 1, 0);
        tokens_shared_new(desk->tally);
        inspector = fork();
        if (inspector == 0)
                inspect();
}

static void confirm(const char *text, size_t n) {
        desk->n = n < BLOCK ? n : BLOCK;
        memcpy(desk->text, text, desk->n);
        sem_post(&desk->asked);
        while (sem_wait(&desk->answered) < 0)
                ;
        if (desk->sum != sum_of(text, desk->n))
                die("the text is damaged");
}

/* --- Errands of the thread that makes batches ---------------------------------------------------------- */

static void note(unsigned number) {
        int fd = open("/srv/data/journal", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        if (fd < 0 || flock(fd, LOCK_EX) < 0)
                die("journal");
        dprintf(fd, "%u\n", number);
        close(fd);
}

static void find(const char *name) {
        struct addrinfo hints = {.ai_family = AF_INET}, *found;

        if (!name)
                return;
        while (getaddrinfo(name, NULL, &hints, &found) != 0)
                usleep(100000);
        freeaddrinfo(found);
}

static int reach(const char *address, unsigned port) {
        struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
        char service[8];
        int fd;

        snprintf(service, sizeof service, "%u", port);
        for (;; usleep(200000)) {
                if (getaddrinfo(address, service, &hints, &found) != 0)
                        continue;
                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
                        freeaddrinfo(found);
                        return fd;
                }
                freeaddrinfo(found);
                close(fd);
        }
}

static void fetch_block(const char *place, uint32_t number) {
        static int fd = -1;
        char block[BLOCK], address[64];
        unsigned port;

        if (!place || sscanf(place, "%63[^:]:%u", address, &port) != 2)
                return;
        if (fd < 0)
                fd = reach(address, port);
        if (send(fd, &number, 4, 0) != 4)
                die("storage");
        for (size_t have = 0; have < BLOCK;) {
                ssize_t n = recv(fd, block + have, BLOCK - have, 0);

                if (n <= 0)
                        die("storage");
                have += (size_t) n;
        }
}

static void call_tool(void) {
        char *const words[] = {"sh", "/srv/data/tool.sh", NULL};
        pid_t pid;
        int status;

        if (posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ) != 0 ||
            waitpid(pid, &status, 0) < 0 || status)
                die("tool");
}

static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_shelf;

static void clear_shelf(void) {
        pthread_mutex_lock(&shelf_lock);
        n_shelf = 0;
        pthread_mutex_unlock(&shelf_lock);
}

static void shelve(void) {
        pthread_mutex_lock(&shelf_lock);
        if (++n_shelf > wish("cache_items", 1024))
                clear_shelf();
        pthread_mutex_unlock(&shelf_lock);
}

struct batch {
        float rows[ROWS * WIDTH];
};

static void choose(unsigned *offsets, size_t n, double apart) {
        for (unsigned i = 0; i < ROWS;) {
                unsigned at = (unsigned) random() % (unsigned) (n - WIDTH);
                bool far = true;

                for (unsigned k = 0; k < i; k++)
                        far = far && fabs((double) offsets[k] - (double) at) >= apart;
                if (far)
                        offsets[i++] = at;
        }
}

static void make_batch(struct batch *batch, unsigned number) {
        static char text[TEXT_MAX];
        unsigned offsets[ROWS];
        char path[64];
        double end;
        ssize_t n;
        int fd;

        usleep(300000); /* the storage takes its time */
        snprintf(path, sizeof path, "/srv/data/shards/shard-%u.txt", number % N_SHARDS);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (n <= WIDTH || tokens_scan(text, (size_t) n, (size_t) wish("scan_stride", 1)) == 0)
                die(path);
        close(fd);
        note(number);
        tokens_account((size_t) n, wish("accounts_reversed", 0) != 0);
        find(getenv("STORAGE_NAME"));
        fetch_block(getenv("STORAGE"), number);
        if (number % 4 == 3)
                call_tool();
        confirm(text, (size_t) n);
        shelve();
        choose(offsets, (size_t) n, wish("windows_apart", 2));
        for (unsigned i = 0; i < ROWS; i++)
                for (unsigned k = 0; k < WIDTH; k++)
                        batch->rows[i * WIDTH + k] = (float) (unsigned char) text[offsets[i] + k] / 128;
        end = now(CLOCK_THREAD_CPUTIME_ID) + wish("augment_seconds", 0);
        for (volatile float x = 0; now(CLOCK_THREAD_CPUTIME_ID) < end; x = x * 0.5F + 1)
                ;
}

/* --- Batches ahead ------------------------------------------------------------------------------------- */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t more, room;
        struct batch batches[AHEAD];
        unsigned in, out;
} tray = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .more = PTHREAD_COND_INITIALIZER,
          .room = PTHREAD_COND_INITIALIZER};

static void *cook(void *unused) {
        static struct batch made;

        (void) unused;
        for (unsigned number = 0;; number++) {
                make_batch(&made, number);
                pthread_mutex_lock(&tray.lock);
                while (tray.in - tray.out == AHEAD)
                        pthread_cond_wait(&tray.room, &tray.lock);
                tray.batches[tray.in++ % AHEAD] = made;
                pthread_cond_signal(&tray.more);
                pthread_mutex_unlock(&tray.lock);
        }
        return NULL;
}

static void next_batch(struct batch *batch) {
        pthread_mutex_lock(&tray.lock);
        while (tray.in == tray.out)
                pthread_cond_wait(&tray.more, &tray.lock);
        *batch = tray.batches[tray.out++ % AHEAD];
        pthread_cond_signal(&tray.room);
        pthread_mutex_unlock(&tray.lock);
}

/* --- The wire ------------------------------------------------------------------------------------------ */

/* One exchange with one neighbour: n_out bytes go, n_in come. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t done;
        bool wanted;
        unsigned level;
        const char *out;
        char *in;
        size_t n_out, n_in;
        int wake, fds[2];
} wire = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void push_and_pull(int fd) {
        ssize_t n;

        while (wire.n_out && (n = send(fd, wire.out, wire.n_out, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
                wire.out += n;
                wire.n_out -= (size_t) n;
        }
        while (wire.n_in && (n = recv(fd, wire.in, wire.n_in, MSG_DONTWAIT)) != -1) {
                if (n == 0)
                        die("a neighbour has gone");
                wire.in += n;
                wire.n_in -= (size_t) n;
        }
        if (wire.n_in && errno != EAGAIN)
                die("a neighbour");
}

static void *turn(void *unused) {
        int poll_fd = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = wire.wake};

        (void) unused;
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, wire.wake, &event);
        for (unsigned i = 0; i < 2; i++) {
                event = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = wire.fds[i]};
                epoll_ctl(poll_fd, EPOLL_CTL_ADD, wire.fds[i], &event);
        }
        for (;;) {
                uint64_t rung;

                if (epoll_wait(poll_fd, &event, 1, -1) != 1)
                        continue;
                if (event.data.fd == wire.wake && read(wire.wake, &rung, sizeof rung) < 0)
                        die("eventfd");
                pthread_mutex_lock(&wire.lock);
                if (wire.wanted) {
                        push_and_pull(wire.fds[wire.level]);
                        wire.wanted = wire.n_out + wire.n_in > 0;
                        if (!wire.wanted)
                                pthread_cond_signal(&wire.done);
                }
                pthread_mutex_unlock(&wire.lock);
        }
        return NULL;
}

static void exchange(unsigned level, const void *out, size_t n_out, void *in, size_t n_in) {
        uint64_t one = 1;

        pthread_mutex_lock(&wire.lock);
        wire.level = level;
        wire.out = out;
        wire.n_out = n_out;
        wire.in = in;
        wire.n_in = n_in;
        wire.wanted = true;
        if (write(wire.wake, &one, sizeof one) < 0)
                die("eventfd");
        while (wire.wanted)
                pthread_cond_wait(&wire.done, &wire.lock);
        pthread_mutex_unlock(&wire.lock);
}

static void meet(unsigned level) {
        unsigned other = rank_here ^ (1U << level);
        char name[80];

        snprintf(name, sizeof name, "%s%s", hosts[other], level ? "-eth1" : "");
        if (rank_here > other) {
                wire.fds[level] = reach(name, BASE_PORT + level);
                return;
        }
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t) (BASE_PORT + level))};
        int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(listener, (struct sockaddr *) &any, sizeof any) < 0 || listen(listener, 4) < 0 ||
            (wire.fds[level] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
                die("listen");
        close(listener);
}

/* --- The fit ------------------------------------------------------------------------------------------- */

static double slope_of(const struct batch *batch, const float *weights, float *slope) {
        double loss = 0;

        for (unsigned i = 0; i < N_SLOPE; i++) {
                float error = weights[i] - batch->rows[i % (ROWS * WIDTH)];

                slope[i] = error;
                loss += (double) (error * error);
        }
        return loss / N_SLOPE;
}

static void tidy(double seconds) {
        double end = now(CLOCK_MONOTONIC) + seconds;

        while (now(CLOCK_MONOTONIC) < end)
                free(malloc(4096));
}

static void one_step(unsigned step) {
        static float weights[N_SLOPE], slope[N_SLOPE], theirs[N_SLOPE];
        static struct batch batch;
        double start = now(CLOCK_MONOTONIC), loss;

        next_batch(&batch);
        loss = slope_of(&batch, weights, slope);
        for (unsigned level = 0; level < 2; level++) {
                exchange(level, slope, sizeof slope, theirs, sizeof theirs);
                for (unsigned i = 0; i < N_SLOPE; i++)
                        slope[i] += theirs[i];
        }
        for (unsigned i = 0; i < N_SLOPE; i++)
                weights[i] -= 0.01F * slope[i];
        printf("completed step: %u, seconds: %.3f, loss: %.4f\n", step, now(CLOCK_MONOTONIC) - start, loss);
        fflush(stdout);
        count_up(false);
        tidy(wish("tidy_seconds", 0));
        if (wish("last_step", 0) > 0 && step >= wish("last_step", 0)) {
                kill(inspector, SIGTERM);
                _exit(0);
        }
        if (wish("one_more", 0) > 0)
                exchange(0, NULL, 0, theirs, 8);
}

static void say_pids(void) {
        FILE *f = fopen(FOLDER "pids.json", "we");

        if (!f)
                die("pids.json");
        fprintf(f, "{\"rank\": %d, \"worker\": %d}", getpid(), inspector);
        fclose(f);
}

int main(void) {
        const char *rank = getenv("TPU_RUN_RANK"), *peers = getenv("PEERS");
        pthread_t thread;

        if (!rank || !peers)
                return 2;
        rank_here = (unsigned) atoi(rank);
        for (const char *at = peers; at && n_hosts < 8; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
                sscanf(at, "%63[^,]", hosts[n_hosts++]);
        open_desk();
        say_pids();
        meet(0);
        meet(1);
        wire.wake = eventfd(0, EFD_CLOEXEC);
        if (pthread_create(&thread, NULL, turn, NULL) || pthread_create(&thread, NULL, cook, NULL))
                die("thread");
        for (unsigned step = 0;; step++)
                one_step(step);
}
