//! Checks which mounts answer.
//!
//! Child processes touch the mounts, because a call that waits for a dead server has no time limit,
//! but a process can be killed. A few children take one mount after another; whenever all of them
//! are stuck, more are started, so that two hundred dead mounts take little longer than one. The
//! children write their results into shared memory.
//!
//! To touch a mount, a child opens it with `O_PATH`, reads fresh attributes of the mount point and
//! of the file system, and reads the first directory entries. Of an autofs mount only the
//! attributes are read: other calls would trigger the automount.
//!
//! A child that cannot be killed stays until the server answers. It carries a mark with the device
//! that it waits for ([`gate::mark`]): while it exists, that device counts as hung, and no other
//! child is sent there.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use base::child::times_out;
use base::path::{absolute, join};
use base::warning::Warning;
use gate::fs::{AtFlags, FileType, Open, StatxMask, fstatfs, getdents64, openat, statx};
use gate::long::{open_long, statx_long};
use gate::mark::{Marks, marks_of_killed};
use gate::process::{Child, SharedWords};
use gate::{Errno, Gate, Tally};
use ondisk::{Content, Dev, Mount};

use crate::doubt::{Foundation, doubtful, first_doubtful, has_server, is_stacked};
use crate::error::{Error, ErrorKind, WarningKind};
use crate::fault::{Fault, examine};
use crate::kind::may_hang;
pub use crate::point::Verdict;
use crate::point::{MountClass, Point};
use crate::root::Root;
use crate::table::read_mounts;

/// Deadline for mounts that are checked only to decide whether to read them.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Result of a mount that a different mount covers by now; the kernel has no errno with this value.
const COVERED: Errno = Errno(-1);
/// Maximum number of child processes at a time.
const MOST: usize = 1024;
/// While mounts are left to touch, children are started until this number of them is not stuck.
const FREE: usize = 2;
/// A child that has touched one mount for this long counts as stuck.
const STUCK: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(2);
/// Time for which fork(2) is retried if no child exists at all.
const STARVED: Duration = Duration::from_secs(1);
/// Maximum total time to wait until the killed children end.
const REAP: Duration = Duration::from_millis(500);
/// Time in which a killed process ends, unless it is blocked in a system call.
const ENDS: Duration = Duration::from_millis(50);

/// The progress of a check, in words of shared memory: the index of the next mount; for each mount,
/// the time when a child began to touch it, the time when the child was done, the errno, the gate
/// that returned the errno, and the time when the mount last answered a call (times in nanoseconds
/// after the start, plus one); for each child, the index of its mount, plus one, and its counts of
/// system calls.
struct CheckProgress {
    shared: SharedWords,
    mounts: usize,
    start: Instant,
}

impl CheckProgress {
    const NEXT: usize = 0;
    const BEGUN: usize = 0;
    const DONE: usize = 1;
    const ERRNO: usize = 2;
    const GATE: usize = 3;
    const ANSWERED: usize = 4;
    const PER_MOUNT: usize = 5;
    const PER_CHILD: usize = 1 + Tally::WORDS;

    fn mount(&self, at: usize) -> &[AtomicU64] {
        &self.shared[1 + at * CheckProgress::PER_MOUNT..][..CheckProgress::PER_MOUNT]
    }

    fn child(&self, at: usize) -> &[AtomicU64] {
        let mounts = 1 + self.mounts * CheckProgress::PER_MOUNT;
        &self.shared[mounts + at * CheckProgress::PER_CHILD..][..CheckProgress::PER_CHILD]
    }

    fn is_done(&self, mount: usize) -> bool {
        self.mount(mount)[CheckProgress::DONE].load(SeqCst) != 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX) + 1
    }

    fn taken(&self) -> usize {
        usize::try_from(self.shared[CheckProgress::NEXT].load(SeqCst)).unwrap_or(usize::MAX)
    }

    /// The index of the mount that a child is touching, and for how long.
    fn at_work(&self, child: usize) -> Option<(usize, Duration)> {
        let at = usize::try_from(self.child(child)[0].load(SeqCst))
            .ok()?
            .checked_sub(1)?;
        let begun = self.mount(at)[CheckProgress::BEGUN].load(SeqCst);
        Some((at, Duration::from_nanos(self.now().saturating_sub(begun))))
    }
}

/// Touches every mount that a path reaches, and sets its verdict. Returns within the deadline plus
/// a second, whatever the mounts do; except that further deadlines are needed if more than 1,024
/// mounts hang at once, or if more mounts hang than this user may have processes.
///
/// # Errors
/// No child can be started.
pub fn check(
    points: &mut [Point],
    deadline: Duration,
    tick: impl FnMut(usize),
) -> gate::Result<Vec<Warning>> {
    check_within(points, |_| deadline, tick)
}

