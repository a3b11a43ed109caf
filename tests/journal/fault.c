/* Loaded before libc into a process that writes a journal: makes calls of SQLite fail.
   FAULT_SYNC=N      the Nth fsync or fdatasync fails with EIO, and only that one
   FAULT_WRITE=N     writes N to N+FAULT_WRITES-1 fail with ENOSPC
   FAULT_DIE_SYNC=N  at the Nth fsync or fdatasync the process is killed before it is made
   FAULT_DIE_WRITE=N the same at the Nth write
   Only SQLite's calls are counted: the product's own do not pass through libc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static long number(const char *name, long absent) {
    const char *text = getenv(name);
    return text ? atol(text) : absent;
}

static int sync_fails(void) {
    static long calls;
    ++calls;
    if (calls == number("FAULT_DIE_SYNC", -1)) kill(getpid(), SIGKILL);
    return calls == number("FAULT_SYNC", -1);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (sync_fails()) { errno = EIO; return -1; }
    return real(fd);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (sync_fails()) { errno = EIO; return -1; }
    return real(fd);
}

static int write_fails(void) {
    static long calls;
    long first = number("FAULT_WRITE", -1), now = ++calls;
    if (now == number("FAULT_DIE_WRITE", -1)) kill(getpid(), SIGKILL);
    return first > 0 && now >= first && now < first + number("FAULT_WRITES", 1);
}

/* With 64-bit offsets, as SQLite is compiled, its pwrite is this one. */
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    if (write_fails()) { errno = ENOSPC; return -1; }
    return real(fd, bytes, count, offset);
}
