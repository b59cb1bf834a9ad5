// What the programs use of the kernel: helpers, and fields of its structs.
//
// preserve_access_index has the compiler record each access to a field, so that the loader can write
// the offset in the running kernel into the instruction (CO-RE). So a struct here has only the fields
// that are used. On a kernel without BTF all fields but task_struct.pid, tgid and stack are unknown:
// EXISTS() guards the others, and the verifier never reaches them.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// BPF_FUNC_* of linux/bpf.h.
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static long (*const get_current_comm)(void *to, u32 size) = (void *)16;
static void *(*const get_current_task)(void) = (void *)35;
static long (*const current_task_under_cgroup)(void *map, u32 index) = (void *)37;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*const probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const ringbuf_output)(void *ring, void *record, u64 size, u64 flags) = (void *)130;
static u64 (*const ringbuf_query)(void *ring, u64 what) = (void *)134;

// BPF_MAP_TYPE_*, BPF_NOEXIST, BPF_RB_*.
enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, CGROUP_ARRAY = 8, RINGBUF = 27 };
enum { NOEXIST = 1, NO_WAKEUP = 1, FORCE_WAKEUP = 2, AVAIL_DATA = 0 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_node {
	void *next;
};

struct upid {
	int nr;
	void *ns;
};

struct pid {
	u32 level; // The depth of its own PID namespace.
	struct upid numbers[1]; // One for each namespace from the first one on.
	struct list_node tasks[1];
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	u32 i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct proc_inode {
	struct pid *pid;
	struct inode vfs_inode;
};

struct signal_set {
	u64 sig[1];
};

struct sigpending {
	struct signal_set signal;
};

struct signal_struct {
	int group_exit_code;
};

struct linux_binprm {
	const char *interp; // The file's name; of a script, that of its interpreter.
	struct file *file;
};

struct task_struct {
	u32 __state;
	u32 flags;
	int pid; // The tid.
	int tgid; // The pid.
	void *stack;
	struct files_struct *files;
	void *fs;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	struct list_node pid_links[1];
	struct sigpending pending;
	struct signal_struct *signal;
};

// Before Linux 5.14.
struct task_struct___with_state {
	long state;
};

#pragma clang attribute pop

// BPF_FIELD_BYTE_OFFSET, BPF_FIELD_EXISTS.
#define OFFSET(type, field) __builtin_preserve_field_info(((struct type *)0)->field, 0)
#define EXISTS(type, field) __builtin_preserve_field_info(((struct type *)0)->field, 2)

// The field of a struct in the kernel's memory; zeros if it cannot be read.
#define FIELD(at, field)                                                  \
	({                                                                \
		__typeof__((at)->field) value_ = {0};                     \
		probe_read_kernel(&value_, sizeof(value_), &(at)->field); \
		value_;                                                   \
	})

// Hides from the compiler what it knows of a number. Otherwise it leaves out a comparison or a mask that it
// can prove to have no effect, or uses the copy of a number that was compared: then the verifier, above
// all that of old kernels, does not know its bounds.
#define OPAQUE(number) __asm__ volatile("" : "+r"(number))
