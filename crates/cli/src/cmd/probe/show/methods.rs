//! The method of each finding, or the reason why it is missing, in words.

use gate::Errno;
use probe::activity::cgroup_words;
use probe::finding::{Method, Note, Outcome, Source};
use probe::{Error, Finding};
use show::units::size;

/// The method by which a finding was made, or the reason why it is missing.
pub(crate) fn method(finding: &Finding) -> String {
    let text = outcome(&finding.outcome);
    match finding.note {
        Some(note) => text + &note_text(note),
        None => text,
    }
}

/// An error and its hint, for a note below a table.
pub(crate) fn hinted(why: &Error) -> String {
    match hint(why) {
        "" => why.to_string(),
        hint => format!("{why}; {hint}"),
    }
}

/// The hint for experiments that the byte limit ended or made inconclusive.
pub(super) const RAISE_BYTES: &str = "raise --max-bytes";

/// The hint for an error; empty if nothing is known.
pub(crate) fn hint(why: &Error) -> &'static str {
    match why {
        Error::Call { errno, .. } => match *errno {
            Errno::ENOSPC => "free some space, or use less with --max-bytes",
            Errno::EDQUOT => "the quota is used up; use less with --max-bytes",
            Errno::EROFS => "give a directory on a file system that is mounted read-write",
            Errno::EACCES | Errno::EPERM => "give a directory that you can enter and write to",
            Errno::ENOENT => "check the name",
            // On an NFS mount without an answer, the timeout of a soft mount can surface as ESTALE.
            Errno::ESTALE | Errno::ENOTCONN | Errno::ETIMEDOUT | Errno::EHOSTDOWN => {
                "run fathom mounts --check to see which mounts do not answer"
            }
            Errno::ENOTDIR => "give a directory",
            _ => "",
        },
        Error::OutOfTime | Error::TooSlow { .. } => "raise --max-seconds",
        Error::OutOfBytes | Error::LimitedFile { .. } | Error::PassesTooLarge { .. } => RAISE_BYTES,
        Error::UnnamedOnly => "run fathom probe, which creates a named file and removes it",
        Error::CgroupRefused(Errno::ENOENT) => {
            "enable the memory controller: echo +memory >/sys/fs/cgroup/cgroup.subtree_control"
        }
        Error::CgroupRefused(_) => "run as root, or in a container with a memory limit",
        Error::NoAnswer { .. } | Error::StoppedAnswering { .. } | Error::NotReleased { .. } => {
            "run fathom mounts --check to see which mounts hang"
        }
        Error::NotWritable { .. } => "try again two minutes after the server was started",
        Error::NothingPriced(Some(why)) => hint(why),
        _ => "",
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Found { method, .. } => match method {
            Method::EmptyCalls {
                incomplete: Some(why),
                ..
            } => format!(
                "{method}; some calls could not be measured: {}",
                hinted(why)
            ),
            _ => method.to_string(),
        },
        Outcome::LookedUp(bound) => format!("looked up, not measured: {bound}"),
        Outcome::Disagree(both) => {
            let [by_256, by_512] = both.each_ref().map(self::outcome);
            format!("reads of 256 and 512 bytes differ: {by_256}; {by_512}")
        }
        Outcome::Unknown(why) => hinted(why),
    }
}

fn note_text(note: Note) -> String {
    match note {
        Note::ConfirmedBy512 => "; reads of 512 bytes give the same".to_owned(),
        Note::ContradictedByResidency => "; the page-cache residency contradicts it".to_owned(),
        Note::SeenBy(call) => format!(", by {}", call.name()),
        Note::OwnCgroup(available) => format!(
            "; measured in {} with a chosen limit; outside, {} are available (MemAvailable)",
            cgroup_words(true),
            size(available)
        ),
        Note::CurrentCgroup { files, programs } => format!(
            "; measured in {}, which also holds {} of other files and {} of programs and the kernel",
            cgroup_words(false),
            size(files),
            size(programs)
        ),
    }
}

pub(crate) fn source(source: &Source) -> &str {
    match source {
        Source::Statfs => "statfs(2), f_frsize",
        Source::Page => "page size, or the block size if larger",
        Source::Superblock => "superblock, s_log_cluster_size",
        Source::Statx => "statx(2), stx_dio_offset_align",
        Source::Sysinfo => "sysinfo(2)",
        Source::Fiemap => "FS_IOC_FIEMAP, largest extent",
        Source::File(path) => path,
    }
}
