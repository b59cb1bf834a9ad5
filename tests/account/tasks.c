/* Threads that are hard to attach to. They make no metered call until they are told to go on, and then always the same. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHAINS = 4, GENERATIONS = 25, CALLS = 4 };
static atomic_int is_told, ended;

static void touch_files(void) {
  for (int i = 0; i < CALLS; i++)
    access("/no/such/file", F_OK);
}

static void create(long left);

/* A thread of a chain: creates the next one, and ends. The last ones touch files. */
static void *of_chain(void *argument) {
  long left = (long)argument;
  if (is_told) {
    touch_files();
    left--;
  } else {
    usleep(300);
  }
  if (left > 0)
    create(left);
  else
    ended++;
  return NULL;
}

static void create(long left) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, of_chain, (void *)left) || pthread_detach(thread))
    abort();
}

/* Until SIGUSR1 the threads of four chains come and go. */
static void chains(void) {
  sigset_t told;
  int signal;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &told, NULL);
  for (int i = 0; i < CHAINS; i++)
    create(GENERATIONS);
  usleep(20000); /* the C library has read what it reads once */
  puts("ready");
  fflush(stdout);
  sigwait(&told, &signal);
  is_told = 1;
  while (ended < CHAINS)
    usleep(1000);
}

/* Until its standard input ends, the main thread waits for a child by vfork(2), and cannot be interrupted. */
static void uninterruptible(void) {
  puts("ready");
  fflush(stdout);
  if (vfork() == 0) {
    char byte;
    _exit(read(0, &byte, 1) != 0);
  }
  touch_files();
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "chains"))
    chains();
  else
    uninterruptible();
  _exit(3);
}
