// The programs that attach to threads which run already, and those that find out about the kernel.

#pragma once

#include "tasks.h"

// TASK_NEW of task_struct.__state, PF_EXITING of task_struct.flags.
enum { TASK_NEW = 0x800, PF_EXITING = 4 };

INLINE int is_exiting(struct task_struct *thread)
{
	return FIELD(thread, flags) & PF_EXITING;
}

INLINE int is_new(struct task_struct *thread)
{
	if (EXISTS(task_struct, __state))
		return FIELD(thread, __state) & TASK_NEW;
	struct task_struct___with_state *before = (void *)thread;
	return FIELD(before, state) & TASK_NEW;
}

// The thread whose directory in /proc is open at this descriptor of ours; 0 if it has ended.
INLINE struct task_struct *thread_of(u64 fd)
{
	struct file **table = open_files(), *file = 0;
	probe_read_kernel(&file, sizeof(file), &table[fd]);
	struct inode *inode = FIELD(file, f_inode);
	struct proc_inode *entry = (void *)inode - OFFSET(proc_inode, vfs_inode);
	struct pid *pid = FIELD(entry, pid);
	void *first = 0;
	probe_read_kernel(&first, sizeof(first), (void *)pid + OFFSET(pid, tasks));
	return first ? first - OFFSET(task_struct, pid_links) : 0;
}

INLINE u64 adopt(void)
{
	struct task_struct *thread = thread_of(board.adopt_fd);
	if (!thread || is_exiting(thread))
		return ADOPTED_GONE;
	if (is_new(thread))
		return ADOPTED_UNBORN;
	u64 registers = registers_of(thread);
	if (find_task(registers))
		return ADOPTED_BEFORE;
	struct task *task = new_task(registers);
	if (!task)
		return ADOPTED_FULL;
	u64 slot = board.adopt_slot, ids = board.adopt_ids;
	task->record.pid = ids;
	task->record.tid = ids >> 32;
	task->slot = slot;
	if (is_compat(registers))
		task->flags = COMPAT;
	slot_add(slot, 1);
	publish_task(task, registers);
	// A thread that has not begun to exit by now reaches the program at its exit later.
	if (!is_exiting(thread))
		return ADOPTED_NOW;
	if (*(volatile u64 *)&task->registers_at == registers) {
		slot_add(slot, -1);
		release_task(task);
	}
	return ADOPTED_GONE;
}

// Runs at the entry of every call while fathom attaches: at its own announcement, meters the thread of
// board.adopt_fd from here on.
SECTION("raw_tp/sys_enter")
int fathom_adopt(u64 *context)
{
	if (announces(context, ANNOUNCE_THREAD))
		board.adopted = adopt();
	return 0;
}

// Runs at the entry of every call until fathom has announced itself: from then on threads join.
SECTION("raw_tp/sys_enter")
int fathom_join(u64 *context)
{
	if (!announces(context, ANNOUNCE_JOINS))
		return 0;
	struct task_struct *thread = get_current_task();
	struct pid *pid = FIELD(thread, thread_pid);
	struct upid *upid = upid_at(pid, FIELD(pid, level));
	board.namespace = (u64)FIELD(upid, ns);
	*(volatile u64 *)&board.own_pid = get_current_pid_tgid() >> 32;
	return 0;
}

// Runs at the entry of every call: of a thread that announces itself, outputs the ids in the first PID
// namespace, the address of the registers, and a piece of the task_struct.
SECTION("raw_tp/sys_enter")
int fathom_look(u64 *context)
{
	if (!announces(context, ANNOUNCE_LOOK))
		return 0;
	struct look *look = scratch_of(OF_ENTER);
	if (!look)
		return 0;
	look->kind = LOOK;
	look->ids = get_current_pid_tgid();
	look->registers = context[0];
	probe_read_kernel(look->task, LOOKED, get_current_task() + config.look_from);
	ringbuf_output(&ring, look, sizeof(*look), FORCE_WAKEUP);
	return 0;
}

// Does nothing, by a helper that needs the privileges of the other programs.
SECTION("raw_tp/sys_enter")
int fathom_try(void)
{
	u64 read = 0;
	probe_read_kernel(&read, sizeof(read), 0);
	return 0;
}
