// The programs of the meter, at raw tracepoints: at entry and return of each call, and at forks, execs
// and exits.
//
//     sys_enter   not metered, no announcement: end (a lookup in `tasks`, by the address of the registers)
//                 not metered, but of the machine or the cgroup that is: metered from here on
//                 metered: store number and time; if calls are reported: registers, and long names to the ring
//     sys_exit    add to the sums of the task; if calls are reported: the call to the ring
//     fork        the child is metered, in the slot of its process or a new one
//     exec        a new slot, with the name of the program; another tid, if it was not the main thread
//     exit        no longer metered; one thread less in its slot
//
// A slot is a process while it executes one program. A slot without threads gets no further calls, so
// user space can move its cells out of the map.
//
// The command announces itself just before its execve(2), by a prctl(2) with an option that no kernel
// knows and a secret. So its ids need not be known, which differ in each PID namespace.
//
// Since Linux 7.0 a program can be preempted while it runs; then the kernel skips it in every other
// thread that comes to that processor. So forks, execs, exits and returns have a second program, which
// does what the first has not done. A call whose entry was skipped is entered when it returns. If both
// programs at its return are skipped, it is counted in board.missed at the next entry.

#include "names.h"

// The id of a thread in our PID namespace; 0 if it is not in it.
INLINE u64 visible_id(struct task_struct *thread)
{
	struct pid *pid = FIELD(thread, thread_pid);
	u64 level = board.level;
	if (FIELD(pid, level) < level)
		return 0;
	struct upid *upid = upid_at(pid, level);
	return (u64)FIELD(upid, ns) == board.namespace ? (u32)FIELD(upid, nr) : 0;
}

// A call of a thread that is not metered: if it is one of those that join, meters it from here on.
INLINE struct task *join(u64 registers)
{
	if (config.joins == JOIN_CGROUP && current_task_under_cgroup(&cgroups, 0) != 1)
		return 0;
	if (get_current_pid_tgid() >> 32 == board.own_pid)
		return 0;
	struct task_struct *thread = get_current_task();
	u64 tid = visible_id(thread);
	if (!tid)
		return 0;
	u64 pid = visible_id(FIELD(thread, group_leader));
	if (!pid)
		return 0;
	struct task *task = new_task(registers);
	if (!task) {
		add(&board.missed, 1);
		return 0;
	}
	struct slot *slot = scratch_of(OF_ENTER);
	if (!slot)
		return 0;
	u64 number = new_slot(tid);
	task->record.pid = pid;
	task->record.tid = tid;
	slot->live = 1;
	slot->program = number;
	slot->inode = 0;
	slot->pid = pid;
	slot->name_len = COMM;
	get_current_comm(slot->name, COMM);
	list_slot(task, number, slot);
	if (is_compat(registers))
		task->flags = COMPAT;
	slot->kind = JOIN;
	slot->former = tid;
	// Woken, user space reads /proc/PID/exe before the thread ends.
	if (ringbuf_output(&ring, slot, __builtin_offsetof(struct slot, name) + COMM, FORCE_WAKEUP) != 0)
		add(&board.lost_events, 1);
	publish_task(task, registers);
	return task;
}

// A call of a thread that is not metered: if it is the announcement of the command, meters it from here on.
INLINE void admit_command(u64 *context)
{
	if (!announces(context, ANNOUNCE_COMMAND))
		return;
	u64 registers = context[0];
	struct task_struct *thread = get_current_task();
	board.registers_offset = registers - (u64)FIELD(thread, stack);
	u32 id = get_current_pid_tgid();
	// Its ids in our PID namespace, which is its own, are those at the deepest level.
	if (EXISTS(task_struct, thread_pid)) {
		struct pid *pid = FIELD(thread, thread_pid);
		board.level = FIELD(pid, level);
		struct upid *upid = upid_at(pid, board.level);
		id = FIELD(upid, nr);
	}
	struct task *task = new_task(registers);
	if (!task)
		return;
	task->record.pid = id;
	task->record.tid = id;
	task->slot = FIRST;
	publish_task(task, registers);
	add(&board.seen, 1);
}

// The call before has not returned: the kernel has skipped its program.
INLINE void miss_return(struct task *task)
{
	if (task->slot == FIRST)
		return;
	add(&board.missed, 1);
	if (task->flags & REPORTED)
		add((u64 *)&board.left, 1); // Another call is reported instead.
}

