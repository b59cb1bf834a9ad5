//! Which mounts answer.
//!
//! Each mount is touched by a child process, because a call that waits for a dead server has no
//! time limit, and a process can be killed. A few children take one mount after another; whenever
//! those that are left are stuck, more are started, so that two hundred dead mounts take little
//! longer than one. What the children find out they write into shared memory.
//!
//! To touch is to open it as a place, to ask for its attributes afresh, for its file system's, and
//! to read the first entries of its directory. An autofs mount is only asked for its attributes:
//! the rest would have something mounted.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use gate::fs::{At, FileType, Open, Want, fstatfs, getdents64, newfstatat, openat, statx};
use gate::long::open_long;
use gate::process::{Child, Shared};
use gate::{Errno, Gate, Tally};

use crate::{Point, Warning, WarningKind};

/// Whether a mount answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// At once.
    Ok,
    /// Within the deadline, but after more than a tenth of it.
    Slow,
    /// Not within the deadline.
    Hung,
    /// With an error that says that server or device is gone.
    Stale,
    /// That we may not.
    Denied,
    /// It was not touched: no path reaches it.
    Hidden,
}

impl Verdict {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Slow => "slow",
            Verdict::Hung => "hung",
            Verdict::Stale => "stale",
            Verdict::Denied => "denied",
            Verdict::Hidden => "hidden",
        }
    }
}

/// Not the kernel's: another mount has come to lie over this one.
const COVERED: Errno = Errno(-1);
/// Children at one time.
const MOST: usize = 1024;
/// Children that should not be stuck, while there is work.
const FREE: usize = 2;
/// A child that has been at one mount for this long counts as stuck.
const STUCK: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(2);
/// How long to go on trying when no child at all can be made.
const STARVED: Duration = Duration::from_secs(1);
/// How long to wait for killed children, all together.
const REAP: Duration = Duration::from_millis(500);

/// Shared words: the number of the next mount; then for each mount when it was begun, when it was
/// done and when it last answered a call (nanoseconds after the start, plus one), the error and the
/// gate that gave it; then for each child the mount that it is at, plus one, and its tally.
struct Board {
    shared: Shared,
    mounts: usize,
    start: Instant,
}

impl Board {
    const NEXT: usize = 0;
    const BEGUN: usize = 0;
    const DONE: usize = 1;
    const ERRNO: usize = 2;
    const GATE: usize = 3;
    const ANSWERED: usize = 4;
    const PER_MOUNT: usize = 5;
    const PER_CHILD: usize = 1 + Tally::WORDS;

    fn mount(&self, at: usize) -> &[std::sync::atomic::AtomicU64] {
        &self.shared[1 + at * Board::PER_MOUNT..][..Board::PER_MOUNT]
    }

    fn child(&self, at: usize) -> &[std::sync::atomic::AtomicU64] {
        &self.shared[1 + self.mounts * Board::PER_MOUNT + at * Board::PER_CHILD..]
            [..Board::PER_CHILD]
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX) + 1
    }

    fn taken(&self) -> usize {
        usize::try_from(self.shared[Board::NEXT].load(SeqCst)).unwrap_or(usize::MAX)
    }

    /// How long a child has been at the mount that it is at, and which that is.
    fn at_work(&self, child: usize) -> Option<(usize, Duration)> {
        let at = usize::try_from(self.child(child)[0].load(SeqCst))
            .ok()?
            .checked_sub(1)?;
        let begun = self.mount(at)[Board::BEGUN].load(SeqCst);
        Some((at, Duration::from_nanos(self.now().saturating_sub(begun))))
    }
}

