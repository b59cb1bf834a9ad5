// The calls of a dump, and nothing else: FS TOP LIST OUT GENERATION FILE... gathers the metadata of TOP as fathom does on FS, then
// reads the files that LIST names while it writes as many bytes to OUT as the FILEs have. What dump takes beyond it is its own.
// With the FS "generation", prints that of the btrfs subvolume, for the file GENERATION.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { THREADS = 2, PIECE = 1024000, ROWS = 1024, SOME = 256 };

// XFS_IOC_BULKSTAT, of a header that is seldom installed.
struct bulk_ireq {
    uint64_t ino;
    uint32_t flags, icount, ocount, agno;
    uint64_t reserved[5];
};
#define BULKSTAT _IOR('X', 127, struct bulk_ireq)
enum { BULKSTAT_BYTES = 192, BY_AG = 1, GROUPS = 1024 };

static int top, out;
static const char *fs;
static uint64_t generation, bytes;
static long next;
static char **list;
static long listed;
static char piece[PIECE];

static long check(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(2);
    }
    return result;
}

static long claim(void) { return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED); }

static void *bulkstat(void *unused) {
    struct bulk_ireq *request = calloc(1, sizeof *request + ROWS * BULKSTAT_BYTES);
    for (long group; (group = claim()) < GROUPS;) {
        memset(request, 0, sizeof *request);
        *request = (struct bulk_ireq){.flags = BY_AG, .icount = ROWS, .agno = group};
        do {
            request->ocount = 0;
            if (ioctl(top, BULKSTAT, request) < 0)
                return unused; // there are no more groups
            request->flags = BY_AG;
        } while (request->ocount > 0);
    }
    return unused;
}

static void *tree_search(void *unused) {
    enum { BUFFER = 128 << 10, INODES = 1 << 14, PIECES = 1 << 12 };
    struct btrfs_ioctl_search_args_v2 *search = malloc(sizeof *search + BUFFER);
    for (long nth; (nth = claim()) <= PIECES;) {
        uint64_t first = 256 + (uint64_t)nth * INODES;
        uint64_t last = nth == PIECES ? -256ULL : first + INODES - 1;
        struct btrfs_ioctl_search_key key = {.min_objectid = first, .max_objectid = last, .max_type = 255};
        key.max_offset = key.max_transid = -1ULL;
        key.min_transid = generation;
        for (;;) {
            search->key = key;
            search->key.nr_items = -1U;
            search->buf_size = BUFFER;
            check(ioctl(top, BTRFS_IOC_TREE_SEARCH_V2, search), "BTRFS_IOC_TREE_SEARCH_V2");
            if (search->key.nr_items == 0)
                break;
            struct btrfs_ioctl_search_header *header = NULL;
            char *at = (char *)search->buf;
            for (unsigned item = 0; item < search->key.nr_items; item++) {
                header = (void *)at;
                at += sizeof *header + header->len;
            }
            key.min_objectid = header->objectid;
            key.min_type = header->type;
            key.min_offset = header->offset + 1;
        }
    }
    return unused;
}

static int device;
static uint8_t super[1024];
static uint8_t *descriptors;

static uint32_t u32(const uint8_t *at) { return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24; }

// The inode tables through the device; the names are in other blocks.
static void *inode_tables(void *unused) {
    uint64_t block = 1024ULL << u32(super + 24);
    uint32_t each = u32(super + 40), size = super[88] | super[89] << 8;
    int wide = u32(super + 96) & 0x80 ? super[254] | super[255] << 8 : 32;
    long groups = (u32(super) + each - 1) / each;
    char *buffer = malloc(256 << 10);
    for (long group; (group = claim()) < groups;) {
        uint8_t *descriptor = descriptors + group * wide;
        uint64_t place = u32(descriptor + 8) | (wide > 32 ? (uint64_t)u32(descriptor + 40) << 32 : 0);
        uint32_t unused_inodes = descriptor[28] | descriptor[29] << 8;
        uint64_t length = (uint64_t)(each - unused_inodes) * size;
        for (uint64_t at = 0; at < length; at += 256 << 10) {
            uint64_t some = length - at < 256 << 10 ? length - at : 256 << 10;
            check(pread(device, buffer, some, place * block + at), "pread");
        }
    }
    return unused;
}

static void open_device(void) {
    struct stat seen;
    check(fstat(top, &seen), "fstat");
    char path[64], line[256], name[300] = "";
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/uevent", major(seen.st_dev), minor(seen.st_dev));
    FILE *uevent = fopen(path, "r");
    while (uevent && fgets(line, sizeof line, uevent))
        if (sscanf(line, "DEVNAME=%255s", path) == 1)
            snprintf(name, sizeof name, "/dev/%s", path);
    device = check(open(name, O_RDONLY | O_CLOEXEC), name);
    check(pread(device, super, sizeof super, 1024), "superblock");
    uint64_t block = 1024ULL << u32(super + 24);
    descriptors = malloc(16 << 20);
    check(pread(device, descriptors, 16 << 20, (u32(super + 20) + 1) * block), "group descriptors");
}

