//! The ranks of an MPI job that run a command together.

mod processors;
pub(crate) mod resume;
pub(crate) mod show;

use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ::show::name::printable;
use base::Warning;
use catalog::ShardOfRun;
use catalog::remote::is_remote;
use gate::fs::{Open, StatxMask, fstat, openat};
use gate::long::{open_long, parent};
use gate::throttle::{Delays, add_delays, take_delays};
use gate::{Fd, Tally};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use team::{
    SingleProcess, Team, decode, encode, launched_rank, launched_size, rank_variable, share,
};
use walk::{Error as WalkError, Moment, WarningKind, check_same_directory};

use self::show::RankEntries;
use crate::args::values::bytes;
use crate::error::{Error, Outcome};
use crate::hint::{OLD_PARTS, hint};
use crate::out::{Out, create_directories, host};
use crate::rank_warning::RankWarning;

/// Whether a launcher started this process as a rank of an MPI job, which [`join`] can join.
pub(crate) fn is_job() -> bool {
    cfg!(feature = "mpi") && launched_rank().is_some()
}

/// Whether the environment says that the job has several ranks. Options that several ranks do not
/// support are then refused before any file is read; if the environment does not have the number of
/// ranks, they are refused after [`join`].
pub(crate) fn are_several() -> bool {
    is_job() && launched_size().is_some_and(|size| size > 1)
}

/// Whether a launcher started this process as a rank of a job that can have several ranks.
pub(crate) fn may_be_several() -> bool {
    launched_rank().is_some() && launched_size() != Some(1)
}

fn is_first_of_several() -> bool {
    launched_rank() == Some(0) && may_be_several()
}

/// Whether an output has the name of a file. Then the only rank of a job writes this file, and not
/// a directory of parts.
pub(crate) fn names_file(path: &[u8]) -> bool {
    const SUFFIXES: [&[u8]; 6] = [b"parquet", b"catalog", b"tar", b"tgz", b"txz", b"tzst"];
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut words = name.rsplit(|&byte| byte == b'.');
    let (last, before) = (words.next(), words.next());
    let is_suffix = last.is_some_and(|last| SUFFIXES.contains(&last)) && before.is_some();
    let has_suffix = is_suffix || before == Some(b"tar");
    has_suffix && open_long(path, Open::PATH | Open::DIRECTORY).is_err()
}

/// Joins the MPI job if a launcher started this process as one of its ranks; MPI then starts
/// threads. If fathom was built without MPI, rank 0 prints a note that begins with `alone`.
#[cfg(feature = "mpi")]
pub(crate) fn join(_: &Out, _alone: &str) -> Result<Box<dyn Team>, Error> {
    if !is_job() {
        return Ok(Box::new(SingleProcess::NoJob));
    }
    if launched_size() == Some(1) {
        return Ok(Box::new(SingleProcess::OnlyRank));
    }
    match team::mpi::Ranks::join() {
        Some(ranks) => Ok(Box::new(ranks)),
        None => Err(Error::new(
            "cannot join the MPI job: MPI is already initialized in this process",
        )),
    }
}

/// Returns a team of one process, because fathom was built without MPI. Under a launcher, rank 0
/// prints a note that begins with `alone`, which says what each process does.
#[cfg(not(feature = "mpi"))]
pub(crate) fn join(out: &Out, alone: &str) -> Result<Box<dyn Team>, Error> {
    if is_first_of_several() {
        out.note(format_args!(
            "{alone}: fathom was built without MPI (cargo build --features mpi)"
        ));
    }
    Ok(Box::new(SingleProcess::NoJob))
}

/// The ranks that share the work of a command, and the time at which the work starts.
type TeamAndStart = (Box<dyn Team>, Instant);

/// Joins the MPI job like [`join`], and returns the team and the time at which the command's work
/// starts. If `is_shared` is false, the command runs on rank 0, which does not wait for the other
/// ranks; those get `None`.
pub(crate) fn begin(
    out: &Out,
    alone: &str,
    is_shared: bool,
    begun: Instant,
) -> Result<Option<TeamAndStart>, Error> {
    let team = join(out, alone)?;
    if !is_shared {
        let first = || -> TeamAndStart { (Box::new(SingleProcess::NoJob), begun) };
        return Ok((team.rank() == 0).then(first));
    }
    // Restart the clock here: the wait until all ranks have started is the launcher's time.
    let start = match team.is_alone() {
        true => begun,
        false => Instant::now(),
    };
    Ok(Some((team, start)))
}