SECTION("raw_tp/sys_enter")
int fathom_enter(u64 *context)
{
	u64 registers = context[0], number = context[1];
	struct task *task = find_task(registers);
	if (task) {
		if (task->record.number < NUMBERS)
			miss_return(task);
	} else if (config.joins && board.own_pid) {
		task = join(registers);
		if (!task)
			return 0;
	} else {
		admit_command(context);
		return 0;
	}
	task->record.number = IGNORED;
	if (task->flags & COMPAT) {
		add(&board.compat_calls, 1);
		return 0;
	}
	if (number >= NUMBERS)
		return 0;
	u64 class = class_of(number);
	if (!class)
		return 0;
	task->record.number = number;
	task->flags = 0;
	if (claim_report()) {
		copy_registers(task, registers);
		task->flags = REPORTED;
		store_names(task, class, OF_ENTER, 0);
	}
	task->record.start = ktime_get_ns();
	return 0;
}

// Copies the registers, of which the result may have replaced the first argument.
INLINE void copy_registers_at_return(struct task *task, u64 registers)
{
	copy_registers(task, registers);
	if (config.first) {
		void *from = (void *)(registers + config.first);
		probe_read_kernel(&task->record.registers[config.arguments[0] & 7], sizeof(u64), from);
	}
}

// Whether a signal that ends the thread has cut the call short: then the program at the exit of the
// thread counts it as unfinished.
INLINE int is_killed(struct task *task, u64 errno)
{
	// EINTR, ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
	if (errno != 4 && errno != 512 && errno != 513 && errno != 514 && errno != 516)
		return 0;
	struct task_struct *thread = get_current_task();
	// SIGKILL, which the kernel also sends when the whole process ends.
	if (!(FIELD(thread, pending.signal.sig[0]) & 1 << 8))
		return 0;
	if (task->record.pid != task->record.tid)
		return 1;
	// A tracer sees the call return in the main thread if the process ends by another signal.
	struct signal_struct *signal = FIELD(thread, signal);
	u32 number = FIELD(signal, group_exit_code) & 0x7f;
	return number == 0 || number == 9;
}

INLINE void add_to_sum(struct task *task, u64 kind, u64 nanos)
{
	struct sum *sum = &task->sums[kind * SUM_FACTOR >> SUM_PLACE & (WAYS - 1)];
	if (sum->kind == kind && sum->calls <= SUM_MOST) {
		sum->calls++;
		sum->nanos += nanos;
		return;
	}
	flush(task, sum);
	sum->kind = kind;
	sum->calls = 1;
	sum->nanos = nanos;
}

// Writes what the descriptor is whose place is in a class, if it has one. `table` is the kernel's table
// of open files.
INLINE void describe(struct task *task, u64 place, struct file **table, struct descriptor *to)
{
	// NR_OPEN may be raised up to this, on 64-bit machines.
	const u64 most = 0x3fffffff;
	place &= 0xff;
	if (!place)
		return;
	u64 fd = task->record.result;
	if (place != CLASS_RESULT)
		fd = *(u64 *)((void *)&task->record.result + (place << 3 & 0x78));
	if (fd > most)
		return;
	struct file *file = 0;
	probe_read_kernel(&file, sizeof(file), &table[fd]);
	struct inode *inode = FIELD(file, f_inode);
	to->mode = FIELD(inode, i_mode);
	to->device = FIELD(inode, i_rdev);
	struct super_block *super = FIELD(inode, i_sb);
	to->magic = FIELD(super, s_magic);
}

// The table of open files of this thread.
INLINE struct file **open_files(void)
{
	struct task_struct *thread = get_current_task();
	struct files_struct *files = FIELD(thread, files);
	struct fdtable *table = FIELD(files, fdt);
	return FIELD(table, fd);
}

// Outputs a long call that is not to be reported, with what its descriptors are: when user space looks
// for them, they may be closed.
INLINE void output_long_call(struct task *task, u64 number, u64 registers)
{
	struct record *record = &task->record;
	u64 class = class_of(number);
	copy_registers_at_return(task, registers);
	record->kind = LONG;
	record->slot = task->slot;
	record->descriptors[0] = record->descriptors[1] = (struct descriptor){ 0 };
	if (EXISTS(task_struct, files)) {
		struct file **table = open_files();
		describe(task, class >> 24, table, &record->descriptors[0]);
		describe(task, class >> 32, table, &record->descriptors[1]);
	}
	record->first = sizeof(record->slot) + sizeof(record->descriptors);
	record->second = 0;
	if (output_call(task, NO_WAKEUP) != 0)
		add(&board.lost_long, 1);
	record->kind = CALL;
}

