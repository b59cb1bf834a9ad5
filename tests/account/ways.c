/* Learns of files in one of several ways, so many times, and prints the CPU time that each took, in nanoseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 100, BATCH = 32, IMPOSSIBLE = 77 };
static char names[FILES][4096], absent[FILES][4096];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void must(int done) {
  if (!done) {
    perror("ways");
    exit(1);
  }
}

static void three(const char *name) {
  struct stat s;
  must(stat(name, &s) == 0);
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  must(fd >= 0 && fstat(fd, &s) == 0 && close(fd) == 0);
}

static void one(const char *name) {
  struct statx s;
  must(statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &s) == 0);
}

static void uring(int rounds) {
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  int ring = syscall(SYS_io_uring_setup, BATCH, &p);
  if (ring < 0) exit(IMPOSSIBLE);
  size_t sq_len = p.sq_off.array + p.sq_entries * sizeof(unsigned);
  size_t cq_len = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
  size_t len = sq_len > cq_len ? sq_len : cq_len;
  char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                   ring, IORING_OFF_SQES);
  must(at != MAP_FAILED && (void *)sqes != MAP_FAILED);
  unsigned *tail = (unsigned *)(at + p.sq_off.tail), *array = (unsigned *)(at + p.sq_off.array);
  unsigned *cq_head = (unsigned *)(at + p.cq_off.head), *cq_tail = (unsigned *)(at + p.cq_off.tail);
  unsigned sq_mask = *(unsigned *)(at + p.sq_off.ring_mask), cq_mask = *(unsigned *)(at + p.cq_off.ring_mask);
  struct io_uring_cqe *cqes = (struct io_uring_cqe *)(at + p.cq_off.cqes);
  static struct statx out[BATCH];
  for (int done = 0; done < rounds;) {
    unsigned n = rounds - done < BATCH ? rounds - done : BATCH, t = *tail;
    for (unsigned i = 0; i < n; i++, t++) {
      struct io_uring_sqe *sqe = &sqes[t & sq_mask];
      memset(sqe, 0, sizeof *sqe);
      sqe->opcode = IORING_OP_STATX;
      sqe->fd = AT_FDCWD;
      sqe->addr = (unsigned long)names[(done + i) % FILES];
      sqe->len = STATX_BASIC_STATS;
      sqe->off = (unsigned long)&out[i];
      array[t & sq_mask] = t & sq_mask;
    }
    __atomic_store_n(tail, t, __ATOMIC_RELEASE);
    must(syscall(SYS_io_uring_enter, ring, n, n, IORING_ENTER_GETEVENTS, 0, 0) == (long)n);
    unsigned h = *cq_head, end = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
    for (; h != end; h++, done++) must(cqes[h & cq_mask].res == 0);
    __atomic_store_n(cq_head, h, __ATOMIC_RELEASE);
  }
}

int main(int argc, char **argv) {
  must(argc == 4);
  int rounds = atoi(argv[2]);
  for (int i = 0; i < FILES; i++) {
    snprintf(names[i], sizeof names[i], "%s/%d", argv[3], i);
    snprintf(absent[i], sizeof absent[i], "%s/not-%d", argv[3], i);
  }
  struct stat s;
  double begun = now();
  if (!strcmp(argv[1], "uring"))
    uring(rounds);
  else
    for (int i = 0; i < rounds; i++) {
      if (!strcmp(argv[1], "three")) three(names[i % FILES]);
      if (!strcmp(argv[1], "one")) one(names[i % FILES]);
      if (!strcmp(argv[1], "miss")) must(stat(absent[i % FILES], &s) != 0);
    }
  usleep(2000); /* what worker threads have used is booked when they go to sleep */
  printf("%f\n", (now() - begun) / rounds);
  return 0;
}
