//! The redundant patterns, and the changes that avoid them.

base::named! {
    /// A redundant pattern.
    Pattern {
        /// stat and open of one name, then fstat: stat and fstat return the same. If the descriptor
        /// is not used otherwise, the open was needless, too.
        StatOpenFstat "stat-open-fstat",
        /// A second stat by the same process, of a file that no metered process has changed.
        RepeatedStat "repeated-stat",
        /// A lookup by name ends in `ENOENT` or `ENOTDIR`.
        Miss "miss",
        /// A call for extended attributes finds none: `ENODATA`, `EOPNOTSUPP`, or an empty list.
        NoXattr "no-xattr",
        /// A small directory is listed by two calls, of which the second only finds the end.
        TinyDirectory "tiny-directory",
        /// Consecutive reads of under 4 KiB.
        SmallReads "small-reads",
        /// Consecutive writes of under 4 KiB.
        SmallWrites "small-writes",
        /// Repeated fsync(2) of one opened file, each after only a few written bytes.
        SmallSyncs "small-syncs",
        /// Many lookups in one directory by paths of several components, by one process.
        LongNames "long-names",
        /// Many opens of one file by one process, without truncating or replacing it.
        RepeatedOpen "repeated-open",
    }
}

/// The occurrences of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPattern {
    /// The number of occurrences.
    pub count: u64,
    /// The number of redundant calls.
    pub calls: u64,
    /// Metered time of the redundant calls, in nanoseconds.
    pub nanos: u64,
    /// The name of the file on which the pattern occurred most often; of several, the first.
    pub example: Option<Vec<u8>>,
}

base::named! {
    /// A change of a program that avoids redundant calls.
    PatternFix {
        /// Replace stat, open, fstat and close by one stat.
        CombineStat "combine-stat",
        /// Read all extended attributes of a file by one call with its name.
        CombineXattr "combine-xattr",
        /// Do not read extended attributes of files without any.
        SkipXattr "skip-xattr",
        /// Cache the results of stat.
        KeepStat "keep-stat",
        /// Cache failed lookups.
        CacheMisses "cache-misses",
        /// Read and write at least a page at a time.
        Buffer "buffer",
        /// Call fsync once per opened file.
        SyncOnce "sync-once",
        /// Look names up relative to an open directory.
        DirectoryFd "directory-fd",
    }
}