/// Touches every mount that a path reaches, and gives each its verdict. Returns what is to be
/// warned of, within the deadline and a second, whatever the mounts do; only where more than 1,024
/// hang at once, or this user may have fewer processes than there are mounts that hang, does it
/// take further deadlines.
///
/// # Errors
/// When no child can be made.
pub fn check(
    points: &mut [Point],
    deadline: Duration,
    mut tick: impl FnMut(usize),
) -> gate::Result<Vec<Warning>> {
    let visible: Vec<usize> = (0..points.len()).filter(|&at| !points[at].hidden).collect();
    let most = MOST.min(visible.len());
    // A child that was killed leaves its place on the board with its tally; at worst every mount
    // takes one.
    let places = visible.len() + most;
    let words = 1 + visible.len() * Board::PER_MOUNT + places * Board::PER_CHILD;
    let board = Board {
        shared: Shared::new(words)?,
        mounts: visible.len(),
        start: Instant::now(),
    };
    let mut children: Vec<Option<Child>> = Vec::new();
    let mut killed: Vec<(usize, Child)> = Vec::new();
    let mut hung = vec![false; visible.len()];
    let mut starved: Option<Instant> = None;
    loop {
        let mut alive = 0;
        let mut stuck = 0;
        for (place, slot) in children.iter_mut().enumerate() {
            let Some(child) = slot else { continue };
            let at_work = board.at_work(place);
            if child.try_wait().is_some() {
                // It has done its work, or has been killed by somebody else in the middle of a
                // mount.
                if let Some((at, _)) =
                    at_work.filter(|&(at, _)| board.mount(at)[Board::DONE].load(SeqCst) == 0)
                {
                    hung[at] = true;
                }
                *slot = None;
                continue;
            }
            if let Some((at, _)) = at_work.filter(|(_, since)| *since > deadline) {
                hung[at] = true;
                child.kill();
                killed.extend(slot.take().map(|child| (at, child)));
                continue;
            }
            alive += 1;
            stuck += usize::from(at_work.is_some_and(|(_, since)| since > STUCK));
        }
        let done = (0..visible.len())
            .filter(|&at| hung[at] || board.mount(at)[Board::DONE].load(SeqCst) != 0)
            .count();
        tick(done);
        if done == visible.len() {
            break;
        }
        let left = visible.len().saturating_sub(board.taken());
        if alive - stuck < FREE && left > 0 && children.len() < places {
            let more = FREE
                .max(stuck)
                .min(left)
                .min(most.saturating_sub(alive))
                .min(places - children.len());
            for _ in 0..more {
                let place = children.len();
                match Child::fork_detached(|| work(&board, place, points, &visible)) {
                    Ok(child) => children.push(Some(child)),
                    // No more processes for us now: those that live go on, and those that die make
                    // room.
                    Err(e)
                        if starved.get_or_insert_with(Instant::now).elapsed() > STARVED
                            && alive == 0 =>
                    {
                        return Err(e);
                    }
                    Err(_) => break,
                }
                starved = None;
                alive += 1;
            }
            for (_, child) in &mut killed {
                child.try_wait();
            }
        } else if left == 0 && alive == 0 {
            // Mounts that were taken by children that died before they could begin.
            (0..visible.len())
                .filter(|&at| board.mount(at)[Board::DONE].load(SeqCst) == 0)
                .for_each(|at| hung[at] = true);
            continue;
        }
        std::thread::sleep(TICK);
    }
    for place in 0..children.len() {
        gate::meter::add(&Tally::collect(&board.child(place)[1..]));
    }
    let mut warnings = verdicts(points, &visible, &board, &hung, deadline);
    warnings.extend(reap(killed, points, &visible));
    Ok(warnings)
}

/// Reaps the killed children, and names those that do not die.
fn reap(mut killed: Vec<(usize, Child)>, points: &[Point], visible: &[usize]) -> Vec<Warning> {
    let until = Instant::now() + REAP;
    loop {
        killed.retain_mut(|(_, child)| child.try_wait().is_none());
        if killed.is_empty() || Instant::now() > until {
            break;
        }
        std::thread::sleep(TICK);
    }
    let stay = killed.into_iter().map(|(at, child)| {
        let kind = WarningKind::Unkillable(child.id());
        Warning::about(&points[visible[at]].target, kind)
    });
    stay.collect()
}

fn verdicts(
    points: &mut [Point],
    visible: &[usize],
    board: &Board,
    hung: &[bool],
    deadline: Duration,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for point in points.iter_mut().filter(|point| point.hidden) {
        point.verdict = Some(Verdict::Hidden);
    }
    for (at, &which) in visible.iter().enumerate() {
        let [begun, done, errno, gate, answered] =
            std::array::from_fn(|w| board.mount(at)[w].load(SeqCst));
        let took = Duration::from_nanos(done.saturating_sub(begun));
        let errno = Errno(errno as i32);
        let verdict = match errno {
            // It was still answering: its last answer came in the second half of the time.
            _ if hung[at] && waited(begun, answered) > deadline / 2 => Verdict::Slow,
            _ if hung[at] => Verdict::Hung,
            Errno(0) if took > deadline / 10 => Verdict::Slow,
            Errno(0) => Verdict::Ok,
            COVERED => Verdict::Hidden,
            Errno::EACCES | Errno::EPERM => Verdict::Denied,
            _ => Verdict::Stale,
        };
        let point = &mut points[which];
        point.verdict = Some(verdict);
        let gate = Gate::ALL.get(gate as usize).copied();
        let kind = match verdict {
            Verdict::Ok | Verdict::Hidden => continue,
            Verdict::Slow if hung[at] => WarningKind::SlowToAll(deadline),
            Verdict::Slow => WarningKind::Slow(took),
            Verdict::Hung => WarningKind::Hung(deadline),
            Verdict::Stale if is_gone(errno) => WarningKind::Gone,
            Verdict::Stale
                if point
                    .fsroot()
                    .is_some_and(|part| part.ends_with(b"//deleted")) =>
            {
                WarningKind::Removed
            }
            Verdict::Stale => WarningKind::Stale,
            Verdict::Denied => WarningKind::Denied,
        };
        warnings.push(match (gate, errno) {
            (Some(gate), errno) if errno != Errno(0) => {
                Warning::failed(&point.target, gate, errno, kind)
            }
            _ => Warning::about(&point.target, kind),
        });
    }
    warnings
}

