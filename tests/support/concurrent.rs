//! Runs the work of a test while other threads interfere.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::build::file;
use super::trees::Dice;

/// Set when the work is done, so that the other threads stop.
pub(crate) struct Done(AtomicBool);

impl Done {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` while `threads` threads run `other`, each with its number, until [`Done`] is set. It
/// is also set if the work panics, because otherwise the other threads would never end.
pub(crate) fn with_threads<T>(
    threads: u64,
    other: impl Fn(u64, &Done) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    struct SetOnDrop<'a>(&'a Done);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
    let done = Done(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _set_on_drop = SetOnDrop(&done);
        for thread in 0..threads {
            let (other, done) = (&other, &done);
            scope.spawn(move || other(thread, done));
        }
        work()
    })
}

/// Runs `work` while a file is rewritten continuously. The file is written once more, with the same
/// length, after the work.
pub(crate) fn while_rewriting<T>(hot: &Path, work: impl FnOnce() -> T) -> T {
    let write = |_, done: &Done| {
        let mut n = 0_u8;
        while !done.is_set() {
            n = n.wrapping_add(1) | 1;
            fs::write(hot, [n; 10]).unwrap();
        }
        fs::write(hot, [0; 10]).unwrap();
    };
    with_threads(1, write, work)
}

/// Files for [`harass`], smaller and larger than a single read.
pub(crate) fn prey(top: &Path) {
    for d in 0..10 {
        for f in 0..20 {
            let size = [10, 5000, 50_000][f % 3] + if f == 0 { 2 << 20 } else { 0 };
            file(top.join(format!("d{d}/f{f}")), size);
        }
    }
}

/// Replaces, truncates and removes files until it is stopped. Symlinks lead to a file in the tree,
/// so that writing through them reaches nothing else.
pub(crate) fn harass(top: &Path, done: &Done, seed: u64) {
    let mut dice = Dice::new(seed);
    while !done.is_set() {
        std::thread::sleep(std::time::Duration::from_micros(200));
        let at = top.join(format!("d{}/f{}", dice.below(10), dice.below(20)));
        let open = || OpenOptions::new().write(true).open(&at);
        let _ = match dice.below(9) {
            0 => fs::remove_file(&at),
            1 => open().and_then(|file| file.set_len(dice.below(3 << 20) as u64)),
            2 => OpenOptions::new()
                .append(true)
                .open(&at)
                .and_then(|mut file| file.write_all(&[b'+'; 7000])),
            3 => fs::write(at.with_extension("new"), vec![b'n'; dice.below(100_000)])
                .and_then(|()| fs::rename(at.with_extension("new"), &at)),
            4 => fs::set_permissions(
                &at,
                fs::Permissions::from_mode(*dice.pick(&[0, 0o600, 0o777])),
            ),
            5 => fs::remove_file(&at).and_then(|()| symlink(top.join("prey"), &at)),
            6 => fs::remove_file(&at).and_then(|()| fs::create_dir(&at)),
            7 => fs::remove_dir(&at),
            _ => fs::write(&at, vec![b'w'; dice.below(300_000)]),
        };
    }
}
