//! Tests that archives can be read, for any selection and in each format: listed, verified and
//! restored, completely and by PATH, with the index and without, by fathom without a warning; and
//! by GNU tar and bsdtar.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, lsetxattr};

use super::changes::change;
use super::full::{NEEDS, by_bsdtar, by_gnu_tar, forgive_bsdtar, listed, quiet};
use super::rounds::{self, grown};
use super::seek::table_of;
use crate::support::build::{dir, file, name, tmpfs};
use crate::support::effort::effort;
use crate::support::run::{Ran, args, exact};
use crate::support::snapshot::{Snapshot, alike, ignore_inherited, kept, same, snapshot};
use crate::support::trees::Dice;
use crate::support::{fathom, in_namespace, require, run};

const FORMATS: [&str; 4] = [".tar", ".tar.zst", ".tar.gz", ".tar.xz"];

/// Creates the sources: `t`, a tree of every kind of file; `u`, which shares some files with `t`;
/// and the file `one`.
fn sources(at: &Path, seed: u64) {
    grown(&dir(at.join("t/grown")), seed);
    for n in 0..12 {
        file(at.join(format!("t/large/d{}/f{n}", n % 5)), 260_000 + n);
    }
    file(at.join("t").join("n".repeat(200)).join("m".repeat(200)), 10);
    let sparse = fs::File::create(at.join("t/sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    let attributes = dir(at.join("t/attributes"));
    for n in 0..200 {
        let name = format!("trusted.number {n}");
        lsetxattr(&attributes, name, &[n; 20], XattrFlags::empty()).unwrap();
    }
    dir(at.join("u/empty"));
    fs::hard_link(at.join("t/large/d0/f0"), at.join("u/f0")).unwrap();
    fs::hard_link(at.join("t/large/d0/f0"), at.join("t/large/again")).unwrap();
    symlink("../t", at.join("u/link")).unwrap();
    file(at.join("u/a/f"), 1);
    file(at.join("u/a-b/f"), 2);
    file(at.join("one"), 3);
}

/// Returns whether a name is selected.
type Has = Box<dyn Fn(&[u8]) -> bool>;

/// The arguments of a dump, and the names in its archive.
struct Selection {
    sources: Vec<&'static str>,
    /// Options of the dump, and of the comparison with the tree.
    options: Vec<OsString>,
    has: Has,
}

/// Whether a name equals `top`, or is below it.
fn is_within(name: &[u8], top: &[u8]) -> bool {
    let rest = name.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn of_sources(sources: &[&'static str]) -> Selection {
    let tops = sources.to_vec();
    Selection {
        sources: tops.clone(),
        options: Vec::new(),
        has: Box::new(move |name| {
            tops.iter()
                .any(|top| *top == "." || is_within(name, top.as_bytes()))
        }),
    }
}

/// All entries except those with one name, chosen at random.
fn without_a_name(all: &Snapshot, dice: &mut Dice) -> Selection {
    let last =
        |name: &Vec<u8>| String::from_utf8(name.rsplit(|&b| b == b'/').next()?.to_vec()).ok();
    let is_plain = |name: &String| !name.contains(['*', '?', '[', '\\']);
    let below = all.keys().filter(|name| name.contains(&b'/'));
    let names: Vec<String> = below.filter_map(last).filter(is_plain).collect();
    let excluded = dice.pick(&names).clone();
    let is_kept = {
        let excluded = excluded.clone();
        move |name: &[u8]| {
            let parts = name.split(|&b| b == b'/');
            is_within(name, b"t") && !parts.skip(1).any(|part| part == excluded.as_bytes())
        }
    };
    Selection {
        sources: vec!["t"],
        options: vec![format!("--exclude={excluded}").into()],
        has: Box::new(is_kept),
    }
}

/// The existing entries `names`, in the file `list`.
fn of_list(names: Vec<Vec<u8>>, list: &Path) -> Selection {
    let lines = names.iter().flat_map(|name| [&name[..], b"\0"]);
    fs::write(list, lines.collect::<Vec<_>>().concat()).unwrap();
    Selection {
        sources: Vec::new(),
        options: args!["-0", "--files-from", list].to_vec(),
        has: Box::new(move |name| {
            names
                .iter()
                .any(|listed| is_within(name, listed) || is_within(listed, name))
        }),
    }
}

/// The selected entries of a tree; hard links refer to selected entries only.
fn selected(all: &Snapshot, has: impl Fn(&[u8]) -> bool) -> Snapshot {
    let mut some: Snapshot = all
        .iter()
        .filter(|(name, _)| !name.is_empty() && has(name))
        .map(|(name, seen)| (name.clone(), seen.clone()))
        .collect();
    let mut files: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, seen) in &some {
        if let Some(first) = &seen.twin {
            files.entry(first.clone()).or_default().push(name.clone());
        }
    }
    for names in files.into_values() {
        let first = Some(names[0].clone()).filter(|_| names.len() > 1);
        for name in names {
            some.get_mut(&name).unwrap().twin = first.clone();
        }
    }
    some
}

/// Runs a command, which must succeed without a message on standard error.
#[track_caller]
fn silent(command: &mut Command) -> Ran {
    let ran = run(command).exits(0);
    assert!(ran.stderr.is_empty(), "{ran}");
    ran
}

/// A dump, and the files to read it with.
struct Case<'a> {
    /// The parent directory of the sources.
    at: &'a Path,
    out: &'a Path,
    /// A full dump, or a full dump and an increment.
    archives: Vec<PathBuf>,
    expected: Snapshot,
    what: String,
}

impl Case<'_> {
    fn archive(&self) -> &Path {
        self.archives.last().unwrap()
    }

    /// The names that `list` prints, sorted, and the number of members.
    fn names(&self, archive: &Path, paths: &[&[u8]]) -> (BTreeSet<Vec<u8>>, usize) {
        let mut list = fathom(args!["list", "--json", archive, "--"]);
        let ran = silent(list.args(paths.iter().map(|path| name(path))));
        let json = ran.json();
        let members = json["result"]["members"].as_array().unwrap();
        let plain = |member| {
            let name = exact(member, "path");
            let name = name.strip_prefix(b"./").unwrap_or(&name).to_vec();
            name.strip_suffix(b"/").unwrap_or(&name).to_vec()
        };
        let names: BTreeSet<Vec<u8>> = members.iter().map(plain).collect();
        (
            names.into_iter().filter(|name| !name.is_empty()).collect(),
            members.len(),
        )
    }

    /// Restores the archives into an empty directory.
    fn restored(&self, archives: &[PathBuf], paths: &[&[u8]]) -> Snapshot {
        let _ = fs::remove_dir_all(self.out);
        let out = dir(self.out);
        let mut restore = fathom(args!["restore", "-q", "--numeric-owner", "-C", &out]);
        restore.args(archives).arg("--");
        silent(restore.args(paths.iter().map(|path| name(path))));
        snapshot(&out)
            .into_iter()
            .filter(|(name, _)| !name.is_empty())
            .collect()
    }

    fn is_read_whole(&self, selection: &Selection) {
        silent(&mut fathom(args!["verify", "-q", self.archive()]));
        let mut against = fathom(args!["verify", "-q", self.archive(), "--against", "."]);
        silent(against.args(&selection.options).current_dir(self.at));
        let restored = self.restored(&self.archives, &[]);
        same(&self.expected, &restored, &self.what);
        let (names, members) = self.names(self.archive(), &[]);
        let lines = listed(self.archive());
        assert_eq!(
            lines.split(|&b| b == b'\n').count() - 1,
            members,
            "{}",
            self.what
        );
        quiet(Command::new("bsdtar").arg("-tf").arg(self.archive()));
        if self.archives.len() == 1 {
            assert!(
                names.iter().eq(self.expected.keys()),
                "{}: {names:?}",
                self.what
            );
        }
    }

    fn is_read_by_others(&self) {
        let _ = fs::remove_dir_all(self.out);
        if let [archive] = &self.archives[..] {
            by_gnu_tar(archive, self.out);
        } else {
            dir(self.out);
            self.archives
                .iter()
                .for_each(|archive| rounds::by_gnu_tar(archive, self.out));
        }
        self.is_restored_by("GNU tar");
        if let [archive] = &self.archives[..] {
            fs::remove_dir_all(self.out).unwrap();
            by_bsdtar(archive, self.out);
            self.is_restored_by("bsdtar");
        }
    }

    fn is_restored_by(&self, program: &str) {
        let mut is = snapshot(self.out);
        is.remove(&b""[..]);
        match program {
            "bsdtar" => forgive_bsdtar(&self.expected, &mut is),
            _ => ignore_inherited(&self.expected, &mut is),
        }
        same(&self.expected, &is, &format!("{}, {program}", self.what));
    }

    /// Checks every command with one PATH.
    fn is_read_by_path(&self, archives: &[PathBuf], path: &[u8], what: &str) {
        let what = format!("{}, {what}: {}", self.what, path.escape_ascii());
        let wanted = selected(&self.expected, |name| is_within(name, path));
        let is_above = |name: &[u8]| is_within(path, name) && name != path;
        let mut restored = self.restored(archives, &[path]);
        restored.retain(|name, _| !is_above(name));
        alike(&wanted, &restored, &what, |_, seen| seen.atime = (0, 0));
        if let [archive] = archives {
            let (names, _) = self.names(archive, &[path]);
            assert!(names.iter().eq(wanted.keys()), "{what}: {names:?}");
            let verify = args!["verify", "-q", archive, "--", name(path)];
            silent(&mut fathom(verify));
        }
    }

    /// Checks every command with several PATHs, with the index and without.
    fn is_read_by_paths(&self, dice: &mut Dice) {
        let is_plain = |name: &&Vec<u8>| !name.iter().any(|byte| b"*?[".contains(byte));
        let names: Vec<&Vec<u8>> = self.expected.keys().filter(is_plain).collect();
        let tops = names.iter().copied().filter(|name| !name.contains(&b'/'));
        let top = dice.pick(&tops.collect::<Vec<_>>()).to_vec();
        for path in [top, dice.pick(&names).to_vec()] {
            self.is_read_by_path(&self.archives, &path, "as it is");
            if self.archive().to_string_lossy().ends_with(".zst") {
                let cut: Vec<PathBuf> = self.archives.iter().map(|it| without_table(it)).collect();
                self.is_read_by_path(&cut, &path, "without an index");
            }
        }
    }
}

/// A copy of the archive without its seek table, which must be read from the beginning.
fn without_table(archive: &Path) -> PathBuf {
    let mut bytes = fs::read(archive).unwrap();
    bytes.truncate(table_of(&bytes).1 as usize);
    let cut = archive.with_extension("cut");
    fs::write(&cut, bytes).unwrap();
    cut
}

fn select(round: usize, all: &Snapshot, list: &Path, dice: &mut Dice) -> Selection {
    let names: Vec<&Vec<u8>> = all.keys().filter(|name| !name.is_empty()).collect();
    match round % 7 {
        0 => {
            let many = 1 + dice.below(9);
            let mut listed: Vec<Vec<u8>> = (0..many).map(|_| dice.pick(&names).to_vec()).collect();
            // Entries of several sources: the directory that contains all sources is their only
            // common parent.
            listed.extend([&b"u/a"[..], b"one"].map(<[u8]>::to_vec));
            of_list(listed, list)
        }
        1 => of_sources(&["t"]),
        2 => of_sources(&["u", "one", "t"]),
        3 => of_sources(&["t", "t/large", "t/large/d0/f0"]),
        4 => of_sources(&["one"]),
        5 => without_a_name(all, dice),
        _ => of_sources(&["."]),
    }
}

/// Dumps a selection, with an increment in every third round, and checks the archives.
fn round(round: usize, ground: &Path) {
    let seed = 500 + round as u64;
    let (at, mut dice) = (tmpfs(ground.join("at")), Dice::new(seed));
    sources(&at, seed);
    let (list, catalog) = (ground.join("list"), ground.join("catalog"));
    let mut selection = select(round, &kept(&at), &list, &mut dice);
    let (is_increment, with_catalog) = (round % 3 == 2, !round.is_multiple_of(3));
    let mut archives = Vec::new();
    for level in 0..1 + usize::from(is_increment) {
        // Only archives compressed with zstd have an index.
        let suffix = FORMATS[[1, 0, 1, 2, 1, 3][round % 6]];
        let archive = ground.join(format!("{level}{suffix}"));
        let mut dump = fathom(args!["dump", "-q", "-o", &archive]);
        if with_catalog {
            dump.arg("--catalog").arg(&catalog);
        }
        if level > 0 {
            change(&at.join("t/grown"), &mut dice, 20);
            if selection.sources.is_empty() {
                let exists = |name: &&Vec<u8>| {
                    at.join(crate::support::build::name(name))
                        .symlink_metadata()
                        .is_ok()
                };
                let all = kept(&at);
                let names = all
                    .keys()
                    .filter(|name| (selection.has)(name))
                    .filter(exists);
                selection = of_list(names.cloned().collect(), &list);
            }
            dump.arg("--since").arg(&catalog);
        }
        silent(
            dump.args(&selection.options)
                .args(&selection.sources)
                .current_dir(&at),
        );
        archives.push(archive);
    }
    let case = Case {
        at: &at,
        out: &ground.join("out"),
        archives,
        expected: selected(&kept(&at), &selection.has),
        what: format!(
            "round {round}, {:?} {:?}",
            selection.sources, selection.options
        ),
    };
    case.is_read_whole(&selection);
    case.is_read_by_others();
    case.is_read_by_paths(&mut dice);
}

#[test]
fn every_dump_is_read_back() {
    if require(&NEEDS) {
        for number in 0..effort(7, 200) {
            in_namespace(|ground| round(number, ground));
        }
    }
}

/// The archive does not contain the directory above listed names, so the first member is no SRC.
#[test]
fn names_of_a_list_are_found_by_the_index() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("t/a/x"), 2);
    file(at.join("t/b/y"), 2);
    fs::write(at.join("list"), "t/a\nt/b\n").unwrap();
    let fathom = |line: &str| silent(fathom(line.split(' ')).current_dir(at));
    fathom("dump -q --files-from list -o l.tar.zst");
    let listed = fathom("list l.tar.zst -- t/b");
    assert_eq!(listed.lines().len(), 2, "{listed}");
    fathom("verify -q l.tar.zst -- t/b");
    fathom("restore -q l.tar.zst -C . -- t/b");
}