// Outputs the call, and wakes user space if it sleeps and the ring fills. Names that could not be read
// at the entry are read first, now that the page is in memory; unless the program was replaced.
INLINE void report(struct task *task, u64 number, u32 program)
{
	if (task->flags & NAMELESS) {
		task->flags = REPORTED;
		if (number != config.execve && number != config.execveat)
			store_names(task, class_of(number), program, 1);
		if (!(task->flags & REPORTED))
			return;
	}
	task->flags = 0;
	u64 flags = NO_WAKEUP;
	if (board.asleep && ringbuf_query(&ring, AVAIL_DATA) >= config.watermark)
		flags = FORCE_WAKEUP;
	output_call(task, flags);
}

// After an execve(2), checks whether the new program is a 32-bit program.
INLINE void check_mode(struct task *task, u64 registers)
{
	if (!task->fresh)
		return;
	task->fresh = 0;
	task->flags = is_compat(registers) ? COMPAT : 0;
}

// Enters a call whose entry was not seen: a seccomp filter has answered it. Returns its number, or
// NUMBERS if it is not counted.
INLINE u64 enter_unseen(struct task *task, u64 registers)
{
	if (task->flags & COMPAT)
		return NUMBERS;
	u32 read = 0;
	probe_read_kernel(&read, sizeof(read), (void *)(registers + config.number));
	u64 number = read;
	if (number >= NUMBERS || !class_of(number))
		return NUMBERS;
	task->record.number = number;
	task->flags = 0;
	task->record.start = ktime_get_ns();
	if (claim_report()) {
		copy_registers_at_return(task, registers);
		task->flags = REPORTED | NAMELESS;
	}
	return number;
}

INLINE int count_return(u64 *context, u32 program)
{
	u64 registers = context[0];
	struct task *task = find_task(registers);
	if (!task)
		return 0;
	u64 number = task->record.number, nanos = 0;
	if (number < NUMBERS) {
		nanos = ktime_get_ns() - task->record.start;
	} else {
		task->record.number = NONE;
		if (number != NONE) {
			check_mode(task, registers);
			return 0;
		}
		if (program == OF_RETURN_2)
			return 0; // The first program has counted it.
		number = enter_unseen(task, registers);
		if (number >= NUMBERS)
			return 0;
	}
	u64 result = context[1], kind = number;
	task->record.nanos = nanos;
	task->record.result = result;
	if (result >= -4095ull) {
		u64 errno = -result;
		kind |= errno << SUM_ERROR;
		if (EXISTS(task_struct, pending) && is_killed(task, errno))
			return 0;
	}
	add_to_sum(task, kind, nanos);
	if (task->flags & REPORTED)
		report(task, number, program);
	else if (nanos >= config.long_call)
		output_long_call(task, number, registers);
	task->record.number = NONE;
	check_mode(task, registers);
	return 0;
}

SECTION("raw_tp/sys_exit")
int fathom_return(u64 *context)
{
	return count_return(context, OF_RETURN);
}

SECTION("raw_tp/sys_exit")
int fathom_return_2(u64 *context)
{
	return count_return(context, OF_RETURN_2);
}

// Makes a slot for a child process: a copy of its parent's with another id and one thread. Returns its
// number, or 0 if there is no room.
INLINE u64 copy_slot(u64 of_parent, u64 kernel_tid, u32 pid)
{
	struct slot *slot = map_lookup(&slots, &of_parent);
	if (!slot)
		return 0;
	u64 number = new_slot(kernel_tid);
	if (map_update(&slots, &number, slot, 0) != 0)
		return 0;
	slot = map_lookup(&slots, &number);
	if (!slot)
		return 0;
	slot->pid = pid;
	slot->live = 1;
	add(&board.slots, 1);
	return number;
}

// Meters the child of a metered thread, and counts it as unfollowed if there is no room and no other
// program after this one.
INLINE int meter_child(u64 *context, int last)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	struct task *of_parent = find_task(registers_of(parent));
	if (!of_parent)
		return 0;
	u64 kernel_tid = (u32)FIELD(child, pid);
	struct fork fork = { .kind = FORK, .parent = of_parent->record.pid, .tid = kernel_tid };
	if (EXISTS(task_struct, thread_pid)) {
		struct upid *upid = upid_at(FIELD(child, thread_pid), board.level);
		fork.tid = FIELD(upid, nr);
	}
	u64 slot = of_parent->slot;
	int is_thread = kernel_tid != (u32)FIELD(child, tgid);
	if (is_thread) {
		fork.pid = of_parent->record.pid;
		slot_add(slot, 1);
	} else {
		fork.pid = fork.tid;
		slot = copy_slot(slot, kernel_tid, fork.pid);
	}
	if (EXISTS(task_struct, files)) {
		if (FIELD(child, files) == FIELD(parent, files))
			fork.shares |= SHARES_FILES;
		if (FIELD(child, fs) == FIELD(parent, fs))
			fork.shares |= SHARES_FS;
	} else if (is_thread) {
		fork.shares = SHARES_FILES | SHARES_FS;
	}
	u64 registers = registers_of(child);
	struct task *task = new_task(registers);
	if (!task) {
		if (last)
			add(&board.unfollowed, 1);
		return 0;
	}
	task->record.pid = fork.pid;
	task->record.tid = fork.tid;
	task->slot = slot;
	task->flags = of_parent->flags & COMPAT;
	publish_task(task, registers);
	if (is_reporting() && ringbuf_output(&ring, &fork, sizeof(fork), NO_WAKEUP) != 0)
		add(&board.lost_events, 1);
	return 0;
}

