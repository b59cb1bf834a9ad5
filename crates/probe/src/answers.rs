//! Whether a file system answers at all.
//!
//! A call that waits for a dead server has no time limit. So before anything is done on a file system that has one, a process that
//! nobody need wait for comes to the directory, and brings a byte to the disk there.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gate::create::pwrite64;
use gate::file::fsync;
use gate::process::{Child, Shared};
use gate::{Gate, Tally};
use mounts::may_hang;

use crate::desk::Trouble;
use crate::place::Place;

/// No server that works takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether somebody wants the program to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long it may still take when somebody wants the program to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long a process may take to die.
const REAP: Duration = Duration::from_millis(500);

/// Words that are shared with that process: what it is at, and what it did at the gates.
const STEP: usize = 0;
const TALLY: usize = 1;
const STEPS: [&str; 4] = ["open it", "make a file in it", "write to a file in it", "bring a file in it to the disk"];

/// Goes on only if the file system of `path` answers within `limit`, or within ten seconds.
pub(crate) fn answers(path: &[u8], limit: Duration) -> Result<(), Trouble> {
    let refused = Trouble::refused("cannot make a process for it", Gate::Unshare);
    let shared = Shared::new(TALLY + Tally::WORDS).map_err(&refused)?;
    let mut child = Child::fork_detached(|| {
        let before = gate::meter::tally();
        try_out(path, &|step| shared[STEP].store(step, Relaxed));
        gate::meter::tally().since(&before).publish(&shared[TALLY..]);
    })
    .map_err(&refused)?;
    let limit = limit.min(PATIENCE);
    let begun = Instant::now();
    let mut asked = None;
    while child.wait(LOOK.min(limit)).is_none() {
        // It may have a file to put away.
        if gate::interrupt::asked().is_some() && asked.get_or_insert_with(Instant::now).elapsed() > GRACE {
            return Err(Trouble::Interrupted);
        }
        if asked.is_none() && begun.elapsed() >= limit {
            child.kill();
            let stays = match child.wait(REAP) {
                Some(_) => String::new(),
                None => format!(
                    "; process {} waits for it in the kernel, and ends when its server answers or ends",
                    child.id()
                ),
            };
            let step = STEPS.get(shared[STEP].load(Relaxed) as usize).unwrap_or(&STEPS[0]);
            return Err(Trouble::Hindered(format!(
                "its file system did not answer within {:.0} s when asked to {step}{stays}; fathom mounts --check says which \
                 mounts hang",
                limit.as_secs_f64().ceil()
            )));
        }
    }
    gate::meter::enter(&Tally::collect(&shared[TALLY..]));
    Ok(())
}

/// What fails here fails again where it is said why.
fn try_out(path: &[u8], at: &dyn Fn(u64)) {
    let Ok(place) = Place::open(path) else { return };
    if !place.fstype().is_none_or(may_hang) {
        return;
    }
    at(1);
    let Ok(scratch) = place.scratch() else { return };
    at(2);
    if pwrite64(&scratch.file, b"x", 0).is_ok() {
        at(3);
        let _ = fsync(&scratch.file);
    }
}
