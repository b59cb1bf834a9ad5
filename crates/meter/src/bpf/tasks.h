// The maps, and what several programs do with metered threads.

#pragma once

#include "kernel.h"
#include "layout.h"

const volatile struct config config SECTION(".rodata");
struct board board SECTION(".bss");

// User space creates the maps, with as many entries as there is to be room for.
#define MAP(name, map_type, key_type, value_type) \
	struct {                                  \
		int (*type)[map_type];            \
		key_type *key;                    \
		value_type *value;                \
		int (*max_entries)[1];            \
	} name SECTION(".maps")

MAP(tasks, ARRAY, u32, struct task);
MAP(taken, HASH, u32, u32);
MAP(slots, HASH, u64, struct slot);
MAP(cells, HASH, struct cell, struct counts);
MAP(scratch, PERCPU_ARRAY, u32, union scratch);
MAP(cgroups, CGROUP_ARRAY, u32, u32);
struct {
	int (*type)[RINGBUF];
	int (*max_entries)[1];
} ring SECTION(".maps");

// The map `tasks` is a hash table whose buckets are found by the address of the thread's registers,
// without a helper call, since the kernel inlines lookups in an array: a thread that is not metered is
// recognised at least cost. The map `taken` has the buckets in use, so that two threads cannot take the
// same one. If the table is as full as it can be, one thread in 256 finds no bucket; if it is half as
// full, one in 65,536.
enum { TRIES = 8 };

// Addresses are of different pages. Each try takes other bits of a product of the page number.
INLINE u32 bucket_of(u64 registers, int attempt)
{
	return (registers >> 12) * 0x61c88647 >> (14 + 2 * attempt) & config.bucket_mask;
}

INLINE void add(u64 *to, s64 number)
{
	__sync_fetch_and_add(to, number);
}

INLINE int is_reporting(void)
{
	return *(volatile s64 *)&board.left > 0;
}

// Several processors at once may claim more calls than are left to report, never fewer.
INLINE int claim_report(void)
{
	if (!is_reporting())
		return 0;
	add((u64 *)&board.left, -1);
	return 1;
}

INLINE u64 class_of(u64 number)
{
	OPAQUE(number);
	return board.classes[number & (NUMBERS - 1)];
}

// The address of the registers of a thread while it makes a call.
INLINE u64 registers_of(struct task_struct *thread)
{
	return (u64)FIELD(thread, stack) + board.registers_offset;
}

// Whether these registers are of a 32-bit program.
INLINE int is_compat(u64 registers)
{
	u64 mode = 0;
	probe_read_kernel(&mode, sizeof(mode), (void *)(registers + config.mode));
	return (mode & config.compat_mask) == config.compat;
}

INLINE struct task *find_task(u64 registers)
{
#pragma unroll
	for (int attempt = 0; attempt < TRIES; attempt++) {
		u32 bucket = bucket_of(registers, attempt);
		struct task *task = map_lookup(&tasks, &bucket);
		if (!task)
			return 0;
		u64 at = task->registers_at;
		if (at == registers)
			return task;
		if (!at)
			return 0;
	}
	return 0;
}

// A task without ids and slot, which is found after publish_task(); 0 if there is no free bucket.
INLINE struct task *new_task(u64 registers)
{
	u32 bucket;
	int attempt;
#pragma unroll
	for (attempt = 0; attempt < TRIES; attempt++) {
		bucket = bucket_of(registers, attempt);
		if (map_update(&taken, &bucket, &bucket, NOEXIST) == 0)
			break;
	}
	if (attempt == TRIES)
		return 0;
	struct task *task = map_lookup(&tasks, &bucket);
	if (!task)
		return 0;
	task->bucket = bucket;
	task->record.kind = CALL;
	task->record.number = IGNORED;
	task->flags = 0;
	task->fresh = 0;
#pragma unroll
	for (int way = 0; way < WAYS; way++)
		task->sums[way].calls = 0;
	return task;
}

INLINE void publish_task(struct task *task, u64 registers)
{
	__asm__ volatile("" ::: "memory"); // The thread may be making a call meanwhile.
	*(volatile u64 *)&task->registers_at = registers;
	add(&board.live, 1);
}

