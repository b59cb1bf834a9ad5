//! A tree made from archives, beneath one directory and nowhere else. docs/restore.md says what
//! that means.
//!
//! Members are taken in their order, so that memory does not grow with the archive. A directory
//! gets its owner, mode and times when the work goes on outside it; until then it is its maker's
//! alone. A file has no name until it is whole.
//!
//! Nothing outside DIR is touched, whatever the archive says and whatever others do to the tree
//! meanwhile: every directory is opened from the one above it by a name without `/` and `..`,
//! symlinks are never followed, and what has a name is worked on by that name in an open directory,
//! or by its own descriptor.
//!
//! | room | what is in it |
//! |---|---|
//! | `name` | names in archives: which are sound, which were chosen |
//! | `trail` | the way down from DIR, open |
//! | `make` | members made |
//! | `attributes` | owner, mode, times, extended attributes, access control lists |
//! | `owners` | numbers of users and groups by their names |
//! | `increment` | renames, and what is no longer there taken away |
//! | `remove` | a whole directory taken away |
//! | `rehearsal` | `--dry-run` |

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gate::create::{fchmodat, fchmodat2, in_proc, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{At, FileType, Open, Statx, Time, Want, openat, statx};
use gate::long::{c_string, open_beneath, open_long};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::pax::{Kind, Member};
use walk::Moment;
use walk::moment::may_be_since;

use crate::error::{Action, Error};
use crate::input::{Input, Verdict};
use crate::tick::before_a_tick;
use crate::warning::WarningKind;
use attributes::{Late, inherits};
use name::{Chosen, clean, split};
use owners::Owners;
use std::borrow::Cow;
use trail::Trail;

pub use rehearsal::Step;

mod attributes;
mod increment;
mod make;
mod name;
pub(crate) mod owners;
mod rehearsal;
mod remove;
mod trail;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// The archives, in the order in which they were made; `-` is standard input.
    pub archives: Vec<Vec<u8>>,
    /// The directory to restore into; it must be there.
    pub dir: Vec<u8>,
    /// Names of members: these and what is below them, or all if there are none.
    pub paths: Vec<Vec<u8>>,
    /// Whether owners go by their numbers, even where their names are known.
    pub numeric_owner: bool,
    /// Whether to say what would be done, and touch nothing.
    pub dry_run: bool,
}

/// How much was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Plain files.
    pub files: u64,
    /// Directories that the archives have, made or given their attributes anew.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Further names of files.
    pub links: u64,
    /// Fifos and devices.
    pub other: u64,
    /// Bytes of data that were written; holes are none.
    pub bytes: u64,
    /// What was there and is not in an increment any more, and was taken away.
    pub removed: u64,
    /// Directories renamed as an increment says.
    pub renamed: u64,
    /// Members that were left out for a reason that a warning names.
    pub skipped: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct RestoreSummary {
    /// How much was done; with [`RestoreOptions::dry_run`], would have been.
    pub counts: Counts,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// What is as it must be here, and not as it was where the archive was made.
    pub notes: Vec<String>,
    /// Why the archives were not restored to their end. What was restored until then stays.
    pub stopped: Option<Error>,
}

/// Where somebody may look how far it is.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    members: AtomicU64,
    bytes: AtomicU64,
    place: Mutex<Vec<u8>>,
}

impl RestoreProgress {
    /// Members seen, bytes written, and the directory where the work is.
    pub fn far(&self) -> (u64, u64, Vec<u8>) {
        let place = self.place.lock().clone();
        (self.members.load(Relaxed), self.bytes.load(Relaxed), place)
    }

    fn count_member(&self) {
        self.members.fetch_add(1, Relaxed);
    }
}

