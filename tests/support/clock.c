/* Preloaded into a program: the test sets CLOCK_MONOTONIC, which then stands still, or sets the time of day and the time since the boot forward. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* In a file that the test writes: nanoseconds of CLOCK_MONOTONIC, if not 0; and what is added to the time of day and to the time since
   the boot. */
static const volatile int64_t *clocks;

__attribute__((constructor)) static void map_clocks(void)
{
	int fd = open(getenv("TEST_CLOCK"), O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, 2 * sizeof *clocks, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		abort();
	clocks = page;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	/* The time since the boot cannot be negative, so it is not set back. */
	int64_t shift = clocks && (clock == CLOCK_REALTIME || (clock == CLOCK_BOOTTIME && clocks[1] > 0)) ? clocks[1] : 0;
	int64_t sum;

	if (clock == CLOCK_MONOTONIC && clocks && clocks[0]) {
		now->tv_sec = clocks[0] / 1000000000;
		now->tv_nsec = clocks[0] % 1000000000;
		return 0;
	}
	if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	sum = now->tv_nsec + shift;
	now->tv_sec += sum / 1000000000;
	now->tv_nsec = sum % 1000000000;
	if (now->tv_nsec < 0) {
		now->tv_sec--;
		now->tv_nsec += 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec time;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &time))
		return -1;
	now->tv_sec = time.tv_sec;
	now->tv_usec = time.tv_nsec / 1000;
	return 0;
}