SECTION("raw_tp/sched_process_fork")
int fathom_fork(u64 *context)
{
	return meter_child(context, !config.has_second);
}

// A child that is not metered: the first program was skipped, or found no room.
SECTION("raw_tp/sched_process_fork")
int fathom_fork_2(u64 *context)
{
	if (find_task(registers_of((void *)context[1])))
		return 0;
	return meter_child(context, 1);
}

// Reads the name of the program, and the inode of its file. Returns the length of the name, with its NUL.
INLINE u64 read_program(struct slot *slot, struct linux_binprm *program)
{
	s64 len = COMM;
	if (EXISTS(linux_binprm, interp)) {
		len = probe_read_kernel_str(slot->name, NAME_ROOM, FIELD(program, interp));
		struct file *file = FIELD(program, file);
		struct inode *inode = FIELD(file, f_inode);
		slot->inode = FIELD(inode, i_ino);
	} else {
		get_current_comm(slot->name, COMM);
	}
	if (len > 0) {
		OPAQUE(len);
		if (len <= NAME_ROOM)
			return len;
	}
	slot->name[0] = 0; // A name that cannot be read is empty.
	return 1;
}

INLINE int replace_program(u64 *context, u32 entry)
{
	struct task *task = find_task(registers_of((void *)context[0]));
	if (!task || (entry == OF_EXEC_2 && task->fresh))
		return 0;
	flush_all(task);
	// A thread that was not the main thread is it now, and has its id.
	u32 former = task->record.tid;
	task->record.tid = task->record.pid;
	task->fresh = 1;
	slot_add(task->slot, -1);
	struct slot *slot = scratch_of(entry);
	if (!slot)
		return 0;
	u64 number = new_slot(get_current_pid_tgid() >> 32);
	slot->live = 1;
	slot->program = number;
	slot->inode = 0;
	slot->pid = task->record.pid;
	u64 len = read_program(slot, (void *)context[2]);
	slot->name_len = len;
	list_slot(task, number, slot);
	slot->kind = EXEC;
	slot->former = former;
	// Woken, user space reads /proc/PID/exe before the next exec.
	if (ringbuf_output(&ring, slot, __builtin_offsetof(struct slot, name) + len, FORCE_WAKEUP) != 0)
		lose_event();
	return 0;
}

SECTION("raw_tp/sched_process_exec")
int fathom_exec(u64 *context)
{
	return replace_program(context, OF_EXEC);
}

SECTION("raw_tp/sched_process_exec")
int fathom_exec_2(u64 *context)
{
	return replace_program(context, OF_EXEC_2);
}

// A thread ends. The second program finds it no longer metered.
INLINE int end_thread(u64 *context)
{
	struct task *task = find_task(registers_of((void *)context[0]));
	if (!task)
		return 0;
	flush_all(task);
	if (task->record.number < NUMBERS) {
		add(&board.unfinished, 1);
		if (task->flags & REPORTED) {
			task->record.kind = UNFINISHED;
			output_call(task, NO_WAKEUP);
		}
	}
	slot_add(task->slot, -1);
	// Also beyond the limit of calls: user space forgets the process.
	struct exit exit = { EXIT, task->record.pid, task->record.tid };
	if (ringbuf_output(&ring, &exit, sizeof(exit), NO_WAKEUP) != 0)
		lose_event();
	release_task(task);
	if (*(volatile u64 *)&board.live == 0) {
		u64 last = LAST;
		ringbuf_output(&ring, &last, sizeof(last), FORCE_WAKEUP);
	}
	return 0;
}

SECTION("raw_tp/sched_process_exit")
int fathom_exit(u64 *context)
{
	return end_thread(context);
}

SECTION("raw_tp/sched_process_exit")
int fathom_exit_2(u64 *context)
{
	return end_thread(context);
}

#include "attach.h"

const char terms[] SECTION("license") = "Dual MIT/GPL";
