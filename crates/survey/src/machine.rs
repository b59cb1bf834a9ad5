//! The machine on which a survey runs.

use std::time::Instant;

use gate::fs::{Open, fstatfs};
use gate::long::open_long;
use gate::lookup::{Permission, check_permission};
use gate::machine::{memory, processors, uname};
use gate::process::is_root;
use mounts::check::{ANSWER_WITHIN, find_silent_mount};

use crate::found::SurveyResults;
use crate::missing::{Missing, PrivilegedResult};
use crate::steps::context::SurveyOptions;
use crate::steps::take;

/// The machine, and the resources that the survey used.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Machine {
    /// The host name, if it has one.
    pub host: Option<Vec<u8>>,
    pub kernel: String,
    pub arch: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    pub memory: Option<u64>,
    pub root: bool,
    /// The program that runs a command as root: `sudo` or `doas`; `None` if there is none.
    pub sudo: Option<&'static str>,
    /// Directories in which this user can write files, and the bytes available there: the working
    /// directory (an empty path), and those for temporary files.
    pub places: Vec<(Vec<u8>, u64)>,
    /// Whether this user may write to the surveyed directory.
    pub is_writable: bool,
    /// The results that more privilege would have added.
    pub unseen: Vec<PrivilegedResult>,
    pub version: &'static str,
    /// The start of the survey, in seconds since 1970.
    pub when: i64,
    pub seconds: f64,
    /// The bytes read from disks.
    pub bytes_read: u64,
    /// The bytes written to temporary files.
    pub bytes_written: u64,
    /// The limit of the survey's time in seconds.
    pub limit_seconds: f64,
    /// The limit of bytes read and written together.
    pub limit_bytes: u64,
    pub deep: bool,
}

impl Machine {
    /// This machine, and the resources used by a survey that began at `when`.
    pub(crate) fn of_survey(
        options: &SurveyOptions,
        found: &mut SurveyResults,
        when: i64,
        begun: Instant,
    ) -> Machine {
        let is_silent = matches!(found.responding(), Err(Missing::SilentServer));
        let system = uname();
        let mut unseen = std::mem::take(&mut found.unseen);
        if !is_root() {
            unseen.extend([PrivilegedResult::BulkEngines, PrivilegedResult::BpfMeter]);
        }
        Machine {
            host: Some(system.host).filter(|host| !host.is_empty()),
            kernel: system.kernel,
            arch: system.machine,
            cpus: processors(),
            memory: memory(),
            root: is_root(),
            sudo: ["sudo", "doas"]
                .into_iter()
                .find(|name| pathsearch::is_installed(name)),
            places: places(),
            is_writable: !is_silent && may_write(&options.dir),
            unseen,
            version: env!("CARGO_PKG_VERSION"),
            when,
            seconds: begun.elapsed().as_secs_f64(),
            bytes_read: found.steps.iter().map(|step| step.bytes_read).sum(),
            bytes_written: found.steps.iter().map(|step| step.bytes_written).sum(),
            limit_seconds: take::time(options.limit).as_secs_f64(),
            limit_bytes: take::bytes(options.deep),
            deep: options.deep,
        }
    }
}

/// Directories in which files can be written, for [`Machine::places`]. Omits a working directory
/// whose server does not answer.
fn places() -> Vec<(Vec<u8>, u64)> {
    let look = |dir: &[u8]| {
        let available = || {
            let opened = open_long(dir, Open::PATH | Open::DIRECTORY).ok()?;
            Some(fstatfs(&opened).ok()?.available)
        };
        may_write(dir).then(available).flatten()
    };
    let candidates: [(&[u8], &[u8]); 3] =
        [(b"", b"."), (b"/var/tmp", b"/var/tmp"), (b"/tmp", b"/tmp")];
    let answering = candidates.into_iter().filter(|(_, dir)| {
        let touch = || {
            look(dir);
        };
        find_silent_mount(dir, ANSWER_WITHIN, touch).is_none()
    });
    answering
        .filter_map(|(name, dir)| Some((name.to_vec(), look(dir)?)))
        .collect()
}

fn may_write(dir: &[u8]) -> bool {
    check_permission(dir, Permission::Write).is_ok()
}