/// Notes, on rank 0 of a launcher, that each process does all of the work. Ranks that measure also
/// slow each other down.
pub(crate) fn note_no_sharing(is_measurement: bool, out: &Out) {
    if is_first_of_several() {
        let and = match is_measurement {
            true => " and disturbs the measurements of the others",
            false => "",
        };
        out.note(format_args!(
            "each process does all of the work{and}: only walk, dump, restore and pathwalk share it"
        ));
    }
}

/// Refuses the output file of a command that each rank of a job runs on its own, unless the name of
/// the file has the number of the rank. All ranks would replace the same file, and all reports but
/// the last would be lost.
pub(crate) fn check_own_output(command: &str, output: &[u8]) -> Result<(), Error> {
    let Some((variable, rank)) = rank_variable() else {
        return Ok(());
    };
    let is_file = output != b"-" && !output.starts_with(b"/dev/");
    if launched_size().is_none_or(|size| size < 2) || !is_file || has_number(output, rank) {
        return Ok(());
    }
    let shown = printable(output);
    Err(Error::new(format!(
        "cannot write the output to '{shown}': each rank of the job would replace it"
    ))
    .with_hint(&format!(
        "give each rank a file: sh -c 'fathom {command} -o {} ...'",
        with_rank(&shown, variable)
    )))
}

/// Whether a path has this number, between characters that are no digits.
fn has_number(path: &[u8], number: usize) -> bool {
    let mut numbers = path.split(|byte| !byte.is_ascii_digit());
    let parse = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<usize>().ok();
    numbers.any(|digits| parse(digits) == Some(number))
}

/// A path with the value of an environment variable before the suffix of the name.
fn with_rank(path: &str, variable: &str) -> String {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = path[name..].rfind('.').filter(|dot| *dot > 0);
    let (before, suffix) = path.split_at(dot.map_or(path.len(), |dot| name + dot));
    format!("{before}.${variable}{suffix}")
}

/// The beginning of the error message if parts of a catalog cannot be written to a directory.
pub(crate) const WRITING_CATALOG: &str = "cannot write the catalog to";

fn place_of(rank: usize, host: &str) -> String {
    format!("rank {rank} on {}", printable(host.as_bytes()))
}

/// Collective: returns `mine` if no rank has failed. Otherwise, the first error of any rank, with
/// its host, becomes the error on all ranks.
pub(crate) fn agree<T>(team: &dyn Team, mine: Result<T, impl Into<Error>>) -> Result<T, Error> {
    let mine = mine.map_err(Into::into);
    if team.is_alone() {
        return mine;
    }
    let own = mine
        .as_ref()
        .err()
        .filter(|error| !error.is_of_other_rank());
    let place = || place_of(team.rank(), &host());
    let errors = share(team, own.map(|error| error.clone().at_place(&place())));
    match errors.into_iter().flatten().next() {
        Some(error) => Err(error),
        None => mine,
    }
}

/// The outcome of a command on this rank. Only rank 0 returns errors and warnings, because it
/// reports for all ranks.
pub(crate) fn reported_by_first(team: &dyn Team, done: Outcome) -> Outcome {
    match team.rank() {
        0 => done,
        _ => {
            take_delays(); // only rank 0 prints delays
            Ok(0)
        }
    }
}

/// Collective: returns the value that rank 0 passed.
pub(crate) fn of_first<T: Serialize + DeserializeOwned>(team: &dyn Team, mine: T) -> T {
    share(team, mine).swap_remove(0)
}

/// The command of a rank, for comparison with the other ranks. The version must be the first field
/// in every version of fathom, because ranks can run different versions.
#[derive(Serialize, Deserialize)]
struct RankCommand {
    version: String,
    host: String,
    dirs: Vec<Vec<u8>>,
    /// The parsed options, formatted with `Debug`.
    options: String,
    /// The words of the command line, for error messages.
    words: Vec<Vec<u8>>,
}

impl RankCommand {
    /// The options of the command line, each with its value: the next word, unless that is an
    /// option.
    fn option_words(&self) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        for word in &self.words {
            let shown = printable(word).to_string();
            match options.last_mut() {
                Some(last)
                    if last.starts_with('-') && !last.contains(' ') && !word.starts_with(b"-") =>
                {
                    *last += &format!(" {shown}");
                }
                _ => options.push(shown),
            }
        }
        options
    }

    /// The options that this rank has and the other rank does not have.
    fn own_words(&self, other: &RankCommand) -> String {
        let others = other.option_words();
        let mut own = self.option_words();
        own.retain(|option| !others.contains(option));
        format!("'{}'", own.join(" "))
    }
}