/// From when a mount was begun to its last answer so far.
fn waited(begun: u64, answered: u64) -> Duration {
    Duration::from_nanos(answered.saturating_sub(begun))
}

fn is_gone(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ESTALE
            | Errno::ENOTCONN
            | Errno::ESHUTDOWN
            | Errno::ECONNABORTED
            | Errno::ECONNREFUSED
            | Errno::ECONNRESET
            | Errno::EHOSTDOWN
            | Errno::EHOSTUNREACH
            | Errno::ENETDOWN
            | Errno::ENETUNREACH
            | Errno::ETIMEDOUT
            | Errno::EREMOTEIO
            | Errno::EIO
            | Errno::ENODEV
            | Errno::ENXIO
            | Errno::ENOMEDIUM
    )
}

/// What a child does: takes one mount after another until there are none left.
fn work(board: &Board, place: usize, points: &[Point], visible: &[usize]) {
    let before = gate::meter::tally();
    let mine = board.child(place);
    let _ = gate::fs::chdir(c"/"); // a child that cannot be killed must not keep anybody's directory busy
    loop {
        let at = board.shared[Board::NEXT].fetch_add(1, SeqCst) as usize;
        let Some(&which) = visible.get(at) else {
            return;
        };
        let mount = board.mount(at);
        mount[Board::BEGUN].store(board.now(), SeqCst);
        mine[0].store(at as u64 + 1, SeqCst);
        let publish = || {
            mount[Board::ANSWERED].store(board.now(), SeqCst);
            gate::meter::tally().since(&before).publish(&mine[1..]);
        };
        if let Err((gate, errno)) = touch(&points[which], publish) {
            mount[Board::ERRNO].store(errno.0 as u32 as u64, SeqCst);
            mount[Board::GATE].store(gate as u64, SeqCst);
        }
        publish();
        mount[Board::DONE].store(board.now(), SeqCst);
        mine[0].store(0, SeqCst);
    }
}

/// Touches one mount; `publish` is called after every call that has returned.
fn touch(point: &Point, publish: impl Fn()) -> Result<(), (Gate, Errno)> {
    let gate = |gate| move |errno| (gate, errno);
    let place =
        open_long(&point.target, Open::PATH | Open::NOFOLLOW).map_err(gate(Gate::Openat))?;
    publish();
    let at = At::EMPTY_PATH | At::NO_AUTOMOUNT | At::STATX_FORCE_SYNC;
    let (directory, mount) = match statx(&place, c"", at, Want::BASIC_STATS) {
        Ok(seen) => (seen.file_type == FileType::Directory, seen.mnt_id),
        // Perhaps it is statx that is refused, and not the mount.
        Err(errno @ (Errno::ENOSYS | Errno::EPERM)) => {
            let seen = newfstatat(&place, c"", At::EMPTY_PATH).map_err(|_| (Gate::Statx, errno))?;
            (seen.file_type == FileType::Directory, None)
        }
        Err(errno) => return Err((Gate::Statx, errno)),
    };
    publish();
    if point.id.is_some() && mount.is_some() && point.id != mount {
        return Err((Gate::Statx, COVERED));
    }
    if point.fstype() == Some(b"autofs") {
        return Ok(());
    }
    fstatfs(&place).map_err(gate(Gate::Fstatfs))?;
    publish();
    if directory {
        let dir = openat(&place, c".", Open::SCAN).map_err(gate(Gate::Openat))?;
        publish();
        getdents64(&dir, &mut [0u8; 4096]).map_err(gate(Gate::Getdents64))?;
        publish();
    }
    Ok(())
}