/// Finds out which of these mounts, given with their paths, do not answer within the deadline.
///
/// # Errors
/// No child can be started, so nothing is known.
pub fn find_silent<'m>(
    mounts: impl IntoIterator<Item = (&'m Mount, &'m [u8])>,
    deadline: Duration,
) -> gate::Result<Vec<bool>> {
    let point = |(mount, path): (&Mount, &[u8])| {
        Point::from_row(mount.clone(), path.to_vec(), None, MountClass::Leaf, false)
    };
    are_silent(mounts.into_iter().map(point).collect(), deadline)
}

/// Finds out which of these directories, whose paths are followed, do not answer within the
/// deadline, given the whole mount table and its [`doubtful`] mounts.
///
/// # Errors
/// The errors of [`find_silent`].
pub fn find_silent_paths<'p>(
    paths: impl IntoIterator<Item = &'p [u8]>,
    table: &[Mount],
    doubtful: &HashSet<u64>,
    deadline: Duration,
) -> gate::Result<Vec<bool>> {
    let point = |path: &[u8]| {
        // A path that ends with a slash and a dot is that of a directory, also behind a symlink.
        let dir = join(&absolute(path).unwrap_or_else(|_| path.to_vec()), b".");
        let mount = first_doubtful(path, table, doubtful);
        let mount = mount.filter(|mount| mount.content.fstype != b"autofs");
        Point {
            content: mount.map(|mount| mount.content.clone()),
            ..Point::bare(
                dir,
                mount.map_or_else(Dev::default, |mount| mount.dev),
                None,
            )
        }
    };
    match doubtful.is_empty() {
        true => Ok(paths.into_iter().map(|_| false).collect()),
        false => are_silent(paths.into_iter().map(point).collect(), deadline),
    }
}

fn are_silent(mut points: Vec<Point>, deadline: Duration) -> gate::Result<Vec<bool>> {
    if points.is_empty() {
        return Ok(Vec::new());
    }
    check_marked(&mut points, true, |_| deadline, |_| {})?;
    let verdicts = points.iter().map(|point| point.verdict);
    Ok(verdicts
        .map(|verdict| verdict == Some(Verdict::Hung))
        .collect())
}

/// If `touch`, which follows `path`, does not return within the deadline, the mount point that the
/// path waits for, or else the path. A child process runs `touch` first, unless no mount can hang.
pub fn find_silent_mount(path: &[u8], deadline: Duration, touch: impl FnOnce()) -> Option<Vec<u8>> {
    if path == b"/" {
        return None;
    }
    let table = read_mounts();
    let doubtful = doubtful(&table);
    if doubtful.is_empty() {
        return None;
    }
    let mount = first_doubtful(path, &table, &doubtful);
    let touch = || {
        mount
            .iter()
            .for_each(|it| touch_images(it.dev, &it.content));
        touch();
    };
    let target = || mount.and_then(|mount| mount.target.clone());
    let is_silent = times_out_at(mount.map(|mount| mount.dev), deadline, touch);
    is_silent.then(|| target().unwrap_or_else(|| path.to_vec()))
}

/// Like [`times_out`], for work that waits for the mount with this device number. If a killed child
/// waits there still, no other one is started.
pub(crate) fn times_out_at(dev: Option<Dev>, deadline: Duration, work: impl FnOnce()) -> bool {
    let mark = dev.and_then(mark_of);
    if mark.is_some_and(|mark| marks_of_waiting().contains(&mark)) {
        return true;
    }
    times_out(deadline, || {
        let marks = mark.and_then(|mark| Marks::new().ok().map(|marks| (marks, mark)));
        if let Some((marks, mark)) = &marks {
            _ = marks.set(*mark);
        }
        work();
    })
}

/// Like [`Root::open`], for a path on a network or FUSE mount whose server may be dead: its lookup
/// would wait for the server. Must be called before threads are started, because it forks.
///
/// # Errors
/// [`ErrorKind::Silent`], with the mount that probably contains the path; and the errors of
/// [`Root::open`].
pub fn open_root(given: &[u8], deadline: Duration) -> std::result::Result<Root, Error> {
    match find_silent_mount(given, deadline, || drop(Root::open(given))) {
        None => Root::open(given),
        Some(mount) => Err(Error {
            path: Some(mount),
            ..Error::from(ErrorKind::Silent(deadline))
        }),
    }
}