/// Restores archives. `say` is told what would be done, step by step, with [`RestoreOptions::dry_run`].
///
/// # Errors
/// Why it could not be begun. Nothing was touched then.
pub fn restore(
    options: &RestoreOptions,
    progress: &RestoreProgress,
    say: &mut dyn FnMut(Step),
) -> Result<RestoreSummary, Error> {
    let mut chosen = Chosen::new(&options.paths)?;
    let dir = open_long(&options.dir, Open::DIRECTORY | Open::NONBLOCK)
        .map_err(|errno| Error::new(Action::RestoreInto, &options.dir, errno))?;
    // Before anything is touched: a chain with a link missing is no chain, and a member may have
    // the name of a file that is here.
    for path in options.archives.iter().filter(|path| *path != b"-") {
        let seen = gate::long::statx_long(path, At::empty(), Want::TYPE)
            .map_err(|errno| Error::new(Action::OpenArchive, path, errno))?;
        if seen.file_type == FileType::Regular {
            Input::open(path)?;
        }
    }
    if !chosen.is_all() {
        chosen.trace(increment::traced(&options.archives));
    }
    if options.dry_run {
        return Ok(rehearsal::rehearse(
            options,
            chosen,
            Rc::new(dir),
            progress,
            say,
        ));
    }
    let mut restorer = Restorer::new(options, Rc::new(dir), chosen, progress);
    let done = options
        .archives
        .iter()
        .try_for_each(|archive| restorer.archive(archive));
    restorer.leave_all();
    Ok(RestoreSummary {
        stopped: done.err(),
        ..restorer.into_summary()
    })
}

/// Why a member is not restored, or not quite.
#[derive(Debug)]
struct Trouble {
    gate: Option<Gate>,
    errno: Option<Errno>,
    kind: WarningKind,
}

/// What helps against a failed system call, whatever it was to do.
fn help(errno: Errno) -> &'static str {
    match errno {
        Errno::EMFILE | Errno::ENFILE => "; let more files be open, see ulimit -n",
        Errno::ENOSPC | Errno::EDQUOT => "; make room, and restore again",
        Errno::EROFS => "; restore to where you may write",
        _ => "",
    }
}

impl Trouble {
    /// With what helps against it, where that is the same whatever was to be done.
    fn call(gate: Gate, errno: Errno, message: impl Into<Cow<'static, str>>) -> Trouble {
        let kind = WarningKind::NotRestored(message.into() + help(errno));
        Trouble::failed(gate, errno, kind)
    }

    fn failed(gate: Gate, errno: Errno, kind: WarningKind) -> Trouble {
        Trouble {
            gate: Some(gate),
            errno: Some(errno),
            kind,
        }
    }

    /// What has a name is to go, and cannot.
    fn in_the_way(errno: Errno) -> Trouble {
        const WHAT: &str = "not restored: what has its name cannot be taken away";
        let next = if errno == Errno::EPERM {
            "; lsattr shows whether it is immutable"
        } else {
            ""
        };
        Trouble::call(Gate::Unlinkat, errno, [WHAT, next].concat())
    }

    fn because(message: impl Into<Cow<'static, str>>) -> Trouble {
        Trouble {
            gate: None,
            errno: None,
            kind: WarningKind::NotRestored(message.into()),
        }
    }
}

/// What stops everything, or one member only.
enum Halt {
    All(Error),
    One(Trouble),
}

impl From<Trouble> for Halt {
    fn from(trouble: Trouble) -> Halt {
        Halt::One(trouble)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::All(error)
    }
}

/// Warnings and notes, each cause once where once is enough, and no more than memory is to be spent
/// on.
#[derive(Debug, Default)]
struct Remarks {
    warnings: Vec<Warning>,
    notes: Vec<String>,
    /// Bytes in the warnings.
    size: usize,
    /// Warnings that there was no room for.
    left_out: u64,
    said: HashSet<(Option<Errno>, &'static str)>,
}

impl Remarks {
    /// An archive can give cause for as many warnings as it likes.
    const MOST: usize = 4 << 20;
    /// Names are given up to here.
    const LONGEST: usize = 4096;

    fn warn(&mut self, path: &[u8], trouble: Trouble) {
        let path = path.get(..Remarks::LONGEST).unwrap_or(path);
        self.size += path.len() + trouble.kind.to_string().len() + size_of::<Warning>();
        if self.size > Remarks::MOST {
            self.left_out += 1;
            return;
        }
        let Trouble { gate, errno, kind } = trouble;
        self.warnings.push(Warning {
            path: Some(path.to_vec()),
            gate,
            errno,
            ..Warning::general(kind)
        });
    }

    /// Warns of the first of a kind only.
    fn warn_once(&mut self, path: &[u8], gate: Gate, errno: Errno, what: &'static str) {
        if self.said.insert((Some(errno), what)) {
            self.warn(
                path,
                Trouble::call(
                    gate,
                    errno,
                    format!("{what}; of others for which the same holds, nothing is said"),
                ),
            );
        }
    }

