//! Compares names with those of a reference implementation that never shares tables.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::follow::*;
use super::lookup::AT_FDCWD;
use super::*;
use crate::syscalls::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, O_CLOEXEC};
use gate::fs::Open as Flags;

fn number(name: &str) -> u32 {
    syscalls::by_name(name).unwrap().number
}

fn make<'a>(pid: u32, name: &str, args: [u64; 6], path: Option<&'a [u8]>, result: i64) -> Call<'a> {
    Call {
        pid,
        tid: pid,
        number: number(name),
        args,
        name: path,
        other: None,
        result: Some(result),
        start: 0,
        nanos: 1,
    }
}

const CWD_FD: u64 = AT_FDCWD as u32 as u64;

fn start() -> InheritedFiles {
    InheritedFiles {
        cwd: Some(b"/home".to_vec()),
        files: vec![(0, b"/dev/null".to_vec()), (5, b"/srv".to_vec())],
        ..InheritedFiles::default()
    }
}

/// The name of the file that a call is about, as text.
fn subject(names: &mut Names, call: &Call<'_>) -> Option<String> {
    names
        .call(call)
        .name
        .map(|name| String::from_utf8(name.to_vec()).unwrap())
}

fn opens(
    names: &mut Names,
    pid: u32,
    dir: u64,
    path: &[u8],
    flags: u64,
    fd: i64,
) -> Option<String> {
    subject(
        names,
        &make(pid, "openat", [dir, 0, flags, 0, 0, 0], Some(path), fd),
    )
}

fn file_of(names: &mut Names, pid: u32, fd: u64) -> Option<String> {
    subject(names, &make(pid, "fstat", [fd, 0, 0, 0, 0, 0], None, 0))
}