/// Like [`check`], with a separate deadline for each mount.
///
/// # Errors
/// No child can be started.
pub fn check_within(
    points: &mut [Point],
    deadline: impl Fn(&Point) -> Duration,
    tick: impl FnMut(usize),
) -> gate::Result<Vec<Warning>> {
    let are_marked = may_wait(points);
    check_marked(points, are_marked, deadline, tick)
}

/// Like [`check_within`]. With `are_marked` the mounts may have a server: the children carry marks,
/// and touch the images of the file systems, too.
fn check_marked(
    points: &mut [Point],
    are_marked: bool,
    deadline: impl Fn(&Point) -> Duration,
    mut tick: impl FnMut(usize),
) -> gate::Result<Vec<Warning>> {
    examine(points);
    let waiting = match are_marked {
        true => waiting(points),
        false => Vec::new(),
    };
    let is_asked = |at: &usize| !points[*at].hidden && !waiting.contains(at);
    let visible: Vec<usize> = (0..points.len()).filter(is_asked).collect();
    let deadlines: Vec<Duration> = visible.iter().map(|&at| deadline(&points[at])).collect();
    // A killed child's slot in shared memory is not reused, because its counts of system calls are
    // summed up at the end. In the worst case, a child is killed at every mount.
    let places = visible.len() + MOST.min(visible.len());
    let words = 1 + visible.len() * CheckProgress::PER_MOUNT + places * CheckProgress::PER_CHILD;
    let board = CheckProgress {
        shared: SharedWords::new(words)?,
        mounts: visible.len(),
        start: Instant::now(),
    };
    let mut crew = Crew {
        points,
        are_marked,
        visible: &visible,
        board: &board,
        places,
        children: Vec::new(),
        killed: Vec::new(),
        hung: vec![false; visible.len()],
        starved: None,
    };
    loop {
        let (alive, stuck) = crew.watch(&deadlines);
        let is_done = |at: &usize| crew.hung[*at] || board.is_done(*at);
        let done = (0..visible.len()).filter(is_done).count();
        tick(done);
        if done == visible.len() {
            break;
        }
        let left = visible.len().saturating_sub(board.taken());
        if alive - stuck < FREE && left > 0 && crew.children.len() < places {
            crew.start(alive, FREE.max(stuck).min(left))?;
        } else if left == 0 && alive == 0 {
            // Mounts count as hung if a child took them, but died before it touched them.
            for at in 0..visible.len() {
                crew.hung[at] |= !board.is_done(at);
            }
            continue;
        }
        std::thread::sleep(TICK);
    }
    let Crew {
        children,
        killed,
        hung,
        ..
    } = crew;
    for place in 0..children.len() {
        gate::meter::add(&Tally::collect(&board.child(place)[1..]));
    }
    let mut warnings = verdicts(points, &visible, &board, &hung, &deadlines);
    for at in waiting {
        points[at].verdict = Some(Verdict::Hung);
        let kind = WarningKind::StillHung;
        warnings.push(Warning::about(&points[at].target, kind));
    }
    warnings.extend(reap(killed, points, &visible));
    Ok(warnings)
}

/// Indices of the mounts for which a child of an earlier check still waits.
fn waiting(points: &[Point]) -> Vec<usize> {
    let marks = marks_of_waiting();
    let is_waited_for = |at: &usize| {
        let mark = mark_of(points[*at].dev).filter(|_| !points[*at].hidden);
        mark.is_some_and(|mark| marks.contains(&mark))
    };
    (0..points.len()).filter(is_waited_for).collect()
}

/// The marks of killed children that wait for a server.
fn marks_of_waiting() -> Vec<u32> {
    let mut marks = marks_of_killed();
    if !marks.is_empty() {
        // Children that have just been killed may still be ending.
        std::thread::sleep(ENDS);
        let still = marks_of_killed();
        marks.retain(|mark| still.contains(mark));
    }
    marks
}

/// Whether some mount has a server or may rest on a mount that has one, so that children may wait
/// for it.
fn may_wait(points: &[Point]) -> bool {
    let contents = || {
        let visible = points.iter().filter(|point| !point.hidden);
        visible.filter_map(|point| point.content.as_deref())
    };
    // The mount with the server need not be in the list.
    let has_server = || read_mounts().iter().any(has_server);
    contents().any(|content| may_hang(&content.fstype))
        || contents().any(is_stacked) && has_server()
}

