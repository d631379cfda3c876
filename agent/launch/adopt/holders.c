/* SPDX-License-Identifier: Apache-2.0 */
#include "holders.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHAIN_MAX       64u
#define ENVIRONMENT_MAX (64 * 1024)
#define OWN_RUNS        "/tpu.slice/tpu-run.slice/"

struct process {
        uint32_t pid, parent, group, session, terminal;
        uint64_t start_ticks;
        char control_group[PROC_PID_GROUP_MAX];
};

/* --- One process --------------------------------------------------------------------------------------- */

/* Its control group is not looked at. */
static bool read_stat(const struct host *h, uint32_t pid, struct process *ret) {
        struct proc_pid_stat s;

        if (proc_pid_stat_read(h, pid, &s) < 0 || s.n < 22)
                return false;
        ret->pid = pid;
        ret->parent = (uint32_t) s.field[4];
        ret->group = (uint32_t) s.field[5];
        ret->session = (uint32_t) s.field[6];
        ret->terminal = (uint32_t) s.field[7];
        ret->start_ticks = s.field[22];
        return true;
}

static bool read_process(const struct host *h, uint32_t pid, struct process *ret) {
        if (pid <= 1 || !read_stat(h, pid, ret))
                return false;
        proc_pid_group(h, pid, ret->control_group);
        return true;
}

bool holder_group_lives(const struct host *h, const struct holder_group *g) {
        struct process p;

        return read_stat(h, g->main_pid, &p) && p.start_ticks == g->start_ticks;
}

/* --- What it lives in ---------------------------------------------------------------------------------- */

/* The last *.service or *.scope, and where in the path it ends. */
static size_t find_unit(const char *control_group, const char **ret) {
        size_t found = 0;

        *ret = "";
        for (const char *at = control_group; (at = strchr(at, '/')); at++) {
                size_t n = strcspn(at + 1, "/");

                if ((n > 8 && strncmp(at + 1 + n - 8, ".service", 8) == 0) ||
                    (n > 6 && strncmp(at + 1 + n - 6, ".scope", 6) == 0)) {
                        *ret = at + 1;
                        found = (size_t) (at + 1 - control_group) + n;
                }
        }
        return found;
}

/* In the same container, else the same unit, else the same control group. */
static bool lives_with(const struct process *a, const struct process *b) {
        char one[CONTAINER_SIZE], other[CONTAINER_SIZE];
        const char *unit;
        size_t n = find_unit(a->control_group, &unit);

        container_print(a->control_group, one, sizeof(one));
        container_print(b->control_group, other, sizeof(other));
        if (one[0] || other[0])
                return streq(one, other);
        return n > 0 ? find_unit(b->control_group, &unit) == n &&
                               strncmp(a->control_group, b->control_group, n) == 0
                     : streq(a->control_group, b->control_group);
}

/* A shell at a terminal: it leads the session and gives each command line a process group of its own. */
static bool is_typed_at(const struct process *parent, const struct process *child) {
        return parent->terminal != 0 && parent->session == parent->pid && child->group != parent->group;
}

struct chain {
        uint32_t pids[CHAIN_MAX]; /* the holder first */
        size_t n;
        struct process holder;
};

static bool climb(const struct host *h, uint32_t pid, struct chain *ret) {
        struct process at, parent;

        ret->n = 0;
        if (!read_process(h, pid, &ret->holder))
                return false;
        at = ret->holder;
        ret->pids[ret->n++] = pid;
        while (ret->n < CHAIN_MAX && read_process(h, at.parent, &parent) && lives_with(&at, &parent) &&
               !is_typed_at(&parent, &at)) {
                ret->pids[ret->n++] = parent.pid;
                at = parent;
        }
        return true;
}

static bool chain_has(const struct chain *c, uint32_t pid) {
        for (size_t i = 0; i < c->n; i++)
                if (c->pids[i] == pid)
                        return true;
        return false;
}

/* --- Names --------------------------------------------------------------------------------------------- */

void holder_name_of(const char *words, char ret[static HOLDER_NAME_MAX + 1]) {
        size_t n = 0;

        for (const char *p = words; *p && n < HOLDER_NAME_MAX; p++) {
                unsigned char c = (unsigned char) *p;

                if (c < 0x80 && isalnum(c))
                        ret[n++] = (char) tolower(c);
                else if (n > 0 && ret[n - 1] != '-')
                        ret[n++] = '-';
        }
        while (n > 0 && ret[n - 1] == '-')
                n--;
        ret[n] = '\0';
}

/* What schedulers call what they start, from the environment that they give it. Only these are read. Slurm:
 * srun(1), "OUTPUT ENVIRONMENT VARIABLES"; SkyPilot and Ray: the same part of their own documents. */