fn known(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn relative_names_begin_in_the_working_directory_or_the_given_directory() {
    let mut names = Names::new(start());
    let mut asks = |dir, path: &[u8]| {
        subject(
            &mut names,
            &make(7, "newfstatat", [dir, 0, 0, 0, 0, 0], Some(path), 0),
        )
    };
    for (dir, path, name) in [
        (CWD_FD, &b"a"[..], known("/home/a")),
        (CWD_FD, b"./a//b/.", known("/home/a/b")),
        (CWD_FD, b"../x", known("/x")),
        (CWD_FD, b"../../x/../y", known("/x/../y")),
        (CWD_FD, b"/etc//passwd", known("/etc/passwd")),
        (CWD_FD, b"/../etc/", known("/etc")),
        (CWD_FD, b"/", known("/")),
        (5, b"x", known("/srv/x")),
        (5, b"/x", known("/x")),
        (5, b"", known("/srv")),
        (9, b"x", None),
        (9, b"", None),
        (CWD_FD, b"", None),
    ] {
        assert_eq!(asks(dir, path), name, "{dir} {}", path.escape_ascii());
    }
    assert_eq!(asks(CWD_FD, &[b'x'; 4095]), None, "too long");
}

#[test]
fn a_name_may_contain_any_byte() {
    let mut names = Names::new(start());
    let about = names.call(&make(
        7,
        "newfstatat",
        [5, 0, 0, 0, 0, 0],
        Some(b"\xff\n"),
        0,
    ));
    assert_eq!(about.name.as_deref(), Some(&b"/srv/\xff\n"[..]));
    assert!(about.by_name && !about.directory);
}

#[test]
fn descriptors_are_opened_duplicated_and_closed() {
    let mut names = Names::new(start());
    assert_eq!(opens(&mut names, 7, 5, b"x", O_CLOEXEC, 3), known("/srv/x"));
    assert_eq!(opens(&mut names, 7, 5, b"gone", 0, -2), known("/srv/gone"));
    assert_eq!(file_of(&mut names, 7, 3), known("/srv/x"));
    let opened = names
        .call(&make(7, "fstat", [3, 0, 0, 0, 0, 0], None, 0))
        .opened;
    names.call(&make(7, "dup", [3, 0, 0, 0, 0, 0], None, 4));
    assert_eq!(
        names
            .call(&make(7, "read", [4, 0, 9, 0, 0, 0], None, 9))
            .opened,
        opened
    );
    names.call(&make(7, "fcntl", [4, 1030, 8, 0, 0, 0], None, 8));
    names.call(&make(7, "close", [3, 0, 0, 0, 0, 0], None, 0));
    names.call(&make(
        7,
        "close",
        [4, 0, 0, 0, 0, 0],
        None,
        -i64::from(EBADF),
    ));
    assert_eq!(
        [3, 4, 8].map(|fd| file_of(&mut names, 7, fd)),
        [None, known("/srv/x"), known("/srv/x")]
    );
    names.exec(7);
    assert_eq!(
        [4, 5, 8].map(|fd| file_of(&mut names, 7, fd)),
        [known("/srv/x"), known("/srv"), None]
    );
    // A descriptor that an unseen call has closed or opened must not get a wrong name.
    assert_eq!(
        opens(&mut names, 7, 5, b"unnamed", O_TMPFILE, 4),
        known("/srv/unnamed")
    );
    assert_eq!(file_of(&mut names, 7, 4), None);
    names.call(&make(
        7,
        "close_range",
        [0, u64::from(u32::MAX), 0, 0, 0, 0],
        None,
        0,
    ));
    assert_eq!(file_of(&mut names, 7, 5), None);
    assert_eq!(names.held.get(), 0);
}

#[test]
fn after_chroot_only_relative_names_are_known() {
    let mut names = Names::new(start());
    names.call(&make(7, "chdir", [0; 6], Some(b"/srv"), 0));
    names.call(&make(7, "chroot", [0; 6], Some(b"."), 0));
    assert_eq!(opens(&mut names, 7, CWD_FD, b"/x", 0, -2), None);
    assert_eq!(opens(&mut names, 7, CWD_FD, b"x", 0, -2), known("/srv/x"));
    // An unknown process may have a different root.
    assert_eq!(opens(&mut names, 8, CWD_FD, b"/x", 0, -2), None);
}

#[test]
fn calls_with_two_names_and_with_a_text_that_is_no_name() {
    let mut names = Names::new(start());
    let rename = Call {
        other: Some(b"b"),
        ..make(7, "renameat2", [5, 0, CWD_FD, 0, 0, 0], Some(b"a"), 0)
    };
    let about = names.call(&rename);
    assert_eq!(
        (about.name.as_deref(), about.other.as_deref()),
        (Some(&b"/srv/a"[..]), Some(&b"/home/b"[..]))
    );
    let link = Call {
        other: Some(b"link"),
        ..make(7, "symlinkat", [0, 5, 0, 0, 0, 0], Some(b"anything"), 0)
    };
    let about = names.call(&link);
    assert_eq!(
        (about.name.as_deref(), about.other),
        (Some(&b"/srv/link"[..]), None)
    );
}

#[test]
fn memory_is_bounded() {
    let mut names = Names::new(start());
    let long = [b'x'; 4000];
    for fd in 0..10_000 {
        opens(&mut names, 7, CWD_FD, &long, 0, fd);
    }
    assert!(names.held.get() <= MOST_BYTES && names.forgotten() > 5000);
    for child in 100..300 {
        names.fork(&Fork::process(7, child));
        opens(&mut names, child, CWD_FD, b"/x", 0, 20_000);
    }
    assert!(names.held.get() <= 2 * MOST_BYTES, "{}", names.held.get());
    for pid in 1000..20_000 {
        names.fork(&Fork::process(7, pid));
    }
    assert!(names.tasks.len() <= MOST_TASKS);
    (0..20_000).for_each(|tid| names.exit(tid));
    assert_eq!((names.held.get(), names.threads), (0, 0));
}

/// Components of a path, each with a flag: known to be no symbolic link.
type Path = Vec<(String, bool)>;
/// A descriptor in the reference: its path, and its flag close-on-exec.
type File = (Path, bool);

fn shown(path: &Path) -> String {
    match path.is_empty() {
        true => "/".to_owned(),
        false => path.iter().map(|(part, _)| format!("/{part}")).collect(),
    }
}

fn real(name: &str) -> Path {
    name.split('/')
        .filter(|part| !part.is_empty())
        .map(|part| (part.to_owned(), true))
        .collect()
}

/// The reference implementation, in which every thread has its own entry.
#[derive(Default)]
struct Reference {
    tables: Vec<BTreeMap<u32, File>>,
    places: Vec<Option<Path>>,
    /// Process, descriptor table and directory of each thread.
    tasks: BTreeMap<u32, (u32, usize, usize)>,
}

#[derive(Clone, Debug)]
enum TableStep {
    Open {
        fd: u32,
        from: Option<u32>,
        name: &'static str,
        cloexec: bool,
        nofollow: bool,
    },
    Close(u32),
    Dup {
        from: u32,
        to: u32,
        cloexec: bool,
    },
    SetCloexec(u32, bool),
    CloseRange(u32, u32, u64),
    Chdir(&'static str),
    Fchdir(u32),
    Unshare(u64),
    Fork {
        tid: u32,
        thread: bool,
        files: bool,
        fs: bool,
    },
    Exec,
    Exit,
}

fn step() -> impl Strategy<Value = TableStep> {
    let fd = 0..6_u32;
    let name = prop::sample::select(vec!["a", "b/c", "/d", ".", "e/../f", "..", "../g", "h/"]);
    prop_oneof![
        4 => (fd.clone(), prop::option::of(fd.clone()), name.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(fd, from, name, cloexec, nofollow)| TableStep::Open { fd, from, name, cloexec, nofollow }),
        1 => fd.clone().prop_map(TableStep::Close),
        2 => (fd.clone(), fd.clone(), any::<bool>()).prop_map(|(from, to, cloexec)| TableStep::Dup { from, to, cloexec }),
        1 => (fd.clone(), any::<bool>()).prop_map(|(fd, on)| TableStep::SetCloexec(fd, on)),
        1 => (fd.clone(), fd.clone(), prop::sample::select(vec![0, 2, 4, 6]))
            .prop_map(|(a, b, flags)| TableStep::CloseRange(a.min(b), a.max(b), flags)),
        1 => name.prop_map(TableStep::Chdir),
        1 => fd.prop_map(TableStep::Fchdir),
        1 => prop::sample::select(vec![CLONE_FILES, CLONE_FS, CLONE_FILES | CLONE_FS, CLONE_NEWNS]).prop_map(TableStep::Unshare),
        3 => (1..6_u32, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(tid, thread, files, fs)| TableStep::Fork { tid, thread, files, fs }),
        1 => Just(TableStep::Exec),
        1 => Just(TableStep::Exit),
    ]
}

/// A second implementation of `join`. The last component is known to be no link if links were not
/// followed.
fn joined(base: Option<&Path>, name: &str, nofollow: bool) -> Option<Path> {
    let mut path = if name.starts_with('/') {
        Path::new()
    } else {
        base?.clone()
    };
    for part in name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        match path.last() {
            None if part == ".." => {}
            Some((_, true)) if part == ".." => drop(path.pop()),
            _ => path.push((part.to_owned(), false)),
        }
    }
    let last = name
        .rsplit('/')
        .next()
        .filter(|last| !["", ".", ".."].contains(last));
    if let (Some(_), Some(end), true) = (last, path.last_mut(), nofollow) {
        end.1 = true;
    }
    Some(path)
}

impl Reference {
    fn name_of(&self, tid: u32, fd: u32) -> Option<String> {
        let (_, table, _) = self.tasks.get(&tid)?;
        self.tables[*table].get(&fd).map(|file| shown(&file.0))
    }

    fn own_table(&mut self, tid: u32) {
        let copy = self.tables[self.tasks[&tid].1].clone();
        self.tables.push(copy);
        self.tasks.get_mut(&tid).unwrap().1 = self.tables.len() - 1;
    }

    fn own_place(&mut self, tid: u32) {
        let copy = self.places[self.tasks[&tid].2].clone();
        self.places.push(copy);
        self.tasks.get_mut(&tid).unwrap().2 = self.places.len() - 1;
    }

    /// Applies a step to the reference and to `names`.
    fn take(&mut self, names: &mut Names, tid: u32, step: &TableStep) {
        let Some(&(pid, table, place)) = self.tasks.get(&tid) else {
            return;
        };
        let mut tell = |name: &str, args: [u64; 6], path: Option<&'static str>, result: i64| {
            names.call(&Call {
                pid,
                tid,
                ..make(tid, name, args, path.map(str::as_bytes), result)
            });
        };
        match *step {
            TableStep::Open {
                fd,
                from,
                name,
                cloexec,
                nofollow,
            } => {
                let base = match from {
                    Some(from) => self.tables[table].get(&from).map(|file| file.0.clone()),
                    None => self.places[place].clone(),
                };
                let full = joined(base.as_ref(), name, nofollow);
                let follow = if nofollow {
                    Flags::NOFOLLOW.bits() as u64
                } else {
                    0
                };
                let dir = from.map_or(CWD_FD, u64::from);
                let flags = follow | if cloexec { O_CLOEXEC } else { 0 };
                tell(
                    "openat",
                    [dir, 0, flags, 0, 0, 0],
                    Some(name),
                    i64::from(fd),
                );
                match full {
                    Some(full) => drop(self.tables[table].insert(fd, (full, cloexec))),
                    None => drop(self.tables[table].remove(&fd)),
                }
            }
            TableStep::Close(fd) => {
                tell("close", [u64::from(fd), 0, 0, 0, 0, 0], None, 0);
                self.tables[table].remove(&fd);
            }
            TableStep::Dup { from, to, cloexec } if from != to => {
                let flags = if cloexec { O_CLOEXEC } else { 0 };
                tell(
                    "dup3",
                    [from.into(), to.into(), flags, 0, 0, 0],
                    None,
                    i64::from(to),
                );
                match self.tables[table].get(&from).cloned() {
                    Some((name, _)) => drop(self.tables[table].insert(to, (name, cloexec))),
                    None => drop(self.tables[table].remove(&to)),
                }
            }
            TableStep::Dup { .. } => {}
            TableStep::SetCloexec(fd, on) => {
                tell(
                    "fcntl",
                    [fd.into(), u64::from(F_SETFD), u64::from(on), 0, 0, 0],
                    None,
                    0,
                );
                if let Some(file) = self.tables[table].get_mut(&fd) {
                    file.1 = on;
                }
            }
            TableStep::CloseRange(first, last, flags) => {
                tell(
                    "close_range",
                    [first.into(), last.into(), flags, 0, 0, 0],
                    None,
                    0,
                );
                if flags & CLOSE_RANGE_UNSHARE != 0 {
                    self.own_table(tid);
                }
                let table = self.tasks[&tid].1;
                if flags & CLOSE_RANGE_CLOEXEC == 0 {
                    self.tables[table].retain(|fd, _| !(first..=last).contains(fd));
                } else {
                    self.tables[table]
                        .range_mut(first..=last)
                        .for_each(|(_, file)| file.1 = true);
                }
            }
            TableStep::Chdir(name) => {
                tell("chdir", [0; 6], Some(name), 0);
                self.places[place] = joined(self.places[place].as_ref(), name, false);
            }
            TableStep::Fchdir(fd) => {
                tell("fchdir", [fd.into(), 0, 0, 0, 0, 0], None, 0);
                self.places[place] = self.tables[table].get(&fd).map(|file| file.0.clone());
            }
            TableStep::Unshare(flags) => {
                tell("unshare", [flags, 0, 0, 0, 0, 0], None, 0);
                if flags & CLONE_FILES != 0 {
                    self.own_table(tid);
                }
                if flags & (CLONE_FS | CLONE_NEWNS) != 0 {
                    self.own_place(tid);
                }
            }
            TableStep::Fork {
                tid: child,
                thread,
                files,
                fs,
            } => {
                // A meter reports a fork for the process, not for the thread that called fork(2).
                if tid != pid || self.tasks.contains_key(&child) {
                    return;
                }
                let process = if thread { pid } else { child };
                names.fork(&Fork {
                    parent: pid,
                    pid: process,
                    tid: child,
                    shares_files: files,
                    shares_fs: fs,
                });
                self.tasks.insert(child, (process, table, place));
                if !files {
                    self.own_table(child);
                }
                if !fs {
                    self.own_place(child);
                }
            }
            TableStep::Exec => {
                if tid != pid {
                    return;
                }
                names.exec(pid);
                self.tasks
                    .retain(|other, task| task.0 != pid || *other == pid);
                self.own_table(tid);
                let table = self.tasks[&tid].1;
                self.tables[table].retain(|_, file| !file.1);
            }
            TableStep::Exit => {
                // In this test a main thread ends after the others.
                if self.tasks.len() > 1
                    && !self
                        .tasks
                        .iter()
                        .any(|(other, task)| task.0 == tid && *other != tid)
                {
                    names.exit(tid);
                    self.tasks.remove(&tid);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn names_agree_with_the_reference(steps in prop::collection::vec((1..6_u32, step()), 0..60)) {
        let begin = start();
        let mut names = Names::new(begin.clone());
        let mut reference = Reference {
            tables: vec![begin.files.iter().map(|(fd, name)| (*fd, (real(str::from_utf8(name).unwrap()), false))).collect()],
            places: vec![Some(real("/home"))],
            tasks: BTreeMap::from([(1, (1, 0, 0))]),
        };
        names.call(&make(1, "getcwd", [0; 6], None, 1));
        for (tid, step) in &steps {
            reference.take(&mut names, *tid, step);
            for (&tid, &(pid, _, place)) in &reference.tasks {
                for fd in 0..6 {
                    let call = Call { pid, tid, ..make(tid, "fstat", [u64::from(fd), 0, 0, 0, 0, 0], None, 0) };
                    prop_assert_eq!(subject(&mut names, &call), reference.name_of(tid, fd), "{} {} after {:?}", tid, fd, step);
                }
                let call = Call { pid, tid, ..make(tid, "openat", [CWD_FD, 0, 0, 0, 0, 0], Some(b"z"), -2) };
                let expected = joined(reference.places[place].as_ref(), "z", false).map(|path| shown(&path));
                prop_assert_eq!(subject(&mut names, &call), expected, "{} after {:?}", tid, step);
            }
        }
        let tids: Vec<u32> = reference.tasks.keys().copied().collect();
        tids.iter().for_each(|tid| names.exit(*tid));
        prop_assert_eq!(names.held.get(), 0);
    }

    #[test]
    fn no_call_causes_a_panic(
        calls in prop::collection::vec((0..480_u32, any::<[u64; 6]>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..8)),
            -50..50_i64, 1..4_u32), 0..40),
    ) {
        let mut names = Names::new(InheritedFiles::default());
        for (number, args, name, result, tid) in &calls {
            names.call(&Call {
                pid: 1, tid: *tid, number: *number, args: *args, name: name.as_deref(), other: name.as_deref(),
                result: Some(*result).filter(|result| *result != 7), start: 0, nanos: 0,
            });
        }
    }
}

#[test]
fn components_are_separated_by_slashes() {
    assert_eq!(
        [&b"/"[..], b"a", b"/a//b/", b""].map(components),
        [0, 1, 2, 0]
    );
}

#[test]
fn names_that_no_call_has_given_are_unknown() {
    let mut names = Names::new(start());
    // open_by_handle_at(2) opens any file of the file system, not that of its descriptor argument.
    let handle = make(7, "open_by_handle_at", [5, 0, 0, 0, 0, 0], None, 6);
    assert_eq!(subject(&mut names, &handle), None);
    assert_eq!(file_of(&mut names, 7, 6), None);
    assert_eq!(file_of(&mut names, 7, 5), known("/srv"));
    // RESOLVE_IN_ROOT, which no argument shows, keeps `..` below the directory.
    for (path, name) in [
        (&b"x"[..], known("/srv/x")),
        (b"../x", None),
        (b"a/../x", None),
    ] {
        let open = make(7, "openat2", [5, 0, 0, 0, 0, 0], Some(path), 8);
        assert_eq!(subject(&mut names, &open), name);
        assert_eq!(file_of(&mut names, 7, 8), name);
    }
    // io_uring requests may close and open descriptors.
    assert_eq!(opens(&mut names, 7, CWD_FD, b"a", 0, 10), known("/home/a"));
    names.fork(&Fork::process(7, 8));
    names.call(&make(7, "io_uring_setup", [8, 0, 0, 0, 0, 0], None, 11));
    for fd in [0, 5, 10, 11] {
        assert_eq!(file_of(&mut names, 7, fd), None, "{fd}");
    }
    assert_eq!(opens(&mut names, 7, 5, b"x", 0, 12), None);
    assert_eq!(opens(&mut names, 7, CWD_FD, b"b", 0, 12), known("/home/b"));
    assert_eq!(file_of(&mut names, 7, 12), None);
    // A forked process has its own table, and the next program of this process has no io_uring.
    assert_eq!(file_of(&mut names, 8, 10), known("/home/a"));
    names.exec(7);
    assert_eq!(file_of(&mut names, 7, 5), None);
    assert_eq!(opens(&mut names, 7, CWD_FD, b"b", 0, 5), known("/home/b"));
    assert_eq!(file_of(&mut names, 7, 5), known("/home/b"));
}