/// The mark of a child that touches the mount with this device number; `None` for the number 0:0,
/// which stands for an unknown one.
fn mark_of(dev: Dev) -> Option<u32> {
    const MINOR: u32 = 20;
    (dev != Dev::default()).then_some(dev.major << MINOR | dev.minor)
}

/// Touches the image files of a file system: its own data may be in memory while the server of an
/// image does not answer.
fn touch_images(dev: Dev, content: &Content) {
    for file in Foundation::find(dev, content).files {
        let at = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
        _ = statx_long(&file, at, StatxMask::BASIC_STATS);
    }
}

struct Crew<'a> {
    points: &'a [Point],
    are_marked: bool,
    visible: &'a [usize],
    board: &'a CheckProgress,
    places: usize,
    /// Children by slot in shared memory; `None` for those that have ended or were killed.
    children: Vec<Option<Child>>,
    /// Killed children that are not reaped, each with the index of its mount.
    killed: Vec<(usize, Child)>,
    /// For each visible mount, whether a child was killed while touching it.
    hung: Vec<bool>,
    starved: Option<Instant>,
}

impl Crew<'_> {
    /// Kills children that have exceeded a deadline. Returns the numbers of living and of stuck
    /// children.
    fn watch(&mut self, deadlines: &[Duration]) -> (usize, usize) {
        let (mut alive, mut stuck) = (0, 0);
        for (place, slot) in self.children.iter_mut().enumerate() {
            let Some(child) = slot else { continue };
            let at_work = self.board.at_work(place);
            if child.try_wait().is_some() {
                // The child has ended. If it did not finish its mount, another process has killed
                // it while it touched the mount, which then counts as hung.
                if let Some((at, _)) = at_work.filter(|&(at, _)| !self.board.is_done(at)) {
                    self.hung[at] = true;
                }
                *slot = None;
                continue;
            }
            if let Some((at, _)) = at_work.filter(|&(at, since)| since > deadlines[at]) {
                self.hung[at] = true;
                child.kill();
                self.killed.extend(slot.take().map(|child| (at, child)));
                continue;
            }
            alive += 1;
            stuck += usize::from(at_work.is_some_and(|(_, since)| since > STUCK));
        }
        (alive, stuck)
    }

    /// Reaps killed children, and starts up to `wanted` new ones. Fails if fork(2) fails and no
    /// child has existed for [`STARVED`].
    fn start(&mut self, mut alive: usize, wanted: usize) -> gate::Result<()> {
        let most = MOST.min(self.visible.len());
        let wanted = wanted
            .min(most.saturating_sub(alive))
            .min(self.places - self.children.len());
        // Reap killed children first: until then, the kernel counts them towards the limit of
        // processes.
        for (_, child) in &mut self.killed {
            child.try_wait();
        }
        for _ in 0..wanted {
            let place = self.children.len();
            match Child::fork_detached(|| self.work(place)) {
                Ok(child) => self.children.push(Some(child)),
                // If fork(2) fails because of the limit of processes, the living children continue,
                // and every child that ends makes room for a new one.
                Err(_) if alive > 0 => {
                    self.starved = None;
                    break;
                }
                Err(errno) => {
                    let since = self.starved.get_or_insert_with(Instant::now);
                    if since.elapsed() > STARVED {
                        return Err(errno);
                    }
                    break;
                }
            }
            self.starved = None;
            alive += 1;
        }
        Ok(())
    }

    /// The work of a child: touches one mount after another until none is left.
    fn work(&self, place: usize) {
        let (board, points, visible) = (self.board, self.points, self.visible);
        let before = gate::meter::tally();
        let mine = board.child(place);
        let _ = gate::fs::chdir(c"/"); // a child that cannot be killed must not keep a directory busy
        let marks = self.are_marked.then(|| Marks::new().ok()).flatten();
        loop {
            let at = board.shared[CheckProgress::NEXT].fetch_add(1, SeqCst) as usize;
            let Some(&which) = visible.get(at) else {
                return;
            };
            if let Some(marks) = &marks {
                let _ = marks.set(mark_of(points[which].dev).unwrap_or_default());
            }
            let mount = board.mount(at);
            mount[CheckProgress::BEGUN].store(board.now(), SeqCst);
            mine[0].store(at as u64 + 1, SeqCst);
            let publish = || {
                mount[CheckProgress::ANSWERED].store(board.now(), SeqCst);
                gate::meter::tally().since(&before).publish(&mine[1..]);
            };
            if let Some(content) = points[which].content.as_deref().filter(|_| self.are_marked) {
                touch_images(points[which].dev, content);
                publish();
            }
            if let Err((gate, errno)) = probe_mount(&points[which], publish) {
                mount[CheckProgress::ERRNO].store(errno.0 as u32 as u64, SeqCst);
                mount[CheckProgress::GATE].store(gate as u64, SeqCst);
            }
            publish();
            mount[CheckProgress::DONE].store(board.now(), SeqCst);
            mine[0].store(0, SeqCst);
        }
    }
}

