//! The survey of a machine: pure data, from which the page, the text and the JSON are made.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use report::compare::{self, Method};
use report::meter::Account;
use report::mounts::Mounts;
use report::nightly::Nightly;
use report::plot::Figure;
use report::probe::Probe;
use report::startup::Startup;
use report::walk;
use show::json::Warning;
use show::name::entry;

/// A section that was gathered; or why not, and how to have it.
#[derive(Clone, Debug)]
pub(crate) enum Part<T> {
    /// What was found.
    Gathered(T),
    /// Nothing.
    Not {
        /// Why: a sentence without a full stop, beginning with a small letter.
        why: String,
        /// The command that gives it.
        how: String,
    },
}

impl<T> Part<T> {
    /// What was found, if anything.
    pub(crate) fn gathered(&self) -> Option<&T> {
        match self {
            Part::Gathered(found) => Some(found),
            Part::Not { .. } => None,
        }
    }

    /// Why there is nothing, and the command that gives it.
    pub(crate) fn skipped(&self) -> Option<Skipped<'_>> {
        match self {
            Part::Gathered(_) => None,
            Part::Not { why, how } => Some(Skipped { why, how }),
        }
    }
}

/// Why a section is not there.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Skipped<'a> {
    /// Why.
    pub(crate) why: &'a str,
    /// The command that gives it.
    pub(crate) how: &'a str,
}

/// The machine, and the survey of it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Its name, if it is known.
    pub(crate) host: Option<Vec<u8>>,
    /// The kernel: `6.12.8-amd64`.
    pub(crate) kernel: String,
    /// Its architecture: `x86_64`.
    pub(crate) arch: String,
    /// Processors that may be used.
    pub(crate) cpus: usize,
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
    /// Whether this was done by root.
    pub(crate) root: bool,
    /// What more privilege would have shown: sentences without full stops.
    pub(crate) lacking: Vec<String>,
    /// The version of fathom.
    pub(crate) version: &'static str,
    /// When it began: seconds since 1970.
    pub(crate) when: i64,
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// Bytes that it read.
    pub(crate) bytes_read: u64,
    /// Bytes that it wrote, and took away again.
    pub(crate) bytes_written: u64,
    /// Seconds that it was given.
    pub(crate) limit_seconds: f64,
    /// Bytes that it was given, read and written together.
    pub(crate) limit_bytes: u64,
    /// Whether more was asked for with `--deep`.
    pub(crate) deep: bool,
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "host", self.host.as_deref())?;
        map.serialize_entry("kernel", &self.kernel)?;
        map.serialize_entry("arch", &self.arch)?;
        map.serialize_entry("cpus", &self.cpus)?;
        map.serialize_entry("memory", &self.memory)?;
        map.serialize_entry("root", &self.root)?;
        map.serialize_entry("lacking", &self.lacking)?;
        map.serialize_entry("version", self.version)?;
        map.serialize_entry("when", &self.when)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("bytes_read", &self.bytes_read)?;
        map.serialize_entry("bytes_written", &self.bytes_written)?;
        map.serialize_entry("limit_seconds", &self.limit_seconds)?;
        map.serialize_entry("limit_bytes", &self.limit_bytes)?;
        map.serialize_entry("deep", &self.deep)?;
        map.end()
    }
}

/// The mounts, and what each way to find them costs.
#[derive(Clone)]
pub(crate) struct MountsPart<'a> {
    /// What was found; its `compare`, `boundaries` and verdicts are there if they were asked for.
    pub(crate) mounts: Mounts<'a>,
    /// What each way to find them costs.
    pub(crate) compared: Part<Compared<'a>>,
}

impl<'a> MountsPart<'a> {
    /// What each method took; none where they were not compared.
    pub(crate) fn methods(&self) -> &'a [Method] {
        self.compared
            .gathered()
            .map_or(&[], |compared| compared.methods)
    }
}

/// The methods of finding mounts, compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared<'a> {
    /// What each took.
    pub(crate) methods: &'a [Method],
    /// Methods that were left out, and why.
    pub(crate) left_out: &'a [compare::LeftOut],
}

/// A file system, and the plots of what was measured on it.
#[derive(Clone, Debug)]
pub(crate) struct FileSystem<'a> {
    /// What was found.
    pub(crate) probe: Probe<'a>,
    /// The plots.
    pub(crate) plots: Vec<Plot>,
}

/// A plot of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The experiment: `readahead`.
    pub(crate) experiment: &'static str,
    /// What it shows.
    pub(crate) figure: Figure,
}

