//! A mount namespace for one test.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::reference::mountinfo;

/// Runs `test` in a thread with its own mount namespace, and passes it the path of an empty tmpfs.
/// Commands and threads that the test starts share the namespace; its mounts disappear when the
/// last of them has ended.
pub(crate) fn in_namespace<T: Send>(test: impl FnOnce(&Path) -> T + Send) -> T {
    let place = tempfile::Builder::new().prefix("fathom").tempdir().unwrap();
    let ground = place.path().canonicalize().unwrap();
    let enter = || {
        // SAFETY: it changes only this thread's view of the file system, on which the standard
        // library does not rely.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("unshare(CLONE_NEWNS)");
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .unwrap();
        let earlier: BTreeSet<u64> = mountinfo().unwrap().iter().map(|mount| mount.id).collect();
        mount("ground", &ground, "tmpfs", MountFlags::empty(), c"mode=755").unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&ground)));
        let _ = unmount(&ground, UnmountFlags::DETACH);
        unmount_since(&earlier);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    match thread::scope(|scope| scope.spawn(enter).join()) {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Unmounts everything that was mounted in this namespace since `earlier` was read. The end of the
/// namespace would do that too, but at some later time: until then, a file system cannot be mounted
/// again with other options, and loop devices remain attached. Leaves it to the end of the namespace
/// if the test has covered /proc.
fn unmount_since(earlier: &BTreeSet<u64>) {
    let mut tried = BTreeSet::new();
    while let Ok(mounts) = mountinfo()
        && let Some(next) = mounts
            .into_iter()
            .find(|mount| !earlier.contains(&mount.id) && !tried.contains(&mount.id))
    {
        let _ = unmount(&next.target, UnmountFlags::DETACH);
        tried.insert(next.id);
    }
}