/// Checks that all ranks run the same command with the same directories and options, and divides
/// the processors of each machine among its ranks. `doing` is a verb for error messages about
/// directories, such as `walks`.
pub(crate) fn start_together(
    doing: &str,
    dirs: &[OsString],
    args: &impl fmt::Debug,
    team: &dyn Team,
) -> Result<(), Error> {
    if team.is_alone() {
        return Ok(());
    }
    check_same(doing, dirs, args, team)?;
    processors::divide(team, host());
    Ok(())
}

fn check_same(
    doing: &str,
    dirs: &[OsString],
    args: &impl fmt::Debug,
    team: &dyn Team,
) -> Result<(), Error> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mine = RankCommand {
        version,
        host: host(),
        dirs: bytes(dirs),
        options: format!("{args:?}"),
        words: bytes(&std::env::args_os().skip(1).collect::<Vec<_>>()),
    };
    let all = team.all_gather(&encode(&mine));
    let version = |bytes: &[u8]| decode::<String>(bytes).unwrap_or_default();
    let first = all.first().map_or(&[][..], |first| first);
    for (rank, other) in all.iter().enumerate() {
        if version(other) != version(first) {
            let (theirs, ours) = (version(other), version(first));
            return Err(Error::new(format!(
                "rank {rank} runs fathom {theirs}, rank 0 runs fathom {ours}"
            )));
        }
        let (Some(other), Some(first)) =
            (decode::<RankCommand>(other), decode::<RankCommand>(first))
        else {
            return Err(Error::new(format!(
                "rank {rank} runs another fathom than rank 0"
            )));
        };
        let dir = |command: &RankCommand| {
            let dirs: Vec<_> = command
                .dirs
                .iter()
                .map(|dir| printable(dir).to_string())
                .collect();
            dirs.join("', '")
        };
        let place = place_of(rank, &other.host);
        if other.dirs != first.dirs {
            return Err(Error::new(format!(
                "{place} {doing} '{}', rank 0 {doing} '{}'",
                dir(&other),
                dir(&first)
            ))
            .with_hint("start all ranks with the same DIR"));
        }
        if other.options != first.options {
            return Err(Error::new(format!(
                "{place} has other options than rank 0: {} instead of {}",
                other.own_words(&first),
                first.own_words(&other)
            ))
            .with_hint("start all ranks with the same options"));
        }
    }
    Ok(())
}

/// This rank's part of a run. If `name` is `None`, rank 0 generates the name of the run.
pub(crate) fn part_of_run(name: Option<String>, team: &dyn Team) -> ShardOfRun {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let named = format!("{}-{}", Moment::now().time().sec, std::process::id());
    ShardOfRun {
        number: number(team.rank()),
        of: number(team.size()),
        run: Some(of_first(team, name.unwrap_or(named))),
        by_ranks: true,
    }
}

/// Creates a directory for the parts of a run, on rank 0. Fails if `old` finds parts of a different
/// run in the directory.
pub(crate) fn create_output(
    dir: &[u8],
    doing: &str,
    team: &dyn Team,
    old: impl FnOnce(&[u8]) -> Result<Option<Vec<Vec<u8>>>, Error>,
) -> Result<(), Error> {
    let prepare = || {
        create_dir(dir, doing)?;
        match old(dir)?.as_deref() {
            Some([old, ..]) => Err(has_old_part(doing, dir, old)),
            _ => Ok(()),
        }
    };
    // Only rank 0 looks for parts of earlier runs, before any rank creates a part of this run.
    let prepared = if team.rank() == 0 { prepare() } else { Ok(()) };
    agree(team, prepared)
}

/// The error for a directory that has a part of a different run.
pub(crate) fn has_old_part(doing: &str, dir: &[u8], part: &[u8]) -> Error {
    let old = format!("it has {} of another run", printable(part));
    Error::write(doing, dir, old, OLD_PARTS)
}

/// Creates a directory for the parts of a run, and checks that all ranks see the same directory.
pub(crate) fn create_on_all(dir: &[u8], doing: &str, team: &dyn Team) -> Result<(), Error> {
    agree(team, create_dir(dir, doing))?;
    if is_remote(dir) {
        return Ok(());
    }
    let is_same = check_same_directory(dir, team).map_err(|error| match error {
        WalkError::OtherDirectory(_) => {
            let next = "give a directory on a file system that all hosts share";
            Error::write(
                doing,
                dir,
                "it is another directory here than on rank 0",
                next,
            )
        }
        error => error.into(),
    });
    agree(team, is_same)
}