    /// Says something once that is nothing wrong.
    fn note(&mut self, what: &'static str) {
        if self.said.insert((None, what)) {
            self.notes.push(what.to_owned());
        }
    }

    fn into_parts(mut self) -> (Vec<Warning>, Vec<String>) {
        if self.left_out > 0 {
            let kind = WarningKind::MoreThanFit(self.left_out);
            self.warnings.push(Warning::general(kind));
        }
        (self.warnings, self.notes)
    }
}

/// What is known of a directory on the way.
#[derive(Debug, Default)]
struct Doing {
    /// What it gets when it is left.
    late: Option<Box<Late>>,
    /// Whether what is made in it gets an access control list from it.
    inherits: bool,
}

/// Who we are.
struct Rights {
    is_root: bool,
    uid: u32,
    gid: u32,
    /// The permissions of a directory that no member describes.
    plain_directory: u32,
}

struct Restorer<'a> {
    progress: &'a RestoreProgress,
    top: Rc<Fd>,
    top_doing: Doing,
    trail: Trail<Doing>,
    chosen: Chosen,
    owners: Owners,
    rights: Rights,
    remarks: Remarks,
    counts: Counts,
    /// What has a ctime from then on was changed in this run, as far as can be told.
    started: Time,
    /// The directory in which the last hard link's other name was.
    linked: Option<(Vec<u8>, Rc<Fd>)>,
    /// Whether files can be made without a name here; found out with the first.
    has_unnamed: bool,
    /// Whether an archive was restored before this one.
    is_later: bool,
}

impl Drop for Restorer<'_> {
    fn drop(&mut self) {
        gate::create::umask(0o777 & !self.rights.plain_directory);
    }
}