static const struct {
        const char *variable, *prefix;
} scheduler_names[] = {
        { "SLURM_JOB_ID", "slurm" },
        { "SKYPILOT_TASK_ID", "sky" },
        { "RAY_JOB_ID", "ray" },
};

static bool name_by_environment(const struct host *h, uint32_t pid, char ret[static HOLDER_NAME_MAX + 1]) {
        _cleanup_free_ char *text = malloc(ENVIRONMENT_MAX + 1);
        _cleanup_close_ int fd = -1;
        char path[64], words[128];
        size_t len = 0;

        (void) snprintf(path, sizeof(path), "/proc/%u/environ", pid);
        fd = text ? host_open_file(h, path, O_RDONLY) : -1;
        for (ssize_t n = 1; fd >= 0 && n > 0 && len < ENVIRONMENT_MAX; len += (size_t) MAX(n, (ssize_t) 0))
                n = read(fd, text + len, ENVIRONMENT_MAX - len);
        for (size_t at = 0; at < len;) {
                size_t n = strnlen(text + at, len - at);

                text[at + n] = '\0'; /* there is one byte more */
                for (size_t i = 0; i < ELEMENTSOF(scheduler_names); i++) {
                        size_t k = strlen(scheduler_names[i].variable);

                        if (n <= k + 1 || strncmp(text + at, scheduler_names[i].variable, k) != 0 ||
                            text[at + k] != '=')
                                continue;
                        (void) snprintf(words, sizeof(words), "%s-%.80s", scheduler_names[i].prefix,
                                        text + at + k + 1);
                        holder_name_of(words, ret);
                        return true;
                }
                at += n + 1;
        }
        return false;
}

/* "python3 /srv/train.py" → "train": what people call it. */
static void program_word(const char *command, char *buf, size_t size) {
        const char *argument = strchr(command, ' '), *from = command, *slash;
        size_t n = strcspn(command, " ");

        if (argument && argument[1] && argument[1] != '-' &&
            (startswith(command, "python") || startswith(command, "bash") || startswith(command, "sh "))) {
                slash = strrchr(argument, '/');
                from = slash ? slash + 1 : argument + 1;
                n = strcspn(from, " ");
        }
        if (n > 3 && strncmp(from + n - 3, ".py", 3) == 0)
                n -= 3;
        (void) snprintf(buf, size, "%.*s", (int) n, from);
}

/* A unit that somebody named: not that of a login, which is a number, nor of a terminal. */
static bool unit_is_a_name(const char *unit) {
        return unit[0] && !startswith(unit, "session-") && !startswith(unit, "user@") &&
               !startswith(unit, "tmux-spawn-") && !startswith(unit, "run-") && !startswith(unit, "vte-") &&
               !startswith(unit, "slurmstepd");
}

/* init: the first process of its container, if it is in one. */
static void name_group(const struct host *h, uint32_t init, struct holder_group *g) {
        struct process p = { .parent = 0 };
        char program[48], words[CONTAINER_NAME_SIZE];

        if (g->n_pids > 0 && name_by_environment(h, g->pids[0], g->name) && g->name[0])
                return;
        if (g->container[0]) {
                (void) read_stat(h, init, &p);
                if (!container_name(h, g->container, g->container_id, p.parent, words, sizeof(words)))
                        (void) snprintf(words, sizeof(words), "%s", g->container);
        }
        else if (unit_is_a_name(g->unit))
                (void) snprintf(words, sizeof(words), "%.*s", (int) strcspn(g->unit, "."), g->unit);
        else {
                program_word(g->command, program, sizeof(program));
                (void) snprintf(words, sizeof(words), "%s-%s", g->user, program);
        }
        holder_name_of(words, g->name);
        if (!g->name[0])
                (void) snprintf(g->name, sizeof(g->name), "pid-%u", g->main_pid);
}

/* A second one of a name has its process behind it. */
static void make_unique(struct holder_group *groups, size_t n) {
        for (size_t i = 1; i < n; i++)
                for (size_t k = 0; k < i; k++)
                        if (streq(groups[i].name, groups[k].name)) {
                                char number[16];
                                size_t room;

                                (void) snprintf(number, sizeof(number), "-%u", groups[i].main_pid);
                                room = HOLDER_NAME_MAX - strlen(number);
                                (void) snprintf(groups[i].name + MIN(strlen(groups[i].name), room),
                                                sizeof(number), "%s", number);
                                break;
                        }
}

/* --- Groups -------------------------------------------------------------------------------------------- */

struct holder {
        struct chain chain;
        uint32_t uid;
        const char *command;
        size_t group; /* the first holder of the same run */
};

static bool share_an_ancestor(const struct chain *a, const struct chain *b) {
        for (size_t i = 0; i < a->n; i++)
                if (chain_has(b, a->pids[i]))
                        return true;
        return false;
}

