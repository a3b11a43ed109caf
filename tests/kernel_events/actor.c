/* Processes that behave in one particular way each, for the kernel event tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(99);
    }
}

static void reap(pid_t pid)
{
    int status;
    check(waitpid(pid, &status, 0) == pid, "waitpid");
}

static void *exec_here(void *unused)
{
    char *argv[] = { self, "exit", "21", NULL };
    execve(self, argv, environ);
    check(0, "execve");
    return unused;
}

/* A thread that is not the leader execs: the leader dies, the process lives on. */
static int thread_exec(void)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, exec_here, NULL) == 0, "pthread_create");
    pause();
    return 98;
}

static void *outlive(void *unused)
{
    usleep(150000);
    syscall(SYS_exit_group, 22);
    return unused;
}

/* The leader's thread ends first. */
static int leader_first(void)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, outlive, NULL) == 0, "pthread_create");
    syscall(SYS_exit, 5);
    return 98;
}

static void *wait_there(void *unused)
{
    pause();
    return unused;
}

/* Every thread leaves at once. */
static int many_threads(int count)
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, wait_there, NULL) == 0, "pthread_create");
    }
    syscall(SYS_exit_group, 23);
    return 98;
}

static int fork_only(void)
{
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0)
        _exit(24);
    reap(pid);
    return 0;
}

static int vfork_exec(void)
{
    pid_t pid = vfork();
    check(pid >= 0, "vfork");
    if (pid == 0) {
        char *argv[] = { self, "exit", "25", NULL };
        execve(self, argv, environ);
        _exit(99);
    }
    reap(pid);
    return 0;
}

static int storm(int count)
{
    for (int i = 0; i < count; i++) {
        char *argv[] = { self, "exit", "0", NULL };
        pid_t pid;
        check(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0, "posix_spawn");
        reap(pid);
    }
    return 0;
}

/* The image comes from a file that has no name anywhere. */
static int memfd_exec(void)
{
    int from = open(self, O_RDONLY), to = memfd_create("ghost", MFD_CLOEXEC);
    char buffer[65536];
    ssize_t length;
    check(from >= 0 && to >= 0, "memfd_create");
    while ((length = read(from, buffer, sizeof buffer)) > 0)
        check(write(to, buffer, length) == length, "write");
    char *argv[] = { "ghost", "exit", "26", NULL };
    syscall(SYS_execveat, to, "", argv, environ, AT_EMPTY_PATH);
    check(0, "execveat");
    return 98;
}

static int failed_exec(void)
{
    char *argv[] = { "nothing", NULL };
    execve("/nonexistent/program", argv, environ);
    return errno == ENOENT ? 27 : 98;
}

static int into_cgroup(const char *path)
{
    struct clone_args args;
    memset(&args, 0, sizeof args);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    check(fd >= 0, path);
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = (uint64_t)fd;
    pid_t pid = syscall(SYS_clone3, &args, sizeof args);
    check(pid >= 0, "clone3");
    if (pid == 0)
        _exit(28);
    reap(pid);
    return 0;
}

/* A child that is the first process of a pid namespace, and says so by its status. */
static int into_pid_namespace(void)
{
    struct clone_args args;
    memset(&args, 0, sizeof args);
    args.flags = CLONE_NEWPID;
    args.exit_signal = SIGCHLD;
    pid_t pid = syscall(SYS_clone3, &args, sizeof args);
    check(pid >= 0, "clone3");
    if (pid == 0) {
        char *argv[] = { self, "exit", getpid() == 1 ? "29" : "98", NULL };
        execve(self, argv, environ);
        _exit(99);
    }
    reap(pid);
    return 0;
}

int main(int argc, char **argv)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    self = length > 0 ? path : argv[0];
    const char *act = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "0";
    if (!strcmp(act, "exit"))
        return atoi(with);
    if (!strcmp(act, "wait"))
        return pause();
    if (!strcmp(act, "thread-exec"))
        return thread_exec();
    if (!strcmp(act, "leader-first"))
        return leader_first();
    if (!strcmp(act, "many-threads"))
        return many_threads(atoi(with));
    if (!strcmp(act, "fork-only"))
        return fork_only();
    if (!strcmp(act, "vfork-exec"))
        return vfork_exec();
    if (!strcmp(act, "storm"))
        return storm(atoi(with));
    if (!strcmp(act, "memfd-exec"))
        return memfd_exec();
    if (!strcmp(act, "failed-exec"))
        return failed_exec();
    if (!strcmp(act, "into-cgroup"))
        return into_cgroup(with);
    if (!strcmp(act, "into-pid-namespace"))
        return into_pid_namespace();
    return 0;
}