/// Checks that the directory of the parts is outside of the trees that `--resume` reads again.
/// Otherwise, the next attempt would read the parts of this attempt as entries.
pub(crate) fn check_outside(dir: &[u8], trees: &[Vec<u8>], doing: &str) -> Result<(), Error> {
    match trees
        .iter()
        .filter(|_| !is_remote(dir))
        .find(|tree| is_below(dir, tree))
    {
        Some(tree) => {
            let why = format!("it is in '{}'", printable(tree));
            let next = "with --resume, give a directory outside of what is read";
            Err(Error::write(doing, dir, why, next))
        }
        None => Ok(()),
    }
}

/// Whether a directory is in a tree. A directory that does not exist is in a tree if its nearest
/// existing ancestor is.
fn is_below(dir: &[u8], tree: &[u8]) -> bool {
    let identity = |fd: &Fd| {
        let seen = fstat(fd, StatxMask::INO).ok()?;
        Some((seen.dev, seen.ino))
    };
    let open = |path: &[u8]| open_long(path, Open::PATH | Open::DIRECTORY).ok();
    let mut above = std::iter::successors(Some(dir), |&path| {
        Some(parent(path)).filter(|&above| above != path)
    });
    let mut at = above.find_map(open);
    let tree = open(tree).as_ref().and_then(identity);
    let mut below = None;
    while let Some(fd) = at {
        let here = identity(&fd);
        if here.is_none() || here == below {
            return false; // the root directory, which is its own parent
        }
        if here == tree {
            return true;
        }
        below = here;
        at = openat(&fd, c"..", Open::PATH | Open::DIRECTORY).ok();
    }
    false
}

/// Creates a directory for the parts of a run on this rank. Remote stores have no directories.
pub(crate) fn create_dir(dir: &[u8], doing: &str) -> Result<(), Error> {
    if is_remote(dir) {
        return Ok(());
    }
    create_directories(dir).map_err(|errno| {
        let next = "give a directory that all ranks can write to";
        Error::write(doing, dir, errno, next)
    })
}

/// The final message of each rank to rank 0.
#[derive(Serialize, Deserialize)]
struct RankReport<T> {
    found: RankEntries,
    value: T,
    /// Counts and times of system calls, in the form that [`Tally::publish`] writes.
    calls: Vec<u64>,
    /// The number of delays by `--max-rate`, and their sum in nanoseconds.
    delays: (u64, u64),
    warnings: Vec<RankWarning>,
}

/// The final messages of all ranks.
pub(crate) struct RankReports<T> {
    pub(crate) values: Vec<T>,
    /// The number of entries of each rank; `None` without an MPI job.
    pub(crate) ranks: Option<Vec<RankEntries>>,
    pub(crate) warnings: Vec<Warning>,
}