INLINE void release_task(struct task *task)
{
	*(volatile u64 *)&task->registers_at = FREE;
	u32 bucket = task->bucket;
	map_delete(&taken, &bucket);
	add(&board.live, -1);
}

// A unique number for a slot: a pid, which has at most 22 bits (PID_MAX_LIMIT), and the time in
// microseconds, which wraps after 52 days.
INLINE u64 new_slot(u64 pid)
{
	return ktime_get_ns() >> 10 << 22 | pid;
}

// Adds to the live threads of a slot, if it is in the map.
INLINE void slot_add(u64 number, s64 threads)
{
	struct slot *slot = map_lookup(&slots, &number);
	if (slot)
		add(&slot->live, threads);
}

// Enters a slot into the map, and gives it to the task. If there is no room, the task has the slot 0,
// which is never in the map.
INLINE void list_slot(struct task *task, u64 number, struct slot *slot)
{
	int is_listed = map_update(&slots, &number, slot, 0) == 0;
	if (is_listed)
		add(&board.slots, 1);
	task->slot = is_listed ? number : 0;
}

// Counts an event that could not be reported, if it is missed.
INLINE void lose_event(void)
{
	if (is_reporting())
		add(&board.lost_events, 1);
}

// Moves the calls of a sum to their cell.
INLINE void flush(struct task *task, struct sum *sum)
{
	struct counts counts = { sum->calls, sum->nanos };
	if (!counts.calls)
		return;
	// Calls of the same kind may follow: of the next program, or of the next thread with this bucket.
	sum->calls = 0;
	sum->nanos = 0;
	u64 kind = sum->kind;
	struct cell key = { task->slot, kind & (NUMBERS - 1), kind >> SUM_ERROR };
	struct counts *cell = map_lookup(&cells, &key);
	if (!cell) {
		if (map_update(&cells, &key, &counts, NOEXIST) == 0) {
			add(&board.cells, 1);
			return;
		}
		// Another thread has made the cell, or there is no room for it.
		cell = map_lookup(&cells, &key);
	}
	if (cell) {
		add(&cell->calls, counts.calls);
		add(&cell->nanos, counts.nanos);
		return;
	}
	OPAQUE(kind);
	struct spill *spill = &board.spill[kind & (NUMBERS - 1)];
	add(&spill->calls, counts.calls);
	add(&spill->nanos, counts.nanos);
	if (key.error)
		add(&spill->errors, counts.calls);
}

INLINE void flush_all(struct task *task)
{
#pragma clang loop unroll(disable)
	for (int way = 0; way < WAYS; way++)
		flush(task, &task->sums[way]);
}

INLINE void *scratch_of(u32 program)
{
	return map_lookup(&scratch, &program);
}

// Whether the call is fathom's announcement of this.
INLINE int announces(u64 *context, u64 what)
{
	if (context[1] != config.prctl)
		return 0;
	u64 registers[COPIED / 8] = { 0 };
	probe_read_kernel(registers, sizeof(registers), (void *)(context[0] + config.copied));
	return registers[config.arguments[0] & 7] == what &&
	       registers[config.arguments[1] & 7] == config.cookie[0] &&
	       registers[config.arguments[2] & 7] == config.cookie[1];
}

// A thread's entry for the PID namespace of this depth.
INLINE struct upid *upid_at(struct pid *pid, u64 level)
{
	u64 size = OFFSET(upid, ns) + sizeof(void *); // It is the last field.
	return (void *)pid + OFFSET(pid, numbers) + level * size;
}

INLINE void copy_registers(struct task *task, u64 registers)
{
	probe_read_kernel(task->record.registers, COPIED, (void *)(registers + config.copied));
}

// Outputs the call of a task with its names. Returns 0, or not if there is no room.
INLINE long output_call(struct task *task, u64 flags)
{
	struct record *record = &task->record;
	u64 names = (u64)record->first + record->second;
	if (names > sizeof(record->names))
		return -1;
	OPAQUE(names);
	return ringbuf_output(&ring, record, __builtin_offsetof(struct record, names) + names, flags);
}