impl<'a> Restorer<'a> {
    fn new(
        options: &RestoreOptions,
        top: Rc<Fd>,
        chosen: Chosen,
        progress: &'a RestoreProgress,
    ) -> Restorer<'a> {
        // Members have the permissions that the archive says, from their first moment.
        let umask = gate::create::umask(0);
        let is_root = gate::process::is_root();
        let (uid, gid) = gate::process::ids();
        Restorer {
            progress,
            top_doing: Doing {
                late: None,
                inherits: inherits(&top),
            },
            trail: Trail::new(Rc::clone(&top)),
            top,
            chosen,
            owners: if is_root && !options.numeric_owner {
                Owners::read()
            } else {
                Owners::default()
            },
            rights: Rights {
                is_root,
                uid,
                gid,
                plain_directory: 0o777 & !umask,
            },
            remarks: Remarks::default(),
            counts: Counts::default(),
            started: before_a_tick(Moment::now().time()),
            linked: None,
            has_unnamed: true,
            is_later: false,
        }
    }

    fn into_summary(mut self) -> RestoreSummary {
        let chosen = std::mem::take(&mut self.chosen);
        let mut remarks = std::mem::take(&mut self.remarks);
        missed(chosen, &mut remarks);
        let (warnings, notes) = remarks.into_parts();
        RestoreSummary {
            counts: self.counts,
            warnings,
            notes,
            stopped: None,
        }
    }

    /// Restores one archive.
    fn archive(&mut self, archive: &[u8]) -> Result<(), Error> {
        let mut input = Input::open(archive)?;
        if self.chosen.is_all() {
            // All is read anyway.
            input.check();
        }
        let mut before = Vec::new();
        loop {
            let next = input.next();
            if input.verdict() == Some(Verdict::Wrong) {
                let what = "its contents are not what was dumped, by their checksum: the archive is damaged";
                self.remarks.warn(&before, Trouble::because(what));
            }
            let Some(member) = next? else {
                break;
            };
            self.progress.count_member();
            if member.kind == Kind::LABEL {
                continue;
            }
            let done = match taken(&member, &mut self.chosen, &mut self.remarks) {
                Ok(Some(path)) => self.member(&path, &member, &mut input),
                Ok(None) => {
                    // What was chosen may come along with a directory that was not, or be gone from
                    // one.
                    match member.dumpdir.as_deref().filter(|_| self.is_later) {
                        Some(dumpdir) => self.pass_by(&member, dumpdir).map_err(Halt::One),
                        None => Ok(()),
                    }
                }
                Err(trouble) => Err(Halt::One(trouble)),
            };
            match done {
                Ok(()) => {}
                Err(Halt::One(trouble)) => self.skip(&member.path, trouble),
                Err(Halt::All(error)) => return Err(error),
            }
            before = member.path;
        }
        self.leave_all();
        self.is_later = true;
        self.chosen.next_archive();
        Ok(())
    }

    fn skip(&mut self, path: &[u8], trouble: Trouble) {
        self.counts.skipped += 1;
        self.remarks.warn(path, trouble);
    }

    fn member(&mut self, path: &[u8], member: &Member, input: &mut Input) -> Result<(), Halt> {
        if member.kind == Kind::Directory {
            return Ok(self.directory(path, member)?);
        }
        if path.is_empty() {
            return Err(Trouble::because(
                "it has the name of the directory to restore into, and is none",
            )
            .into());
        }
        let (dir, name) = split(path);
        let name = c_string(name)
            .map_err(|e| Trouble::call(Gate::Openat2, e, "it has no possible name"))?;
        self.enter(dir)?;
        match member.kind {
            Kind::File => self.file(path, &name, member, input)?,
            Kind::Symlink => self.symlink(path, &name, member)?,
            Kind::Link => self.link(path, &name, member)?,
            Kind::Char | Kind::Block | Kind::Fifo => self.node(path, &name, member)?,
            Kind::Directory | Kind::Unknown(_) => {
                return Err(Trouble::because("it is of a kind that cannot be restored").into());
            }
        }
        Ok(())
    }

    /// The last directory on the way, open.
    fn here(&mut self) -> Result<Rc<Fd>, Trouble> {
        self.trail.here().map_err(on_the_way)
    }

    fn doing(&mut self) -> &mut Doing {
        self.trail.last().unwrap_or(&mut self.top_doing)
    }

    /// Goes to a directory, which is made where it is missing. Those that are left get what they
    /// are still to get.
    fn enter(&mut self, dir: &[u8]) -> Result<(), Trouble> {
        if self.trail.path() == dir {
            return Ok(());
        }
        while self.trail.rest(dir).is_none() {
            self.leave();
        }
        let rest = self.trail.rest(dir).unwrap_or_default();
        for name in rest.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let here = self.here()?;
            let above_inherits = self.doing().inherits;
            let c_name = c_string(name).map_err(on_the_way)?;
            let (fd, doing) = match self.open_directory(&here, &c_name, false) {
                Ok((fd, seen, changed_mode)) => {
                    let is_ours = self.is_of_this_run(&seen);
                    let late = is_ours.then(|| Box::new(Late::put_back(&seen, changed_mode)));
                    let inherits = inherits(&fd);
                    (fd, Doing { late, inherits })
                }
                Err(Errno::ENOENT) => {
                    let mode =
                        self.rights.plain_directory | if self.rights.is_root { 0 } else { 0o700 };
                    gate::create::mkdirat(&here, &c_name, mode).map_err(|e| {
                        Trouble::call(
                            Gate::Mkdirat,
                            e,
                            "not restored: a directory above it cannot be made",
                        )
                    })?;
                    let fd = open_beneath(here.as_fd(), name, Open::SCAN).map_err(on_the_way)?;
                    (
                        fd,
                        Doing {
                            late: None,
                            inherits: above_inherits,
                        },
                    )
                }
                Err(e) => return Err(on_the_way(e)),
            };
            self.trail.push(name, Rc::new(fd), doing);
        }
        let mut place = self.progress.place.lock();
        place.clear();
        place.extend_from_slice(dir);
        Ok(())
    }

    /// Goes up from the last directory on the way, which gets what it is still to get.
    fn leave(&mut self) {
        let late = self.doing().late.take();
        if let Some(late) = late {
            let path = self.trail.path().to_vec();
            match self.trail.here() {
                Ok(here) => late.give(&here, &path, &mut self.remarks),
                Err(e) => self.remarks.warn(&path, on_the_way(e)),
            }
        }
        self.trail.pop();
    }

    /// Goes all the way up, and gives DIR itself what it is to get.
    fn leave_all(&mut self) {
        while !self.trail.path().is_empty() {
            self.leave();
        }
        if let Some(late) = self.top_doing.late.take() {
            late.give(&self.top, b".", &mut self.remarks);
        }
    }

    /// Opens a directory. Where it is the user's own who does not let himself in, and a member
    /// (`is_member`) or this run has made it so, he is let in first. Gives what it was like before,
    /// and whether that was so.
    fn open_directory(
        &self,
        here: &Fd,
        name: &CStr,
        is_member: bool,
    ) -> gate::Result<(Fd, Statx, bool)> {
        const ALL: u32 = 0o700;
        let lets_in = |seen: &Statx| {
            let may = is_member || self.is_of_this_run(seen);
            !self.rights.is_root && may && seen.uid == self.rights.uid && seen.mode & ALL != ALL
        };
        let open = || open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN);
        match open() {
            Err(Errno::EACCES) if !self.rights.is_root => {
                let seen = statx(here, name, At::SYMLINK_NOFOLLOW, Want::BASIC_STATS)?;
                if seen.file_type != FileType::Directory || !lets_in(&seen) {
                    return Err(Errno::EACCES);
                }
                change_mode(here, name, seen.mode | ALL)?;
                Ok((open()?, seen, true))
            }
            Err(e) => Err(e),
            Ok(fd) => {
                let seen = statx(&fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)?;
                let is_let_in = lets_in(&seen);
                if is_let_in {
                    gate::create::fchmod(&fd, seen.mode | ALL)?;
                }
                Ok((fd, seen, is_let_in))
            }
        }
    }

    /// Whether something was changed in this run, and so most likely by it.
    fn is_of_this_run(&self, seen: &Statx) -> bool {
        may_be_since(seen.ctime, self.started)
    }

    /// Makes room for what is to have a name: takes away what has it, save a directory with
    /// something in it.
    fn clear(&self, here: &Fd, name: &CStr) -> Result<(), Trouble> {
        let done = match unlinkat(here, name) {
            Err(Errno::EISDIR) => unlinkat_directory(here, name),
            other => other,
        };
        done.or_else(|e| match e {
            Errno::ENOENT => Ok(()),
            Errno::ENOTEMPTY => {
                let what = "not restored: a directory that is not empty has its name; move it away, and restore again";
                Err(Trouble::call(Gate::Unlinkat, e, what))
            }
            e => Err(Trouble::in_the_way(e)),
        })
    }
}

