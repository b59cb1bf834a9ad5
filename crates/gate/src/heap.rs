//! Settings of the C library's allocator.

/// Makes the C library keep freed memory. To return memory, glibc would read
/// `/proc/sys/vm/overcommit_memory`, which the gates would not count. This setting also freezes
/// glibc's dynamic mmap threshold at its initial 128 KiB; the buffers of row groups would then be
/// mapped and unmapped over and over, with a page fault per page. So the threshold is raised, too.
/// [mallopt(3)](https://man7.org/linux/man-pages/man3/mallopt.3.html)
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; -1 turns trimming off.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
    }
}

/// A vector with capacity for `rows` values; a large one in huge pages, which cause fewer page
/// faults and TLB misses. `None` if memory is exhausted.
/// [madvise(2)](https://man7.org/linux/man-pages/man2/madvise.2.html), `MADV_HUGEPAGE`
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
    // With the allocator's header, the size is a multiple of huge pages, so that the vector is a
    // mapping of its own.
    room.try_reserve_exact(
        ((bytes + HEAD).checked_next_multiple_of(LARGE)? - HEAD) / size_of::<T>(),
    )
    .ok()?;
    let from = room.as_mut_ptr() as usize / PAGE * PAGE;
    let end =
        (room.as_mut_ptr() as usize + room.capacity() * size_of::<T>()).next_multiple_of(PAGE);
    // Advise the whole mapping, since mremap(2) cannot move parts with different flags together.
    // SAFETY: the advice leaves the content of the memory as it is.
    unsafe { libc::madvise(from as *mut libc::c_void, end - from, libc::MADV_HUGEPAGE) };
    Some(room)
}
