//! Findings and advice: what was concluded from a survey, as data. [`super::show::points`] words
//! them.

use crate::cmd::survey::show::fixes::Fix;
use ::mounts::diagnosis::AnomalyKind;
use ::survey::bounded::{Bounded, StoppedEngine};
use ::survey::{Command, Missing, Section, Unseen};
use archive::nightly::Expected;

use super::known::{CacheSize, Known, Reading};

/// Something worth knowing.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// How many mounts there are, and which of them are unusual.
    Mounts {
        count: usize,
        unusual: usize,
        kinds: Vec<(AnomalyKind, Vec<Vec<u8>>)>,
    },
    /// The method that finds the mounts, and the most expensive one.
    MountMethods { used: Cost, dearest: Cost },
    /// The properties of the first file system that was probed.
    FileSystem(Properties),
    /// An experiment and the kernel disagree.
    KernelDisagrees {
        dir: Vec<u8>,
        name: &'static str,
        experiment: &'static str,
        measured: Reading,
        stated: Reading,
    },
    /// The cost of a walk, and of a walk one call after the other.
    Walk { cost: Cost, plain: Option<Cost> },
    /// A walk needs more than a survey may use; the engines walked a part.
    BoundedWalk {
        bounded: Bounded,
        cost: Option<Cost>,
        plain: Option<Cost>,
    },
    /// No engine finished.
    StoppedWalk {
        stopped: StoppedEngine,
        plain: Option<StoppedEngine>,
    },
    /// The engines report different trees.
    EnginesDisagree { tree_changes: bool },
    /// The lookups of starting programs.
    PathSearch {
        directories: usize,
        missing: usize,
        duplicate: usize,
        started: Vec<StartCost>,
    },
    /// The cost of a dump when nothing has changed.
    NightlyDump {
        first: Expected,
        unchanged: Expected,
    },
    /// The system call in which a walk spends most time.
    DearestCall {
        gate: &'static str,
        percent: f64,
        calls: u64,
        ms_per_call: f64,
    },
    /// The price of statx(2), and of an empty call, in nanoseconds.
    StatxPrice {
        warm: f64,
        cold: Option<f64>,
        empty: Option<f64>,
    },
}

/// Something worth doing.
#[derive(Clone, Debug)]
pub(crate) enum Advice {
    /// Exclude mounts that do not respond.
    ExcludeUnresponsive(Vec<Vec<u8>>),
    /// Unmount hidden mounts.
    UnmountHidden(Vec<Vec<u8>>),
    /// Exclude mounts that show the same as another one.
    ExcludeDuplicates(Vec<Vec<u8>>),
    /// Find out why mounts are read-only.
    CheckReadOnly(Vec<Vec<u8>>),
    /// Walk once, and then ask for changes only.
    KeepCatalog {
        /// The engine, where one walk takes too long for a survey.
        engine: Option<&'static str>,
        effort: Effort,
    },
    /// Choose another engine than the default.
    ChooseEngine { fastest: Cost, default: Cost },
    /// Have fathom walk instead of a tool that makes one call after the other.
    ReplacePlainWalk {
        cost: Cost,
        plain: Cost,
        /// A walk of all was stopped, and the engines walked a part.
        bounded: Option<Bounded>,
    },
    /// Walk as root: an engine needs it.
    WalkAsRoot {
        engine: &'static str,
        why: String,
        effort: Effort,
    },
    /// Change where a program searches.
    FixSearch {
        command: &'static str,
        fix: Fix,
        misses: u64,
    },
    /// Dump increments.
    DumpIncrements { first: Expected, changed: Expected },
    /// Change the calls of a program that walks.
    ChangeCalls {
        change: &'static str,
        how: String,
        saves_calls: i64,
        saves_percent: f64,
    },
    /// Keep small data in few files.
    PackSmallFiles {
        dir: Vec<u8>,
        block: Reading,
        readahead: Option<Reading>,
    },
    /// Keep names and inodes cached; prices of statx(2) in nanoseconds.
    KeepCached { warm: f64, cold: f64 },
    /// Write much before each fsync(2); prices in nanoseconds.
    BatchSyncs { fsync: f64, statx: f64 },
    /// Take the survey as root.
    SurveyAsRoot(Vec<Unseen>),
    /// Gather a section that is missing.
    Gather { section: Section, missing: Missing },
    /// Keep a survey to compare the next one with.
    KeepSurvey { seconds: f64 },
    /// Check network mounts before scans.
    CheckServers { count: usize },
}