/// A step of the survey.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepTaken {
    /// What was done, as the progress line has it: `walking by threads`.
    pub(crate) name: String,
    /// The section that it is for: `mounts`, `probe`, `walk`, `dump`, `account`, `startup`,
    /// `gates`.
    pub(crate) section: &'static str,
    /// How it ended: `done`, `stopped` (out of time or bytes, or interrupted) or `skipped`.
    pub(crate) state: &'static str,
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// Bytes that it read.
    pub(crate) bytes_read: u64,
    /// Bytes that it wrote, and took away again.
    pub(crate) bytes_written: u64,
}

/// Something worth knowing, or worth doing; the figure that says so, and the command behind that.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Point {
    /// A sentence or two.
    pub(crate) text: String,
    /// The figure.
    pub(crate) figure: String,
    /// The command that gives it.
    pub(crate) command: String,
    /// Where on the page there is more of it: the name of a section, as in [`StepTaken::section`].
    #[serde(skip)]
    pub(crate) section: &'static str,
}

/// What `fathom survey` found.
#[derive(Clone)]
pub(crate) struct Survey<'a> {
    /// The absolute name of the directory that was surveyed.
    pub(crate) root: &'a [u8],
    /// The machine, and how it was measured.
    pub(crate) about: Machine,
    /// Mounts at or under it.
    pub(crate) mounts: Part<MountsPart<'a>>,
    /// The file systems on them: block, readahead, and what else was asked.
    pub(crate) file_systems: Part<Vec<FileSystem<'a>>>,
    /// What walking costs, by each engine.
    pub(crate) walking: Part<walk::Section<'a>>,
    /// What dumping would cost.
    pub(crate) dumping: Part<&'a Nightly>,
    /// What a walk asks of the kernel, call by call.
    pub(crate) calls: Part<&'a Account<'a>>,
    /// What starting programs costs.
    pub(crate) starting: Part<Startup<'a>>,
    /// What each call costs: `fathom probe DIR gates`.
    pub(crate) gates: Part<Probe<'a>>,
    /// What matters most of it: [`super::findings::of`].
    pub(crate) findings: Vec<Point>,
    /// What to do about it: [`super::findings::advice`].
    pub(crate) advice: Vec<Point>,
    /// What was done, in order.
    pub(crate) steps: Vec<StepTaken>,
    /// Why not all was done, where the whole was ended early: `interrupted`, `out of time`.
    pub(crate) ended: Option<String>,
    /// What was skipped or found wrong; the envelope has it in the JSON.
    pub(crate) warnings: &'a [Warning],
}

impl Survey<'_> {
    /// The sections that were not gathered, by their names in the JSON.
    pub(crate) fn skipped(&self) -> Vec<(&'static str, Skipped<'_>)> {
        let all = [
            ("mounts", self.mounts.skipped()),
            ("probe", self.file_systems.skipped()),
            ("walk", self.walking.skipped()),
            ("dump", self.dumping.skipped()),
            ("account", self.calls.skipped()),
            ("startup", self.starting.skipped()),
            ("gates", self.gates.skipped()),
        ];
        all.into_iter()
            .filter_map(|(section, skipped)| Some((section, skipped?)))
            .collect()
    }

    /// Chooses the findings and the advice, once all else is there.
    pub(crate) fn concluded(mut self) -> Self {
        self.findings = super::findings::of(&self);
        self.advice = super::findings::advice(&self);
        self
    }
}

impl Serialize for Survey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let probes = self.file_systems.gathered().map_or(&[][..], Vec::as_slice);
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", Some(self.root))?;
        map.serialize_entry("machine", &self.about)?;
        map.serialize_entry("findings", &self.findings)?;
        map.serialize_entry("advice", &self.advice)?;
        map.serialize_entry("mounts", &self.mounts.gathered().map(|part| &part.mounts))?;
        map.serialize_entry(
            "probe",
            &probes.iter().map(|one| &one.probe).collect::<Vec<_>>(),
        )?;
        map.serialize_entry("walk", &self.walking.gathered())?;
        map.serialize_entry("dump", &self.dumping.gathered())?;
        map.serialize_entry("account", &self.calls.gathered())?;
        map.serialize_entry(
            "account_skipped",
            &self.calls.skipped().map(|skipped| skipped.why),
        )?;
        map.serialize_entry("startup", &self.starting.gathered())?;
        map.serialize_entry("gates", &self.gates.gathered())?;
        map.serialize_entry(
            "skipped",
            &self
                .skipped()
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>(),
        )?;
        map.serialize_entry("steps", &self.steps)?;
        map.serialize_entry("ended", &self.ended)?;
        map.end()
    }
}

/// The page, whole: it needs nothing beside itself.
pub(crate) fn html(survey: &Survey<'_>) -> String {
    super::page::html(survey)
}