/// More than a MiB of extended attributes on a file, on a directory and on a symlink, and the
/// maximum number. bsdtar 3.6 cannot read them.
#[test]
fn large_attributes_are_read_back() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            file(at.join("t/file"), 1);
            file(at.join("t/many"), 1);
            dir(at.join("t/dir"));
            symlink("x", at.join("t/symlink")).unwrap();
            for (entry, many, size) in [
                ("file", 18, 60_000),
                ("dir", 30, 65_536),
                ("symlink", 100, 60_000),
                ("many", 4500, 1),
            ] {
                for n in 0..many {
                    let (path, name) = (at.join("t").join(entry), format!("trusted.{n}"));
                    lsetxattr(path, name, &vec![n as u8; size], XattrFlags::empty()).unwrap();
                }
            }
            for suffix in FORMATS.into_iter().take(effort(2, FORMATS.len())) {
                let archive = ground.join(format!("a{suffix}"));
                silent(fathom(args!["dump", "-q", "t", "-o", &archive]).current_dir(&at));
                silent(fathom(args!["verify", "-q", &archive, "--against", "."]).current_dir(&at));
                let out = dir(ground.join(format!("out{suffix}")));
                silent(&mut fathom(args!["restore", "-q", &archive, "-C", &out]));
                same(&kept(&at.join("t")), &snapshot(&out.join("t")), suffix);
            }
            let out = by_gnu_tar(&ground.join("a.tar"), &ground.join("out"));
            same(&kept(&at.join("t")), &snapshot(&out.join("t")), "GNU tar");
        });
    }
}