/// What is known of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Properties {
    /// The directory that was probed.
    pub(crate) dir: Vec<u8>,
    pub(crate) fstype: Option<Vec<u8>>,
    pub(crate) block: Known,
    pub(crate) readahead: Known,
    pub(crate) cache: CacheSize,
    /// The memory of the machine.
    pub(crate) memory: Option<u64>,
    /// The experiments that give the same results again.
    pub(crate) experiments: &'static str,
    /// How many other file systems were probed.
    pub(crate) others: usize,
}

/// The cost of one way to find mounts or to walk.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// The method or engine.
    pub(crate) name: &'static str,
    /// Mounts or entries that it found.
    pub(crate) found: u64,
    /// The median of its elapsed times.
    pub(crate) ms: f64,
    /// System calls of one run.
    pub(crate) calls: u64,
}

/// The cost of starting a program.
#[derive(Clone, Debug)]
pub(crate) struct StartCost {
    pub(crate) command: &'static str,
    pub(crate) lookups: u64,
    pub(crate) misses: u64,
    /// Seconds in failed lookups.
    pub(crate) seconds: f64,
    /// Seconds of the start on a network file system.
    pub(crate) remote_seconds: f64,
}

/// What a walk takes, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Effort {
    /// Milliseconds.
    Ms(f64),
    /// It was stopped, and what that allows to estimate.
    Bounded(Bounded),
    /// Every engine was stopped.
    Stopped(StoppedEngine),
}

impl Finding {
    /// The section that it is drawn from.
    pub(crate) fn section(&self) -> Section {
        use Finding::*;
        match self {
            Mounts { .. } | MountMethods { .. } => Section::Mounts,
            FileSystem(_) | KernelDisagrees { .. } => Section::Probe,
            Walk { .. } | BoundedWalk { .. } | StoppedWalk { .. } | EnginesDisagree { .. } => {
                Section::Walk
            }
            PathSearch { .. } => Section::Startup,
            NightlyDump { .. } => Section::Dump,
            DearestCall { .. } => Section::Account,
            StatxPrice { .. } => Section::Gates,
        }
    }

    /// How much it matters, against other findings.
    pub(crate) fn weight(&self) -> u32 {
        use Finding::*;
        match self {
            Mounts { .. } if self.has_unresponsive() => 100,
            EnginesDisagree { tree_changes } if !tree_changes => 95,
            Mounts { .. } => 90,
            Walk { .. } | BoundedWalk { .. } | StoppedWalk { .. } => 85,
            FileSystem(_) => 80,
            PathSearch { .. } => 75,
            KernelDisagrees { .. } => 70,
            NightlyDump { .. } => 50,
            StatxPrice { .. } => 45,
            DearestCall { .. } => 40,
            EnginesDisagree { .. } => 35,
            MountMethods { .. } => 30,
        }
    }

    /// The command that shows it.
    pub(crate) fn command(&self) -> Command {
        use Finding::*;
        match self {
            Mounts { .. } if self.has_unresponsive() => Command::CheckMounts,
            Mounts { .. } => Command::Mounts,
            MountMethods { .. } => Command::CompareMethods,
            FileSystem(properties) => {
                Command::Probe(properties.dir.clone(), properties.experiments.to_owned())
            }
            KernelDisagrees {
                dir, experiment, ..
            } => Command::Probe(dir.clone(), (*experiment).to_owned()),
            BoundedWalk { .. } => Command::Walk,
            Walk { .. } | StoppedWalk { .. } | EnginesDisagree { .. } => Command::CompareEngines,
            PathSearch { .. } => Command::Start,
            NightlyDump { .. } => Command::GatherDump,
            DearestCall { .. } => Command::Account,
            StatxPrice { .. } => Command::Prices,
        }
    }

