/* The price of a call into the kernel, and the counters of the processors: for the claims of the papers.
 *
 *     calls DIR       DIR has files f0 ... f999; prints lines of a figure and its value in nanoseconds
 *
 * call_none: an empty call; call_one, call_all: statx(2) by name for one attribute, and for all; call_fd: statx(2) of an open file.
 * The kinds of calls take turns, and each figure is the median of the rounds.
 * tsc_apart: the greatest difference between the time stamp counters of two processors, where there are such counters.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { FILES = 1000, ROUNDS = 101, KINDS = 4 };
static const char *const names[KINDS] = {"call_none", "call_one", "call_all", "call_fd"};
static char files[FILES][8];
static int directory, file;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return 1e9 * time.tv_sec + time.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static long call(int kind, int number) {
    struct statx got;
    switch (kind) {
    case 0: return syscall(SYS_getppid) < 0;
    case 1: return syscall(SYS_statx, directory, files[number], AT_SYMLINK_NOFOLLOW, STATX_MODE, &got);
    case 2: return syscall(SYS_statx, directory, files[number], AT_SYMLINK_NOFOLLOW, ~STATX__RESERVED, &got);
    default: return syscall(SYS_statx, file, "", AT_EMPTY_PATH, STATX_MODE, &got);
    }
}

static int measure_calls(void) {
    static double rounds[KINDS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int turn = 0; turn < KINDS; turn++) {
            int kind = (round + turn) % KINDS;
            double begun = now();
            for (int number = 0; number < FILES; number++)
                if (call(kind, number)) return perror(names[kind]), 1;
            rounds[kind][round] = (now() - begun) / FILES;
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(rounds[kind], ROUNDS, sizeof(double), by_value);
        printf("%s %.1f\n", names[kind], rounds[kind][ROUNDS / 2]);
    }
    return 0;
}

#if defined(__x86_64__)
struct reading { double clock, ticks; };

/* The counter at a time of the clock. Of many readings the one with the shortest way between two looks at the clock is the best. */
static struct reading read_counter(void) {
    struct reading best = {0, 0};
    double shortest = 1e9;
    for (int n = 0; n < 20000; n++) {
        double before = now();
        double ticks = __rdtsc();
        double after = now();
        if (after - before < shortest) shortest = after - before, best = (struct reading){(before + after) / 2, ticks};
    }
    return best;
}

static void compare_counters(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    struct reading first = {0, 0}, last;
    double rate = 0, apart = 0;
    int on = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!CPU_ISSET(cpu, &allowed) || sched_setaffinity(0, sizeof one, &one)) continue;
        last = read_counter();
        if (on < 0) { /* the rate of the first processor's counter */
            on = cpu, first = last;
            struct timespec pause = {.tv_nsec = 300000000};
            nanosleep(&pause, NULL);
            last = read_counter();
            rate = (last.ticks - first.ticks) / (last.clock - first.clock);
            first = last;
            continue;
        }
        double difference = (last.ticks - first.ticks) / rate - (last.clock - first.clock);
        if (difference < 0) difference = -difference;
        if (difference > apart) apart = difference;
    }
    printf("tsc_apart %.1f\n", apart);
}
#else
static void compare_counters(void) {}
#endif

int main(int argc, char **argv) {
    if (argc != 2 || (directory = open(argv[1], O_RDONLY | O_DIRECTORY)) < 0) return perror("calls DIR"), 2;
    for (int number = 0; number < FILES; number++) snprintf(files[number], sizeof files[number], "f%d", number);
    if ((file = openat(directory, "f0", O_RDONLY)) < 0) return perror("f0"), 2;
    int status = measure_calls();
    compare_counters();
    return status;
}
