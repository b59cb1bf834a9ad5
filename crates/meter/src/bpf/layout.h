// What the programs and user space share: layout.rs has the same. A test of code.rs compares the sizes.

#pragma once

enum {
	NUMBERS = 512, // System calls.
	COPIED = 64, // Bytes of the registers that have all arguments.
	SHORT = 96, // Names of this length and longer have a record of their own.
	LONGEST = 4096, // PATH_MAX, which includes the NUL.
	NAME_ROOM = 480, // For the name of a program.
	COMM = 16, // For the name of a thread.
	LOOKED = 4096, // Bytes of a task_struct in one record.
};

// Written by user space before the programs are loaded: to the verifier they are constants.
struct config {
	u64 cookie[2]; // The secret by which fathom announces itself.
	u64 bucket_mask;
	u64 watermark; // Bytes in the ring from which on user space is woken.
	u64 joins; // Which threads are metered that ran already.
	u64 has_second; // Whether skipped programs have a second one.
	u64 look_from; // Offset in the task_struct.
	// struct pt_regs of this processor: the offset of the COPIED bytes, which of their words are the
	// first three arguments, and the offset of the first argument when the call has returned, if the
	// result has taken its place by then.
	u64 copied;
	u64 arguments[3];
	u64 first;
	// The offsets of the number of the call and of the register that tells a 32-bit program; the bits of
	// the latter that count, and their value then.
	u64 number;
	u64 mode;
	u64 compat_mask;
	u64 compat;
	// Numbers of calls.
	u64 prctl;
	u64 execve;
	u64 execveat;
	u64 long_call; // Nanoseconds.
};

enum { JOIN_ALL = 1, JOIN_CGROUP = 2 };

// The first argument of the prctl(2) by which fathom announces itself; the cookie follows.
enum {
	ANNOUNCE_COMMAND = 0x66617468, // This thread is metered from now on.
	ANNOUNCE_THREAD, // The thread of board.adopt_fd is.
	ANNOUNCE_JOINS, // Threads join from now on.
	ANNOUNCE_LOOK, // Output the task_struct of this thread.
};

// Calls, nanoseconds and errors of a system call that there was no cell for.
struct spill {
	u64 calls;
	u64 nanos;
	u64 errors;
};

// User space has this mapped.
struct board {
	u64 live; // Metered threads.
	u64 seen; // The command has announced itself.
	u64 unfollowed; // Threads that there was no room for.
	u64 lost_events; // Forks, execs and exits that the ring had no room for.
	u64 compat_calls; // Calls of 32-bit programs.
	u64 unfinished; // Calls in which their thread ended.
	u64 slots; // Slots and cells that were ever created.
	u64 cells;
	s64 left; // Calls that are still to be reported; each entry takes one away.
	u64 level; // The depth of our PID namespace.
	u64 empty_call; // Of user space.
	u64 asleep; // User space sleeps, and is to be woken.
	u64 begun; // Of user space.
	u64 registers_offset; // From the beginning of a kernel stack to the registers.
	u64 missed; // Calls of metered threads whose return was not seen.
	// The thread that is to be metered: the descriptor of its directory in /proc, its slot, its pid and
	// tid; and what became of it.
	u64 adopt_fd;
	u64 adopt_slot;
	u64 adopt_ids;
	u64 adopted;
	// The id of fathom in the first PID namespace, and the address of its own namespace. Threads join
	// from when the former is not 0.
	u64 own_pid;
	u64 namespace;
	u64 lost_long; // Long calls that the ring had no room for.
	u64 classes[NUMBERS];
	struct spill spill[NUMBERS];
};

// What became of a thread that ran already.
enum { ADOPTED_NOW = 1, ADOPTED_BEFORE, ADOPTED_UNBORN, ADOPTED_GONE, ADOPTED_FULL };

// The class of a system call, 0 for one that is not counted: whether it has one or two paths, and
// from bits 8 and 16 on the offsets of these arguments in the registers. From bits 24 and 32 on,
// where its descriptors are: in words from the result on, which is before the registers; 0 for none.
enum { CLASS_NAME = 4, CLASS_OTHER = 8, CLASS_RESULT = 0x80 };