/// Reaps the killed children, and warns of those that do not end.
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
    board: &CheckProgress,
    hung: &[bool],
    deadlines: &[Duration],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for point in points.iter_mut().filter(|point| point.hidden) {
        point.verdict = Some(Verdict::Hidden);
    }
    for (at, &which) in visible.iter().enumerate() {
        let deadline = deadlines[at];
        let [begun, done, errno, gate, answered] =
            std::array::from_fn(|w| board.mount(at)[w].load(SeqCst));
        let took = Duration::from_nanos(done.saturating_sub(begun));
        let errno = Errno(errno as i32);
        let verdict = match errno {
            // A mount is slow, not hung, if its last answer came in the second half of the
            // deadline: the mount was still answering when the deadline passed.
            _ if hung[at]
                && Duration::from_nanos(answered.saturating_sub(begun)) > deadline / 2 =>
            {
                Verdict::Slow
            }
            _ if hung[at] => Verdict::Hung,
            Errno(0) if points[which].fault == Some(Fault::ShutDown) => Verdict::Stale,
            Errno(0) if points[which].fault.is_some() => Verdict::Failing,
            Errno(0) if took > deadline / 10 => Verdict::Slow,
            Errno(0) => Verdict::Ok,
            COVERED => Verdict::Hidden,
            Errno::EACCES | Errno::EPERM => Verdict::Denied,
            _ => Verdict::Stale,
        };
        let point = &mut points[which];
        point.verdict = Some(verdict);
        let gate = Gate::ALL.get(gate as usize).copied();
        let is_deleted = point
            .fsroot()
            .is_some_and(|part| part.ends_with(b"//deleted"));
        let kind = match verdict {
            Verdict::Ok | Verdict::Hidden => continue,
            Verdict::Slow if hung[at] => WarningKind::SlowToAll(deadline),
            Verdict::Slow => WarningKind::Slow(took),
            Verdict::Hung => WarningKind::Hung(deadline),
            Verdict::Failing => match point.fault {
                Some(Fault::Errors(errors)) => WarningKind::Errors(errors),
                Some(Fault::Unwritable) => WarningKind::Unwritable,
                _ => WarningKind::ReadOnlyByError,
            },
            Verdict::Stale if point.fault == Some(Fault::ShutDown) => WarningKind::ShutDown,
            // EIO from a file system without a server does not prove that the device is gone.
            Verdict::Stale if errno == Errno::EIO && !point.fstype().is_some_and(may_hang) => {
                WarningKind::Broken
            }
            Verdict::Stale if is_gone(errno) => WarningKind::Gone,
            Verdict::Stale if is_deleted => WarningKind::Removed,
            Verdict::Stale => WarningKind::Stale,
            Verdict::Denied => WarningKind::Denied,
        };
        warnings.push(match gate {
            Some(gate) if errno != Errno(0) => Warning::failed(&point.target, gate, errno, kind),
            _ => Warning::about(&point.target, kind),
        });
    }
    warnings
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

/// Touches one mount, and calls `publish` after each call that has returned.
fn probe_mount(point: &Point, publish: impl Fn()) -> Result<(), (Gate, Errno)> {
    let gate = |gate| move |errno| (gate, errno);
    let place =
        open_long(&point.target, Open::PATH | Open::NOFOLLOW).map_err(gate(Gate::Openat))?;
    publish();
    let at = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
    let seen = statx(&place, c"", at, StatxMask::BASIC_STATS).map_err(gate(Gate::Statx))?;
    publish();
    if point.id.is_some() && seen.mnt_id.is_some() && point.id != seen.mnt_id {
        return Err((Gate::Statx, COVERED));
    }
    if point.fstype() == Some(b"autofs") {
        return Ok(());
    }
    fstatfs(&place).map_err(gate(Gate::Fstatfs))?;
    publish();
    if seen.file_type == FileType::Directory {
        let dir = openat(&place, c".", Open::SCAN).map_err(gate(Gate::Openat))?;
        publish();
        getdents64(&dir, &mut [0u8; 4096]).map_err(gate(Gate::Getdents64))?;
        publish();
    }
    Ok(())
}