    fn has_unresponsive(&self) -> bool {
        match self {
            Finding::Mounts { kinds, .. } => kinds
                .iter()
                .any(|(kind, _)| *kind == AnomalyKind::Unresponsive),
            _ => false,
        }
    }
}

impl Advice {
    /// The section that it is drawn from.
    pub(crate) fn section(&self) -> Section {
        use Advice::*;
        match self {
            ExcludeUnresponsive(_)
            | UnmountHidden(_)
            | ExcludeDuplicates(_)
            | CheckReadOnly(_)
            | CheckServers { .. } => Section::Mounts,
            KeepCatalog { .. }
            | ChooseEngine { .. }
            | ReplacePlainWalk { .. }
            | WalkAsRoot { .. } => Section::Walk,
            FixSearch { .. } => Section::Startup,
            DumpIncrements { .. } => Section::Dump,
            ChangeCalls { .. } => Section::Account,
            PackSmallFiles { .. } => Section::Probe,
            KeepCached { .. } | BatchSyncs { .. } => Section::Gates,
            SurveyAsRoot(_) | KeepSurvey { .. } => Section::Steps,
            Gather { section, .. } => *section,
        }
    }

    /// How much it helps, against other advice.
    pub(crate) fn weight(&self) -> u32 {
        /// Less is dumped in full without much loss.
        const MUCH_TO_DUMP: u64 = 1 << 20;
        use Advice::*;
        match self {
            ExcludeUnresponsive(_) => 100,
            WalkAsRoot { .. } => 83,
            ChooseEngine { .. } => 82,
            KeepCatalog {
                engine: Some(_), ..
            } => 81,
            ReplacePlainWalk { .. } => 80,
            // Of one that saves next to nothing it is still the best of its kind.
            FixSearch { fix, misses, .. } => match (fix.kind, 20 * fix.saves_misses >= *misses) {
                ("PATH", true) => 75,
                (_, true) => 54,
                (_, false) => 34,
            },
            UnmountHidden(_) => 70,
            CheckReadOnly(_) => 68,
            DumpIncrements { first, .. } if first.bytes >= MUCH_TO_DUMP => 65,
            ChangeCalls { saves_percent, .. } if *saves_percent >= 5.0 => 60,
            SurveyAsRoot(_) => 58,
            KeepCatalog { .. } => 55,
            ExcludeDuplicates(_) => 52,
            PackSmallFiles { .. } => 48,
            KeepCached { .. } => 46,
            BatchSyncs { .. } => 44,
            CheckServers { .. } => 42,
            ChangeCalls { .. } => 33,
            DumpIncrements { .. } => 32,
            Gather { .. } => 20,
            KeepSurvey { .. } => 10,
        }
    }

    /// The command that it recommends.
    pub(crate) fn command(&self) -> Command {
        use Advice::*;
        match self {
            ExcludeUnresponsive(_) => Command::ListExcludes,
            UnmountHidden(_) | ExcludeDuplicates(_) | CheckReadOnly(_) => Command::Mounts,
            KeepCatalog { .. } => Command::WriteCatalog,
            ChooseEngine { fastest, .. } => Command::WalkBy(fastest.name),
            ReplacePlainWalk { bounded: None, .. } => Command::Walk,
            ReplacePlainWalk { .. } => Command::CompareEngines,
            WalkAsRoot { .. } => Command::CompareEnginesAsRoot,
            FixSearch { command, .. } => Command::StartOf(command),
            DumpIncrements { .. } => Command::DumpInFull,
            ChangeCalls { .. } => Command::Account,
            PackSmallFiles { dir, .. } => Command::Probe(dir.clone(), "block readahead".to_owned()),
            KeepCached { .. } | BatchSyncs { .. } => Command::Prices,
            SurveyAsRoot(_) => Command::SurveyAsRoot,
            Gather { section, .. } => Command::Gather(*section),
            KeepSurvey { .. } => Command::SaveSurvey,
            CheckServers { .. } => Command::CheckServers,
        }
    }
}
