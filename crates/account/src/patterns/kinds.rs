//! The patterns, and the changes that take them away.

/// A redundant pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// stat and open by the same name, then fstat: the first and the last say the same. If nothing
    /// else is done with the descriptor, it was opened in vain.
    StatOpenFstat,
    /// Another stat by the same process, of a file that no metered process has changed.
    RepeatedStat,
    /// A lookup by name ends in `ENOENT` or `ENOTDIR`.
    Miss,
    /// A call for extended attributes finds none: `ENODATA`, `EOPNOTSUPP`, or an empty list.
    NoXattr,
    /// A small directory is listed by two calls, of which the second only finds the end.
    TinyDirectory,
    /// Consecutive reads of under 4 KiB.
    SmallReads,
    /// Consecutive writes of under 4 KiB.
    SmallWrites,
    /// fsync(2) after each few bytes.
    SmallSyncs,
    /// Many lookups in one directory by long names, by one process.
    LongNames,
}

impl Pattern {
    /// Every one, in the order of the enum.
    pub const ALL: [Pattern; 9] = [
        Pattern::StatOpenFstat,
        Pattern::RepeatedStat,
        Pattern::Miss,
        Pattern::NoXattr,
        Pattern::TinyDirectory,
        Pattern::SmallReads,
        Pattern::SmallWrites,
        Pattern::SmallSyncs,
        Pattern::LongNames,
    ];

    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::StatOpenFstat => "stat-open-fstat",
            Pattern::RepeatedStat => "repeated-stat",
            Pattern::Miss => "miss",
            Pattern::NoXattr => "no-xattr",
            Pattern::TinyDirectory => "tiny-directory",
            Pattern::SmallReads => "small-reads",
            Pattern::SmallWrites => "small-writes",
            Pattern::SmallSyncs => "small-syncs",
            Pattern::LongNames => "long-names",
        }
    }
}

/// What was found of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPattern {
    /// How often.
    pub count: u64,
    /// Redundant calls in it.
    pub calls: u64,
    /// Time in them, as it was metered, in nanoseconds.
    pub nanos: u64,
    /// The name of one of the files.
    pub example: Option<Vec<u8>>,
}

/// A change of a program that takes away what is redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// One stat for stat, open, fstat and close.
    CombineStat,
    /// One question for all extended attributes of a file, by name.
    CombineXattr,
    /// No question for extended attributes of files that have none.
    SkipXattr,
    /// The results of stat are cached.
    KeepStat,
    /// Failed lookups are cached.
    CacheMisses,
    /// Reads and writes of a page at least.
    Buffer,
    /// One fsync for each opening.
    SyncOnce,
    /// Lookups relative to an open directory.
    DirectoryFd,
}

impl Spare {
    /// Every one, in the order of the enum.
    pub const ALL: [Spare; 8] = [
        Spare::CombineStat,
        Spare::CombineXattr,
        Spare::SkipXattr,
        Spare::KeepStat,
        Spare::CacheMisses,
        Spare::Buffer,
        Spare::SyncOnce,
        Spare::DirectoryFd,
    ];
}
