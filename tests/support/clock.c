/* Preloaded into a program: CLOCK_MONOTONIC stands still, except that the test sets it forward. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds, in a file that the test writes. */
static const volatile int64_t *monotonic;

__attribute__((constructor)) static void map_clock(void)
{
	int fd = open(getenv("TEST_CLOCK"), O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, sizeof *monotonic, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		abort();
	monotonic = page;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_MONOTONIC || !monotonic)
		return syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = *monotonic / 1000000000;
	now->tv_nsec = *monotonic % 1000000000;
	return 0;
}