/* The first of a's chain that all of the group come from. */
static uint32_t nearest_ancestor(const struct holder *all, size_t n, size_t group) {
        const struct chain *first = &all[group].chain;

        for (size_t i = 0; i < first->n; i++) {
                bool common = true;

                for (size_t k = 0; k < n && common; k++)
                        common = all[k].group != group || chain_has(&all[k].chain, first->pids[i]);
                if (common)
                        return first->pids[i];
        }
        return first->pids[0];
}

static usec_t ticks_to_usec(uint64_t ticks) {
        long hz = sysconf(_SC_CLK_TCK);

        return hz > 0 ? (usec_t) (ticks / (uint64_t) hz) * USEC_PER_SEC : 0;
}

static void add_device(struct holder_group *g, const char *device) {
        size_t n = strlen(g->devices), k = strlen(device);

        for (const char *at = g->devices; (at = strstr(at, device)); at += k)
                if (at[k] == '\0' || at[k] == ' ')
                        return;
        if (n + k + 2 < sizeof(g->devices))
                (void) snprintf(g->devices + n, sizeof(g->devices) - n, "%s%s", n > 0 ? " " : "", device);
}

static bool fill_group(const struct host *h, const struct holder *all, size_t n, size_t group,
                       const struct device_owners *o, struct holder_group *g) {
        struct process leader;
        const char *unit;

        *g = (struct holder_group){ .main_pid = nearest_ancestor(all, n, group), .uid = all[group].uid };
        if (!read_process(h, g->main_pid, &leader))
                return false; /* it has just ended */
        g->start_ticks = leader.start_ticks;
        g->started_boot = ticks_to_usec(leader.start_ticks);
        (void) snprintf(g->control_group, sizeof(g->control_group), "%s", leader.control_group);
        (void) find_unit(leader.control_group, &unit);
        (void) snprintf(g->unit, sizeof(g->unit), "%.*s", (int) strcspn(unit, "/"), unit);
        container_print(leader.control_group, g->container, sizeof(g->container));
        if (container_find(leader.control_group, &unit))
                (void) snprintf(g->container_id, sizeof(g->container_id), "%.*s", CONTAINER_ID, unit);
        (void) snprintf(g->command, sizeof(g->command), "%s", all[group].command);
        for (size_t i = 0; i < n; i++) {
                if (all[i].group != group)
                        continue;
                if (g->n_pids < HOLDER_PIDS_MAX)
                        g->pids[g->n_pids++] = all[i].chain.pids[0];
                for (size_t k = 0; k < o->n; k++)
                        if (o->owners[k].pid == all[i].chain.pids[0])
                                add_device(g, o->owners[k].device);
        }
        if (!host_user_name(h, g->uid, g->user, sizeof(g->user)))
                (void) snprintf(g->user, sizeof(g->user), "uid%u", g->uid); /* is a name, too */
        name_group(h, all[group].chain.pids[all[group].chain.n - 1], g);
        return true;
}

static int compare_starts(const void *a, const void *b) {
        const struct holder_group *x = a, *y = b;

        return COMPARE(x->start_ticks, y->start_ticks) ?: COMPARE(x->main_pid, y->main_pid);
}

static size_t read_holders(const struct host *h, const struct device_owners *o, struct holder *all) {
        size_t n = 0;

        for (size_t i = 0; i < o->n; i++) {
                bool seen = false;

                for (size_t k = 0; k < n && !seen; k++)
                        seen = all[k].chain.pids[0] == o->owners[i].pid;
                if (seen || !climb(h, o->owners[i].pid, &all[n].chain) ||
                    startswith(all[n].chain.holder.control_group, OWN_RUNS))
                        continue;
                all[n].uid = o->owners[i].uid;
                all[n].command = o->owners[i].command;
                all[n].group = n;
                for (size_t k = 0; k < n; k++)
                        if (all[k].group == k && share_an_ancestor(&all[k].chain, &all[n].chain)) {
                                all[n].group = k;
                                break;
                        }
                n++;
        }
        return n;
}

size_t holders_group(const struct host *h, const struct device_owners *o,
                     struct holder_group ret[static HOLDER_GROUPS_MAX], size_t *ret_left_out) {
        _cleanup_free_ struct holder *all = calloc(o->n + 1, sizeof(*all));
        size_t n = all ? read_holders(h, o, all) : 0, found = 0;

        *ret_left_out = 0;
        for (size_t i = 0; i < n; i++) {
                if (all[i].group != i)
                        continue;
                if (found == HOLDER_GROUPS_MAX)
                        (*ret_left_out)++;
                else
                        found += fill_group(h, all, n, i, o, &ret[found]);
        }
        assert(found <= HOLDER_GROUPS_MAX);
        qsort(ret, found, sizeof(*ret), compare_starts);
        make_unique(ret, found);
        return found;
}
