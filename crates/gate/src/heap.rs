//! How the C library comes by memory and gives it back.

/// Has the C library keep memory that was freed, as it does anyway while there is little of it. To
/// give some back it would first read `/proc/sys/vm/overcommit_memory`, past every gate. To say so
/// ends its own finding of what is large enough for a mapping of its own, which begins at 128 KiB:
/// buffers of a row group would be mapped and unmapped, each page of them a fault, over and over.
/// [mallopt(3)](https://man7.org/linux/man-pages/man3/mallopt.3.html)
#[cfg(target_env = "gnu")]
pub fn keep_freed_memory() {
    // SAFETY: no pointers; -1 turns trimming off.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
    }
}

/// Other C libraries do nothing of the kind.
#[cfg(not(target_env = "gnu"))]
pub fn keep_freed_memory() {}

/// A vector with room for so many, in large pages where there is much of it: there are fewer of
/// them to be made then, and fewer to be looked up where it is read here and there. `None` if there
/// is not so much room. [madvise(2)](https://man7.org/linux/man-pages/man2/madvise.2.html),
/// `MADV_HUGEPAGE`
pub fn large_room<T>(rows: usize) -> Option<Vec<T>> {
    const PAGE: usize = 4 << 10;
    const LARGE: usize = 2 << 20;
    const HEAD: usize = 32;
    let mut room = Vec::new();
    let bytes = rows
        .checked_mul(size_of::<T>())
        .filter(|bytes| isize::try_from(*bytes).is_ok())?;
    if bytes < 2 * LARGE {
        return room.try_reserve_exact(rows).ok().map(|()| room);
    }
    // With what the C library puts before it, it is a mapping of its own of nothing but large
    // pages, which begins with one.
    room.try_reserve_exact(
        ((bytes + HEAD).checked_next_multiple_of(LARGE)? - HEAD) / size_of::<T>(),
    )
    .ok()?;
    let from = room.as_mut_ptr() as usize / PAGE * PAGE;
    let end =
        (room.as_mut_ptr() as usize + room.capacity() * size_of::<T>()).next_multiple_of(PAGE);
    // All of the mapping, since parts that are not alike could not be moved together.
    // SAFETY: this is a hint about memory; what is in it stays, whoever has it.
    unsafe { libc::madvise(from as *mut libc::c_void, end - from, libc::MADV_HUGEPAGE) };
    Some(room)
}