// The first word of each record in the ring.
enum {
	CALL = 1,
	UNFINISHED,
	NAMES,
	FORK,
	EXEC,
	EXIT,
	LAST, // No metered thread is left. It only wakes user space.
	LOOK,
	JOIN, // A thread that ran already is metered from now on. Its record is a slot.
	LONG, // A long call that is not to be reported.
};

// What the descriptor of a long call is: the mode of the inode, its device, and the number of its
// kind of file system; zeros for none.
struct descriptor {
	u64 mode;
	u64 device;
	u64 magic;
};

struct record {
	u32 kind;
	u32 number;
	u32 pid;
	u32 tid;
	u64 start;
	u64 nanos;
	s64 result;
	u64 registers[COPIED / 8];
	u32 first; // Lengths of the names, with their NULs; 0 for none, or if they have a record of their own.
	u32 second;
	union {
		char names[2 * SHORT];
		struct { // Of a long call.
			u64 slot;
			struct descriptor descriptors[2];
		};
	};
};

// Calls of one kind of a thread, that are not in a cell yet. Only the thread itself writes them, so a
// thread that repeats a few calls needs no atomic additions.
struct sum {
	u32 kind; // The number of the call, and above it the error.
	u32 calls;
	u64 nanos;
};

// A kind has one place among the sums of a thread: three bits, from PLACE on, of its product with
// FACTOR, which gives common calls and errors different places.
enum { WAYS = 8, SUM_FACTOR = 12467, SUM_PLACE = 12, SUM_ERROR = 9, SUM_MOST = 1 << 30 };

// A metered thread, in a bucket of the map `tasks`. What each call needs comes first, to touch few
// cache lines.
struct task {
	// The address of its registers while it makes a call, which no other live thread has; 0 if the
	// bucket was never used, FREE if it is free again.
	u64 registers_at;
	u32 flags;
	u32 fresh; // It has just executed a program.
	u64 slot;
	u32 bucket;
	struct record record;
	struct sum sums[WAYS];
};

enum { FREE = 1 };

// Instead of a number: the thread is in no call whose entry was seen; in one that is not counted.
#define NONE 0xffffffffu
#define IGNORED 0xfffffffeu

enum {
	REPORTED = 1, // The call is to be reported.
	NAMELESS = 2, // Its names could not be read at its entry: a page was not in memory.
	COMPAT = 4, // The thread executes a 32-bit program, whose calls have other numbers.
};

// A process while it executes one program, in the map `slots`, whose keys are never reused; and, with
// kind and former instead of live, the record of an exec or a join.
struct slot {
	union {
		u64 live; // Metered threads.
		struct {
			u32 kind;
			u32 former; // Of an exec: the tid that the thread had before; of a join: its tid.
		};
	};
	u64 program; // The slot in which its program was executed: a child executes its parent's.
	u64 inode; // Of the program's file.
	u32 pid;
	u32 name_len;
	char name[NAME_ROOM];
};

// The slot of the command before its program is executed. It is not in the map.
enum { FIRST = 1 };

struct cell {
	u64 slot;
	u32 number;
	u32 error;
};

struct counts {
	u64 calls;
	u64 nanos;
};

struct fork {
	u32 kind;
	u32 parent;
	u32 pid;
	u32 tid;
	u64 shares; // What the child shares with its parent.
};

enum { SHARES_FILES = 1, SHARES_FS = 2 };

struct exit {
	u64 kind;
	u32 pid;
	u32 tid;
};

// Long names, before the record of their call.
struct names {
	u32 kind;
	u32 tid;
	u32 first;
	u32 second;
	u64 number;
	char bytes[2 * LONGEST];
};

struct look {
	u64 kind;
	u64 ids;
	u64 registers;
	char task[LOOKED];
};

// Each program has its own entry of the map `scratch`: another one may run on the same processor in
// between.
union scratch {
	struct slot slot;
	struct names names;
	struct look look;
};

enum { OF_ENTER, OF_RETURN, OF_RETURN_2, OF_EXEC, OF_EXEC_2 };