// Bulkstat has no names: where something has changed, they are read, without the metadata.
static int names_only;

static void list_directory(int dir, int depth, int deep) {
    DIR *entries = fdopendir(dir);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        // Each thread enters some of the directories at the top.
        if (depth == 0 && (entry->d_ino & 1) != (ino_t)deep)
            continue;
        struct statx seen;
        if (!names_only)
            check(statx(dirfd(entries), entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &seen), "statx");
        if (entry->d_type == DT_DIR)
            list_directory(check(openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "openat"), depth + 1, deep);
    }
    closedir(entries);
}

static void *list_each(void *unused) {
    long nth = claim();
    list_directory(check(openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "openat"), 0, nth);
    return unused;
}

static void *read_files(void *unused) {
    char *buffer = malloc(1 << 20), last[4096] = "";
    int dir = -1;
    for (long nth; (nth = claim()) * SOME < listed;)
        for (long at = nth * SOME; at < listed && at < (nth + 1) * SOME; at++) {
            char *name = strrchr(list[at], '/');
            size_t length = name ? (size_t)(name - list[at]) : 0;
            if (dir < 0 || strlen(last) != length || strncmp(last, list[at], length)) {
                if (dir >= 0)
                    close(dir);
                snprintf(last, sizeof last, "%.*s", (int)length, list[at]);
                dir = check(openat(top, length ? last : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), last);
            }
            int file = openat(dir, name ? name + 1 : list[at], O_RDONLY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
            check(file, list[at]);
            struct statx seen;
            while (check(read(file, buffer, 1 << 20), "read") == 1 << 20)
                ;
            // With a security module in the kernel, each inode of XFS is made with a fork for attributes, and bulkstat does not tell
            // whether anything is in it.
            if (!strcmp(fs, "xfs"))
                check(flistxattr(file, buffer, 1 << 20), "flistxattr");
            check(statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &seen), "statx");
            close(file);
        }
    return unused;
}

static void *write_bytes(void *unused) {
    for (uint64_t at = 0; at < bytes; at += PIECE)
        check(write(out, piece, bytes - at < PIECE ? bytes - at : PIECE), "write");
    check(fsync(out), "fsync");
    return unused;
}

static void run(void *(*work)(void *), void *(*beside)(void *)) {
    pthread_t all[THREADS + 1];
    int count = 0;
    next = 0;
    if (beside)
        pthread_create(&all[count++], NULL, beside, NULL);
    for (int nth = 0; nth < THREADS; nth++)
        pthread_create(&all[count++], NULL, work, NULL);
    while (count)
        pthread_join(all[--count], NULL);
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    fs = words[1];
    top = check(open(words[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC), words[2]);
    if (!strcmp(fs, "generation")) {
        struct btrfs_ioctl_get_subvol_info_args info;
        check(syncfs(top), "syncfs");
        check(ioctl(top, BTRFS_IOC_GET_SUBVOL_INFO, &info), "BTRFS_IOC_GET_SUBVOL_INFO");
        return printf("%llu\n", (unsigned long long)info.generation) < 0;
    }
    if (count < 6)
        return 2;
    FILE *file = fopen(words[3], "r");
    char *line = NULL;
    size_t room = 0;
    for (ssize_t length; file && (length = getline(&line, &room, file)) > 0; listed++) {
        if ((listed & (listed - 1)) == 0)
            list = realloc(list, sizeof *list * (listed ? listed * 2 : 1));
        line[length - 1] = 0;
        list[listed] = strdup(line);
    }
    out = check(open(words[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), words[4]);
    if ((file = fopen(words[5], "r")) && fscanf(file, "%lu", &generation) == 1)
        generation++;
    for (int nth = 6; nth < count; nth++) {
        struct stat seen;
        if (stat(words[nth], &seen) == 0)
            bytes += seen.st_size;
    }
    check(syncfs(top), "syncfs");
    if (!strcmp(fs, "ext4"))
        open_device();
    run(!strcmp(fs, "xfs") ? bulkstat : !strcmp(fs, "btrfs") ? tree_search : !strcmp(fs, "ext4") ? inode_tables : list_each, NULL);
    names_only = !strcmp(fs, "xfs") && listed > 0;
    if (names_only)
        run(list_each, NULL);
    run(read_files, write_bytes);
    return 0;
}
