/* pathwalk as its paper and its public program have it, written anew as plainly as C allows: the witness that the tests and
 * the benchmarks hold fathom against.
 *
 *     cc -O2 -o reference reference.c && ./reference [-c] [-t] [-r] [-C] [-F] [-l DIRECTORIES] [-f FILES] ROOT
 *
 * Paths are formatted in the timed loop, and every lookup is a stat. As there, the lines go to standard error, and the first
 * thing that is not as it should be is the end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 4096 };

static int directories = 16, files = 10000;
static char **place; /* ROOT/0, ROOT/1, ... */

static void need(int holds, const char *what, const char *path)
{
    if (holds)
        return;
    fprintf(stderr, "pathwalk: %s ", what);
    perror(path);
    exit(1);
}

static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* " in 0.161s", the rest of the milliseconds cut off */
static void took(long since)
{
    long ms = (now() - since) / 1000000;
    fprintf(stderr, " in %ld.%03lds\n", ms / 1000, ms % 1000);
}

static void each_file(int remove)
{
    char path[LONGEST];
    for (int d = 0; d < directories; d++) {
        if (!remove)
            need(mkdir(place[d], 0777) == 0, "mkdir", place[d]);
        for (int f = 0; f < files; f++) {
            snprintf(path, sizeof path, "%s/%d.%d", place[d], d, f);
            if (remove) {
                need(unlink(path) == 0, "unlink", path);
            } else {
                int fd = creat(path, 0644);
                need(fd >= 0 && close(fd) == 0, "creat", path);
            }
        }
        if (remove)
            need(rmdir(place[d]) == 0, "rmdir", place[d]);
    }
}

/* Looks for so many files, which are in the directory `target`, or in none if that is -1; gives how many were found. */
static int search(int target, int many)
{
    char name[LONGEST], path[2 * LONGEST];
    struct stat seen;
    int found = 0;
    for (int f = 0; f < many; f++) {
        int d = 0;
        snprintf(name, sizeof name, "%d.%d", target, f);
        for (; d < directories; d++) {
            snprintf(path, sizeof path, "%s/%s", place[d], name);
            if (stat(path, &seen) == 0)
                break;
        }
        if (d == directories)
            d = -1;
        need(d == target, "search", name);
        found += d != -1;
    }
    return found;
}

static void test(int target, int many)
{
    long start = now();
    int found = search(target, many);
    fprintf(stderr, "pathwalk: Found %d/%d files in %d directories", found, many, directories);
    took(start);
}

int main(int argc, char **argv)
{
    int option, create = 0, tests = 0, removes = 0, prime = 0, fail = 0;
    long start;
    while ((option = getopt(argc, argv, "ctrCFl:f:")) != -1) {
        switch (option) {
        case 'c': create = 1; break;
        case 't': tests = 1; break;
        case 'r': removes = 1; break;
        case 'C': prime = 1; break;
        case 'F': fail = 1; break;
        case 'l': directories = atoi(optarg); break;
        case 'f': files = atoi(optarg); break;
        default: return 1;
        }
    }
    if (optind != argc - 1 || directories < 1)
        return 1;
    char *root = argv[optind];
    place = calloc(directories, sizeof *place);
    for (int d = 0; d < directories; d++)
        need(asprintf(&place[d], "%s/%d", root, d) > 0, "asprintf", root);

    if (create) {
        start = now();
        need(mkdir(root, 0777) == 0, "mkdir", root);
        each_file(0);
        fprintf(stderr, "pathwalk: Created %d objects", directories * files + 1);
        took(start);
    }
    if (tests) {
        int target = fail ? -1 : directories - 1;
        if (prime)
            test(target, 1);
        test(target, files);
    }
    if (removes) {
        start = now();
        each_file(1);
        need(rmdir(root) == 0, "rmdir", root);
        fprintf(stderr, "pathwalk: Removed %d objects", directories * files + 1);
        took(start);
    }
    return 0;
}
