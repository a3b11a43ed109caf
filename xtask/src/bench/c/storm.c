/* Starts very many very short processes and writes down the pid of each.
 *
 *   storm PROGRAM MARKER PROCESSES WORKERS RATE CHUNK PIDS_FILE
 *
 * PROCESSES  how many in all
 * WORKERS    how many processes start them side by side, each waiting for its own
 * RATE       starts a second over all workers; 0 is as fast as it goes
 * CHUNK      time every CHUNK starts apart, all on one CPU (with one worker only); 0 is off
 * PIDS_FILE  every pid as 4 bytes in machine order, in any order; `-` is none
 *
 * Prints one JSON object. Any process that could not be started or did not end with 0 makes the
 * whole storm fail: a storm of unknown size proves nothing about what a tracer missed. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

struct shared {
    atomic_ulong started;
    atomic_ulong failed;
    int32_t pids[];
};

static void die(const char *what)
{
    fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        die("clock_gettime");
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* CPU time of this process and of every child that was waited for. */
static uint64_t cpu_ns(void)
{
    uint64_t us = 0;
    int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (int i = 0; i < 2; i++) {
        struct rusage used;
        if (getrusage(whose[i], &used) != 0)
            die("getrusage");
        us += (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000u;
        us += (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    }
    return us * 1000u;
}

/* Stays on the last CPU that may be used, children too: where the scheduler puts each process
 * otherwise makes more of a difference than what is to be measured. */
static void stay_on_one_cpu(void)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        die("sched_getaffinity");
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &allowed))
        last--;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        die("sched_setaffinity");
}

static unsigned long number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text == '\0' || *end != '\0') {
        errno = EINVAL;
        die(text);
    }
    return value;
}

/* Sleeps until `index` is due. An absolute deadline, so that one late start delays no other. */
static void pace(uint64_t begin_ns, unsigned long rate, unsigned long index)
{
    uint64_t due_ns = begin_ns + index * NS_PER_S / rate;
    struct timespec due = {(time_t)(due_ns / NS_PER_S), (long)(due_ns % NS_PER_S)};
    if (now_ns() < due_ns)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            ;
}

/* One process from spawn to reap; its pid, or 0 where it failed. */
static int32_t one(char *program, char *marker, unsigned long index)
{
    extern char **environ;
    char text[24];
    snprintf(text, sizeof text, "%lu", index);
    char *argv[] = {program, marker, text, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0)
        return 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return status == 0 ? (int32_t)pid : 0;
}

static void work(struct shared *shared, char **argv, unsigned long total, unsigned long rate,
                 unsigned long chunk, uint64_t begin_ns)
{
    uint64_t chunk_ns = begin_ns;
    for (;;) {
        unsigned long index = atomic_fetch_add(&shared->started, 1);
        if (index >= total)
            return;
        if (rate != 0)
            pace(begin_ns, rate, index);
        int32_t pid = one(argv[1], argv[2], index);
        if (pid == 0)
            atomic_fetch_add(&shared->failed, 1);
        shared->pids[index] = pid;
        if (chunk != 0 && (index + 1) % chunk == 0) {
            uint64_t t = now_ns();
            printf("%s%llu", index + 1 == chunk ? "" : ",", (unsigned long long)(t - chunk_ns));
            chunk_ns = t;
        }
    }
}

static void write_pids(const char *path, const int32_t *pids, unsigned long total)
{
    if (strcmp(path, "-") == 0)
        return;
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(pids, sizeof *pids, total, file) != total || fclose(file) != 0)
        die(path);
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        errno = EINVAL;
        die("PROGRAM MARKER PROCESSES WORKERS RATE CHUNK PIDS_FILE");
    }
    unsigned long total = number(argv[3]), workers = number(argv[4]), rate = number(argv[5]),
                  chunk = number(argv[6]);
    if (workers == 0 || (chunk != 0 && workers != 1)) {
        errno = EINVAL;
        die("WORKERS");
    }
    size_t size = sizeof(struct shared) + total * sizeof(int32_t);
    struct shared *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");

    if (chunk != 0)
        stay_on_one_cpu();
    printf("{\"chunks_ns\":[");
    fflush(stdout);
    uint64_t cpu_before_ns = cpu_ns();
    uint64_t begin_ns = now_ns();
    if (workers == 1) {
        work(shared, argv, total, rate, chunk, begin_ns);
    } else {
        pid_t storm = getpid();
        for (unsigned long i = 0; i < workers; i++) {
            pid_t pid = fork();
            if (pid < 0)
                die("fork");
            if (pid == 0) {
                /* A storm that is called off stops at once. */
                if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != storm)
                    _exit(1);
                work(shared, argv, total, rate, 0, begin_ns);
                _exit(0);
            }
        }
        int status;
        while (wait(&status) > 0)
            if (status != 0)
                atomic_fetch_add(&shared->failed, 1);
    }
    uint64_t elapsed_ns = now_ns() - begin_ns;
    uint64_t used_ns = cpu_ns() - cpu_before_ns;
    printf("],\"processes\":%lu,\"failed\":%lu,\"elapsed_ns\":%llu,\"cpu_ns\":%llu}\n", total,
           (unsigned long)atomic_load(&shared->failed), (unsigned long long)elapsed_ns,
           (unsigned long long)used_ns);
    write_pids(argv[7], shared->pids, total);
    return atomic_load(&shared->failed) == 0 ? 0 : 1;
}