/// The name under which a member is to be restored; `None` for one that was not chosen.
fn taken(
    member: &Member,
    chosen: &mut Chosen,
    remarks: &mut Remarks,
) -> Result<Option<Vec<u8>>, Trouble> {
    let name =
        clean(&member.path).map_err(|why| Trouble::because(format!("not restored: {why}")))?;
    let Some(place) = chosen.takes(&name.path) else {
        return Ok(None);
    };
    // In the end it is a directory.
    if member.kind != Kind::Directory && chosen.has_ahead(&place, &name.path) {
        return Ok(None);
    }
    if name.was_absolute {
        remarks.note(
            "the slash that names begin with is left away: all is restored beneath the directory",
        );
    }
    Ok(Some(place))
}

/// Warns of what was asked for and is in no archive.
fn missed(chosen: Chosen, remarks: &mut Remarks) {
    for path in chosen.missed() {
        let what =
            "no archive has a member of this name; fathom list gives the names that there are";
        remarks.warn(&path, Trouble::because(what));
    }
}

/// Changes the mode of what has a name, and never of what a symlink leads to.
fn change_mode(here: &Fd, name: &CStr, mode: u32) -> gate::Result<()> {
    match fchmodat2(here, name, mode) {
        Err(Errno::ENOSYS) => {
            let fd = openat(here, name, Open::PATH | Open::NOFOLLOW)?;
            fchmodat(&in_proc(&fd, b"")?, mode)
        }
        other => other,
    }
}

/// A directory on the way that cannot be opened.
fn on_the_way(errno: Errno) -> Trouble {
    let what = match errno {
        Errno::ELOOP | Errno::ENOTDIR => {
            "not restored: what is above it is no directory here; a symlink is not followed, so move it away first"
        }
        Errno::EACCES => "not restored: a directory above it may not be entered; run as root",
        _ => "not restored: a directory above it cannot be opened",
    };
    Trouble::call(Gate::Openat2, errno, what)
}
