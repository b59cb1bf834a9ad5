//! The machine that a survey is taken on.

use std::time::{Duration, Instant};

use base::child::times_out;
use gate::fs::{Open, fstatfs};
use gate::long::open_long;
use gate::lookup::{Permission, check_permission};
use gate::machine::{memory, processors, uname};
use gate::process::is_root;

use crate::found::Found;
use crate::missing::Unseen;
use crate::steps::context::SurveyOptions;
use crate::steps::take;

/// The machine, and what the survey of it took.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Machine {
    /// The host name, if it has one.
    pub host: Option<Vec<u8>>,
    pub kernel: String,
    pub arch: String,
    /// Processors that this process may use.
    pub cpus: usize,
    pub memory: Option<u64>,
    pub root: bool,
    /// The program that runs a command as root, if there is one: `sudo` or `doas`.
    pub sudo: Option<&'static str>,
    /// Where this user can write files, and the bytes that are available there: the working directory, whose
    /// name is empty, and those for temporary files.
    pub places: Vec<(Vec<u8>, u64)>,
    /// Whether this user may write in the directory of the survey.
    pub is_writable: bool,
    /// What more privilege would have shown.
    pub unseen: Vec<Unseen>,
    pub version: &'static str,
    /// When the survey began, in seconds since 1970.
    pub when: i64,
    pub seconds: f64,
    /// Bytes that it read from disks.
    pub bytes_read: u64,
    /// Bytes that it wrote to temporary files.
    pub bytes_written: u64,
    /// Seconds that it was allowed.
    pub limit_seconds: f64,
    /// Bytes that it was allowed to read and write together.
    pub limit_bytes: u64,
    pub deep: bool,
}

impl Machine {
    /// This machine, and what a survey took that began at `when`.
    pub(crate) fn of_survey(
        options: &SurveyOptions,
        found: &mut Found,
        when: i64,
        begun: Instant,
    ) -> Machine {
        let is_silent = found
            .mounts
            .as_ref()
            .is_some_and(|mounted| mounted.is_silent);
        let system = uname();
        let mut unseen = std::mem::take(&mut found.unseen);
        if !is_root() {
            unseen.extend([Unseen::BulkEngines, Unseen::BpfMeter]);
        }
        Machine {
            host: Some(system.host).filter(|host| !host.is_empty()),
            kernel: system.kernel,
            arch: system.machine,
            cpus: processors(),
            memory: memory(),
            root: is_root(),
            sudo: ["sudo", "doas"].into_iter().find(|name| is_in_path(name)),
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

/// Where files can be written, as [`Machine::places`] has it. A working directory whose server does not answer
/// is none.
fn places() -> Vec<(Vec<u8>, u64)> {
    const PATIENCE: Duration = Duration::from_secs(2);
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
        !times_out(PATIENCE, || {
            look(dir);
        })
    });
    answering
        .filter_map(|(name, dir)| Some((name.to_vec(), look(dir)?)))
        .collect()
}

fn may_write(dir: &[u8]) -> bool {
    check_permission(dir, Permission::Write).is_ok()
}

fn is_in_path(program: &str) -> bool {
    meter::call::Command::find(&[program.into()]).is_ok()
}