/// Sends a value, the number of entries and the warnings of each rank to rank 0, and adds the
/// system calls and delays of the other ranks to those of rank 0. Returns `None` on all ranks
/// except rank 0.
pub(crate) fn tell_first<T: Serialize + DeserializeOwned>(
    team: &dyn Team,
    value: T,
    entries: u64,
    mut warnings: Vec<Warning>,
) -> Option<RankReports<T>> {
    /// Maximum number of warnings that all ranks together send, except that each rank may send 20.
    const MOST: usize = 10_000;
    if !team.is_job() {
        return Some(RankReports {
            values: vec![value],
            ranks: None,
            warnings,
        });
    }
    let is_first = team.rank() == 0; // rank 0 keeps all of its own warnings
    let most = if is_first {
        0
    } else {
        (MOST / team.size()).max(20)
    };
    let mut sent: Vec<_> = warnings.iter().take(most).cloned().collect();
    if !is_first && warnings.len() > most {
        let more = (warnings.len() - most) as u64;
        sent.push(Warning::general(WarningKind::More(more)));
    }
    let words: Vec<AtomicU64> = (0..Tally::WORDS).map(|_| AtomicU64::new(0)).collect();
    gate::meter::tally().publish(&words);
    let sent = sent.iter();
    let delays = take_delays();
    let mine = RankReport {
        found: RankEntries {
            rank: team.rank(),
            host: host(),
            processors: gate::machine::processors(),
            entries,
        },
        value,
        calls: words.into_iter().map(AtomicU64::into_inner).collect(),
        delays: (delays.number, delays.nanos),
        warnings: sent.map(|it| RankWarning::new(it, hint(it))).collect(),
    };
    let all = share(team, mine);
    if !is_first {
        return None;
    }
    let (mut values, mut ranks) = (Vec::new(), Vec::new());
    for told in all {
        let place = place_of(told.found.rank, &told.found.host);
        let (number, nanos) = told.delays;
        add_delays(Delays { number, nanos });
        if told.found.rank > 0 {
            let words: Vec<_> = told.calls.into_iter().map(AtomicU64::new).collect();
            if words.len() >= Tally::WORDS {
                gate::meter::add(&Tally::collect(&words));
            }
            let warned = told.warnings.into_iter();
            warnings.extend(warned.map(|warning| warning.at_place(&place)));
        }
        values.push(told.value);
        ranks.push(told.found);
    }
    Some(RankReports {
        values,
        ranks: Some(ranks),
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 0 of a team of two; `self.0` is the message from rank 1.
    struct SecondRank(Vec<u8>);

    impl Team for SecondRank {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            2
        }
        fn barrier(&self) {}
        fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
            vec![bytes.to_vec(), self.0.clone()]
        }
        fn send(&self, _to: usize, _bytes: &[u8]) {}
        fn receive(&self) -> Option<(usize, Vec<u8>)> {
            None
        }
    }

    #[test]
    fn the_name_of_an_output_tells_whether_it_is_a_file() {
        for file in [
            "a.parquet",
            "/x/a.tar",
            "a.tar.zst",
            "s3://b/a.tzst",
            "a.b.catalog",
        ] {
            assert!(names_file(file.as_bytes()), "{file}");
        }
        for dir in ["a", "out/1", "a.tar/b", "a.tar/", "tar", "a.d", ""] {
            assert!(!names_file(dir.as_bytes()), "{dir}");
        }
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("a.parquet");
        create_directories(dir.as_os_str().as_encoded_bytes()).unwrap();
        assert!(!names_file(dir.as_os_str().as_encoded_bytes()));
    }

    #[test]
    fn a_file_per_rank_has_the_number_of_the_rank() {
        for (path, rank, is_own) in [
            ("acc.1.txt", 1, true),
            ("r007/acc", 7, true),
            ("acc.txt", 0, false),
            ("acc.10.txt", 1, false),
            ("", 0, false),
        ] {
            assert_eq!(has_number(path.as_bytes(), rank), is_own, "{path}");
        }
        for (path, expected) in [
            ("acc.txt", "acc.$R.txt"),
            ("a.d/acc", "a.d/acc.$R"),
            (".hidden", ".hidden.$R"),
            ("", ".$R"),
        ] {
            assert_eq!(with_rank(path, "R"), expected);
        }
    }

    #[test]
    fn ranks_must_run_the_same_command() {
        let ours = env!("CARGO_PKG_VERSION");
        let check = |other: Vec<u8>| {
            let dirs = ["/srv".into()];
            let checked = check_same("walks", &dirs, &"options", &SecondRank(other));
            checked.err().map(|error| error.to_string())
        };
        let command = |version: &str, dir: &[u8], options: &str| RankCommand {
            version: version.to_owned(),
            host: "node7".to_owned(),
            dirs: vec![dir.to_vec()],
            options: format!("{options:?}"),
            words: vec![b"-j".to_vec(), b"2".to_vec()],
        };
        let says = |command: RankCommand| check(encode(&command));
        assert_eq!(says(command(ours, b"/srv", "options")), None);
        let other = format!("rank 1 runs fathom 9.9.9, rank 0 runs fathom {ours}");
        assert_eq!(
            says(command("9.9.9", b"/srv", "options")),
            Some(other.clone())
        );
        // A different version can send any bytes after its version number.
        assert_eq!(check(encode(&("9.9.9", 7))), Some(other));
        let other = "rank 1 runs another fathom than rank 0";
        assert_eq!(check(encode(&(ours, 7))).as_deref(), Some(other));
        let other = "rank 1 on node7 walks '/tmp', rank 0 walks '/srv'";
        assert_eq!(
            says(command(ours, b"/tmp", "options")).as_deref(),
            Some(other)
        );
        let other = says(command(ours, b"/srv", "others")).unwrap();
        let words = "rank 1 on node7 has other options than rank 0: '-j 2' instead of ";
        assert!(other.starts_with(words), "{other}");
        // Both command lines have the same words in a different order, so each option must be
        // compared together with its value.
        let words = |words: &str| RankCommand {
            words: words.split(' ').map(|word| word.into()).collect(),
            ..command(ours, b"/srv", "")
        };
        let (one, other) = (words("-j 2 --max-depth 3"), words("-j 3 --max-depth 2"));
        assert_eq!(one.own_words(&other), "'-j 2 --max-depth 3'");
    }

    #[test]
    fn an_error_of_another_rank_ends_this_one() {
        let error = Error::new("no space").at_place("rank 1 on node7");
        let team = SecondRank(encode(&Some(error)));
        let ended = agree(&team, Ok::<(), Error>(()));
        assert_eq!(ended.unwrap_err().to_string(), "rank 1 on node7: no space");
    }
}