/// An increment of a single unchanged file has no members, but has an index.
#[test]
fn an_archive_without_members_has_an_index() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("one"), 2);
    let fathom = |line: &str| silent(fathom(line.split(' ')).current_dir(at));
    fathom("dump -q -o 0.tar.zst --catalog c one");
    fathom("dump -q -o 1.tar.zst --since c one");
    fathom("restore -q 0.tar.zst 1.tar.zst -C / --dry-run -- one");
}

/// Attributes of a file beyond 64 MiB, which readers would refuse, are skipped, and a warning says
/// so.
#[test]
fn more_attributes_than_a_reader_accepts_are_named() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let path = file(at.join("t/file"), 1);
            for n in 0..1200 {
                let name = format!("trusted.{n}");
                lsetxattr(&path, name, &[7; 60_000], XattrFlags::empty()).unwrap();
            }
            let archive = ground.join("a.tar");
            let dump = args!["dump", "-q", "t", "-o", &archive];
            let ran = run(fathom(dump).current_dir(&at)).exits(1);
            let message = "has more than 64 MiB of extended attributes: 82 of them skipped";
            assert!(ran.stderr.contains(message), "{ran}");
            silent(&mut fathom(args!["verify", "-q", &archive]));
            let out = dir(ground.join("out"));
            silent(&mut fathom(args!["restore", "-q", &archive, "-C", &out]));
            let restored = snapshot(&out.join("t"));
            assert_eq!(restored[&b"file"[..]].attributes.len(), 1200 - 82);
        });
    }
}
