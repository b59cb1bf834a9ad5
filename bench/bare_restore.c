// The calls of a restore, and nothing else: DIR unnamed|named THREADS DIRECTORIES FILES makes so many directories, with so many
// files of 1,000 bytes in each. What restore takes beyond it is its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int top, unnamed, threads, directories, files;
static char data[1000];

static void check(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(2);
    }
}

static void make_file(int dir, int number) {
    char name[32];
    snprintf(name, sizeof name, "file-%06d.dat", number);
    int file = unnamed ? openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644)
                       : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    check(file, "openat");
    check(pwrite(file, data, sizeof data, 0), "pwrite64");
    struct timespec times[2] = {{1700000000, 1}, {1700000000, 2}};
    check(futimens(file, times), "futimens");
    if (unnamed)
        check(linkat(file, "", dir, name, AT_EMPTY_PATH), "linkat");
    close(file);
}

static void *work(void *first) {
    for (int number = (int)(long)first; number < directories; number += threads) {
        char name[32];
        snprintf(name, sizeof name, "dir-%05d", number);
        check(mkdirat(top, name, 0700), "mkdirat");
        int dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(dir, "openat");
        for (int file = 0; file < files; file++)
            make_file(dir, file);
        struct timespec times[2] = {{1700000000, 1}, {1700000000, 2}};
        check(fchmod(dir, 0755), "fchmod");
        check(futimens(dir, times), "futimens");
        close(dir);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 6)
        return 2;
    top = open(words[1], O_RDONLY | O_DIRECTORY);
    check(top, words[1]);
    unnamed = strcmp(words[2], "unnamed") == 0;
    threads = atoi(words[3]);
    directories = atoi(words[4]);
    files = atoi(words[5]);
    pthread_t all[64];
    for (long n = 0; n < threads && n < 64; n++)
        pthread_create(&all[n], NULL, work, (void *)n);
    for (long n = 0; n < threads && n < 64; n++)
        pthread_join(all[n], NULL);
    return 0;
}
