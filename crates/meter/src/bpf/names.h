// The names in the arguments of calls.

#pragma once

#include "tasks.h"

enum { READ, UNREAD, TOO_LONG };

// Reads a name of at most `most` bytes, if the call has it and it can be read: otherwise, `skips` it or
// fails. `class` has the offset of the argument.
INLINE int read_name(struct task *task, u64 class, char *to, u64 *len, u64 most, int skips)
{
	u64 *registers = task->record.registers;
	const void *from = *(void **)((void *)registers + (class & (COPIED - 8)));
	if (!from)
		return READ;
	s64 read = probe_read_user_str(to, most, from);
	if (read <= 0)
		return skips ? READ : UNREAD;
	OPAQUE(read);
	u64 bytes = read;
	if (bytes >= most && most == SHORT)
		return TOO_LONG;
	if (bytes > most)
		return skips ? READ : UNREAD;
	*len = bytes;
	return READ;
}

// Reads the names of a call of this class, one after the other, and their lengths.
INLINE int read_names(struct task *task, u64 class, char *to, u64 lens[2], u64 most, int skips)
{
	u64 first = 0, second = 0;
	int end = read_name(task, class >> 8, to, &first, most, skips);
	if (end == READ && class & CLASS_OTHER) {
		OPAQUE(first);
		if (first > most)
			return UNREAD;
		end = read_name(task, class >> 16, to + first, &second, most, skips);
	}
	lens[0] = end == READ ? first : 0;
	lens[1] = end == READ ? second : 0;
	return end;
}

// Reads the names of a call of this class to its record; if one of them is too long, both to a record of
// their own. If one cannot be read, flags the task to try again when the call returns; the `last` time,
// keeps those that can be. The call is not reported if the ring has no room for its names.
INLINE void store_names(struct task *task, u64 class, u32 program, int last)
{
	struct record *record = &task->record;
	record->first = 0;
	record->second = 0;
	if (!(class & CLASS_NAME))
		return;
	u64 lens[2];
	int end = read_names(task, class, record->names, lens, SHORT, last);
	if (end == READ) {
		record->first = lens[0];
		record->second = lens[1];
	}
	if (end == TOO_LONG) {
		struct names *names = scratch_of(program);
		if (!names)
			return;
		end = read_names(task, class, names->bytes, lens, LONGEST, last);
		if (end == READ) {
			names->kind = NAMES;
			names->tid = record->tid;
			names->number = record->number;
			names->first = lens[0];
			names->second = lens[1];
			u64 len = lens[0] + lens[1];
			OPAQUE(len);
			if (len > sizeof(names->bytes) ||
			    ringbuf_output(&ring, names, __builtin_offsetof(struct names, bytes) + len, NO_WAKEUP) != 0)
				task->flags = 0;
		}
	}
	if (end == UNREAD)
		task->flags = REPORTED | NAMELESS;
}
