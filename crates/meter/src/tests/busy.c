/* What meters find hard, one word of the command line each. It makes the same calls in every run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *me;

/* Ends the program if a step fails without which it would prove nothing. */
static int must(int result, const char *what) {
  if (result < 0) {
    perror(what);
    _exit(99);
  }
  return result;
}

/* 3 calls that fail, and 4 that do not. */
static void touch_files(void) {
  struct stat st;
  char byte;
  stat("/no/such/file", &st);
  open("/no/such/file", O_RDONLY);
  read(-1, &byte, 1);
  stat("/", &st);
  int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  read(fd, &byte, 1);
  close(fd);
}

static void *hundred_times(void *unused) {
  (void)unused;
  for (int i = 0; i < 100; i++)
    touch_files();
  return NULL;
}

/* 8 threads at once; 50 processes by fork, and 20 by vfork, of which half run a program. */
static void crowd(void) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++)
    pthread_create(&threads[i], NULL, hundred_times, NULL);
  for (int i = 0; i < 50; i++) {
    if (fork() == 0) {
      touch_files();
      _exit(0);
    }
  }
  for (volatile int i = 0; i < 20; i++) {
    if (vfork() == 0) {
      if (i % 2)
        execl(me, me, "once", (char *)NULL);
      _exit(0);
    }
  }
  while (wait(NULL) > 0 || errno == EINTR)
    ;
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
}

/* A process that outlives all who made it. It goes on when the first of them has been waited for. */
static void become_daemon(void) {
  pid_t first = getpid();
  if (fork())
    _exit(0);
  setsid();
  if (fork())
    _exit(0);
  chdir("/");
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(null, fd);
  while (kill(first, 0) == 0)
    usleep(1000);
  touch_files();
}

static char leased[64];

static void *open_leased(void *unused) {
  open(leased, O_WRONLY);
  return unused;
}

/* Starts a thread, and waits until it blocks in open(2): a lease tells its holder of that. */
static void block_a_thread_in_open(void) {
  int memory = must(memfd_create("leased", MFD_CLOEXEC), "memfd_create");
  snprintf(leased, sizeof leased, "/proc/self/fd/%d", memory);
  int holder = must(open(leased, O_RDONLY | O_CLOEXEC), "open");
  close(memory);
  snprintf(leased, sizeof leased, "/proc/self/fd/%d", holder);
  sigset_t lease;
  sigemptyset(&lease);
  sigaddset(&lease, SIGIO);
  pthread_sigmask(SIG_BLOCK, &lease, NULL);
  must(fcntl(holder, F_SETLEASE, F_RDLCK), "F_SETLEASE");
  pthread_t thread;
  pthread_create(&thread, NULL, open_leased, NULL);
  int signal;
  sigwait(&lease, &signal);
}

static void *run_another(void *unused) {
  execl(me, me, "once", (char *)NULL);
  return unused;
}

/* A thread that is not the main one runs another program, while others wait, one of them in a call for files. */
static void thread_runs_program(void) {
  pthread_t thread;
  block_a_thread_in_open();
  pthread_create(&thread, NULL, run_another, NULL);
  for (;;)
    pause();
}

/* The process ends while one of its threads is in a call. */
static void end_in_call(void) {
  block_a_thread_in_open();
  _exit(5);
}

static void on_terminal_input(int signal) {
  static int times;
  if (++times == 2) {
    struct sigaction action = {.sa_handler = on_terminal_input};
    sigaction(signal, &action, NULL);
  }
}

/* A call that signals cut short: twice it begins again, once it fails. A process in the background that reads its
   terminal gets SIGTTIN in the read. */
static void restart(void) {
  if (fork() == 0) {
    setsid();
    int terminal = must(posix_openpt(O_RDWR | O_NOCTTY), "posix_openpt");
    must(unlockpt(terminal), "unlockpt");
    int other_side = must(open(ptsname(terminal), O_RDWR), "open");
    if (fork() == 0) {
      setpgid(0, 0);
      struct sigaction action = {.sa_handler = on_terminal_input, .sa_flags = SA_RESTART};
      sigaction(SIGTTIN, &action, NULL);
      char byte;
      read(other_side, &byte, 1);
      _exit(0);
    }
    wait(NULL);
    _exit(0);
  }
  wait(NULL);
}

/* The process stops itself; its child sees it stopped, and has it go on. */
static void stop(void) {
  pid_t parent = getpid();
  char path[64], text[32];
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (fork() == 0) {
    snprintf(path, sizeof path, "/proc/%d/syscall", parent);
    do {
      usleep(1000);
      int file = must(open(path, O_RDONLY), path);
      text[must(read(file, text, sizeof text - 1), path)] = 0;
      close(file);
      /* "running", or the number of the call. */
    } while (text[0] == 'r' || atoi(text) != SYS_kill);
    kill(parent, SIGCONT);
    _exit(0);
  }
  kill(parent, SIGSTOP);
  _exit(3);
}

/* Reads of which each waits for 20 ms. */
static void wait_for_data(long times) {
  int ends[2];
  char byte;
  struct timeval limit = {.tv_usec = 20 * 1000};
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
  must(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), "SO_RCVTIMEO");
  for (long i = 0; i < times; i++)
    read(ends[0], &byte, 1);
}

/* Names that cannot be read, or only in part; the longest that can be, and one beyond. */
static void odd_names(void) {
  struct stat st;
  syscall(SYS_newfstatat, AT_FDCWD, 8L, &st, 0);
  syscall(SYS_newfstatat, AT_FDCWD, NULL, &st, 0);
  syscall(SYS_renameat2, AT_FDCWD, "/no/such/file", AT_FDCWD, 8L, 0);
  syscall(SYS_newfstatat, AT_FDCWD, "\xff\xfe\n\x01", &st, 0);
  char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(pages + 3 * 4096, 4096);
  memset(pages, 'x', 3 * 4096);
  syscall(SYS_newfstatat, AT_FDCWD, pages + 3 * 4096 - 3, &st, 0);
  pages[2 * 4096 + 2] = 0;
  syscall(SYS_newfstatat, AT_FDCWD, pages + 2 * 4096 - 300, &st, 0);
  syscall(SYS_newfstatat, AT_FDCWD, pages, &st, 0);
}

static void *share(void *unused) {
  close(-1);
  return unused;
}

/* One thread, one process by fork, and one by clone that shares descriptors and working directory. */
static void family(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, share, NULL);
  pthread_join(thread, NULL);
  if (fork() == 0)
    _exit(0);
  wait(NULL);
  if (syscall(SYS_clone, CLONE_FILES | CLONE_FS | SIGCHLD, 0, 0, 0, 0) == 0)
    _exit(0);
  wait(NULL);
}

static void *refused(void *unused) {
  struct stat st;
  for (int i = 0; i < 10; i++) {
    syscall(SYS_faccessat, AT_FDCWD, "/", F_OK);
    stat("/", &st);
  }
  return unused;
}

/* A filter of its own answers some of its calls, also those of a thread, a process and a program that come after. */
static void filtered(void) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_faccessat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
  refused(NULL);
  prctl(PR_SET_NAME, "filtered");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  pthread_t thread;
  pthread_create(&thread, NULL, refused, NULL);
  pthread_join(thread, NULL);
  if (fork() == 0) {
    refused(NULL);
    execl(me, me, "refused", (char *)NULL);
  }
  wait(NULL);
}

/* A filter of its own asks for a tracer of its own, without which the kernel refuses the calls. Makes more calls if one is not refused. */
static void traced(void) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_faccessat, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 7),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
  for (int generation = 0; generation < 2; generation++) {
    if (syscall(SYS_getppid) >= 0 || errno != ENOSYS)
      touch_files();
    if (syscall(SYS_faccessat, AT_FDCWD, "/", F_OK) >= 0 || errno != ENOSYS)
      touch_files();
    if (generation == 0 && fork() != 0) {
      wait(NULL);
      return;
    }
  }
}

/* So many processes, each of which looks for 200 files of its own, by names of 200 bytes. */
static void many_names(long processes) {
  char name[256];
  for (long process = 0; process < processes; process++) {
    if (fork() == 0) {
      for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "/%0199ld", process * 200 + i);
        open(name, O_RDONLY);
      }
      _exit(0);
    }
    wait(NULL);
  }
}

int main(int argc, char **argv) {
  me = argv[0];
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "once"))
    touch_files();
  else if (!strcmp(what, "crowd"))
    crowd();
  else if (!strcmp(what, "daemon"))
    become_daemon();
  else if (!strcmp(what, "thread-exec"))
    thread_runs_program();
  else if (!strcmp(what, "end-in-call"))
    end_in_call();
  else if (!strcmp(what, "restart"))
    restart();
  else if (!strcmp(what, "stop"))
    stop();
  else if (!strcmp(what, "wait"))
    wait_for_data(atol(argv[2]));
  else if (!strcmp(what, "names"))
    odd_names();
  else if (!strcmp(what, "family"))
    family();
  else if (!strcmp(what, "filtered"))
    filtered();
  else if (!strcmp(what, "traced"))
    traced();
  else if (!strcmp(what, "refused"))
    refused(NULL);
  else if (!strcmp(what, "many"))
    for (long i = 0, n = atol(argv[2]); i < n; i++)
      open("/no/such/file", O_RDONLY);
  else if (!strcmp(what, "many-names"))
    many_names(atol(argv[2]));
  else if (!strcmp(what, "die")) {
    touch_files();
    raise(atoi(argv[2]));
  } else
    return 2;
  return 0;
}
