//! The remedies for errors of archives and catalogs.

use std::borrow::Cow;

use archive::compression::{BadSuffix, Compression};
use archive::increment::levels::MOST;
use archive::{Action, ErrorKind, NotArchive};
use base::directory::each_entry;
use catalog::Action::{UseCatalog, WriteCatalog};
use gate::Errno;
use gate::fs::StatxMask;
use gate::long::stat_long;
use show::name::printable;
use walk::entry::joined;

use super::{CRLF, OLD_PARTS, store_hint};
use crate::date::DumpTime;

/// The hint for an error of an archive or a catalog; empty if no remedy is known.
pub(crate) fn archive_hint(error: &archive::Error) -> Cow<'static, str> {
    match &error.kind {
        ErrorKind::OtherTree { dir, .. } => format!("use --against '{}'", printable(dir)).into(),
        ErrorKind::OtherPrefix { prefix, .. } => format!(
            "to compare different directories, write the archive with (cd '{}' && fathom dump . -o ARCHIVE)",
            printable(prefix)
        )
        .into(),
        ErrorKind::NotArchive(NotArchive::Compressed(_, command)) => {
            format!("decompress it with {command}, and give - as ARCHIVE").into()
        }
        ErrorKind::NotArchive(NotArchive::Encrypted(_, command)) => {
            let file = printable(&error.path);
            format!("{command} '{file}' | fathom restore - -C DIR").into()
        }
        ErrorKind::NoArchives if has(&error.path, b"dumps.ndjson") => {
            let dir = printable(&error.path);
            format!("it is a state directory: give --state '{dir}'").into()
        }
        ErrorKind::NoDump if has_snapshot_catalog(&error.path) => ITS_SNAPSHOTS.into(),
        ErrorKind::NoArchives if is_repository(&error.path) => {
            let dir = printable(&error.path);
            format!("it is a restic repository: restic -r '{dir}' snapshots lists it").into()
        }
        ErrorKind::Catalog(catalog::ErrorKind::Store(error)) => store_hint(error),
        ErrorKind::Catalog(_)
            if matches!(error.action, Action::Catalog(_)) && has(&error.path, b"dumps.ndjson") =>
        {
            match newest_catalog(&error.path) {
                Some(path) => {
                    let path = printable(&path);
                    format!("it is a state directory: give its newest catalog, '{path}'").into()
                }
                None => "it is a state directory without a catalog".into(),
            }
        }
        ErrorKind::Catalog(kind) if kind.errno() == Some(Errno::ENOENT) && is_time(&error.path) => {
            "--since takes a catalog, which fathom walk --catalog writes; \
             fathom walk --changed-within 1d needs none"
                .into()
        }
        ErrorKind::Catalog(kind) => of_catalog(error.action, kind).into(),
        kind => of_archive(error.action, kind).into(),
    }
}

/// Whether the name of a missing catalog is a time, such as `yesterday`.
fn is_time(path: &[u8]) -> bool {
    str::from_utf8(path).is_ok_and(|text| DumpTime::parse(text).is_some())
}

/// The catalog of the last dump in a state directory: that of the highest level, because a dump
/// removes the catalogs of higher levels.
pub(crate) fn newest_catalog(state: &[u8]) -> Option<Vec<u8>> {
    let names = (0..=MOST)
        .rev()
        .map(|level| format!("level-{level}.parquet"));
    let mut names = names.filter(|name| has(state, name.as_bytes()));
    names.next().map(|name| joined(state, name.as_bytes()))
}

fn has(dir: &[u8], name: &[u8]) -> bool {
    stat_long(&joined(dir, name), StatxMask::TYPE).is_ok()
}

/// The remedy for a state directory of `fathom dump --restic`.
pub(crate) const ITS_SNAPSHOTS: &str = "it is the state directory of fathom dump --restic: \
    restic snapshots lists its dumps, and restic restore restores them";

/// Whether a directory has a catalog of `fathom dump --restic --state`.
pub(crate) fn has_snapshot_catalog(state: &[u8]) -> bool {
    let Ok(dir) = gate::file::open_directory(state) else {
        return false;
    };
    let mut has_any = false;
    let listed = each_entry(&dir, |entry| {
        let name = entry.name.to_bytes();
        has_any |= name.starts_with(b"restic-") && name.ends_with(b".parquet");
    });
    listed.is_ok() && has_any
}

/// Whether a directory has the files of a restic repository.
fn is_repository(dir: &[u8]) -> bool {
    [&b"config"[..], b"keys", b"snapshots"]
        .into_iter()
        .all(|name| has(dir, name))
}

fn of_catalog(action: Action, kind: &catalog::ErrorKind) -> &'static str {
    use Action::*;
    use catalog::ErrorKind;
    match (action, kind.errno()) {
        (OpenState | FindBase | RemoveHigherLevels, Some(Errno::ENOENT)) => {
            return "check the name, or create the directory";
        }
        (RestoreInto, Some(Errno::ENOENT)) => return "create it first",
        (WriteArchive, Some(Errno::ENOSPC)) => {
            return "free some space, or write to another file system";
        }
        (WriteArchive, Some(Errno::EFBIG)) => {
            return "ulimit -f or the file system limits the file size; compress with a name that ends in .zst";
        }
        _ => {}
    }
    match (action, kind) {
        (Catalog(UseCatalog), ErrorKind::SeveralRoots { .. }) => {
            "write one with fathom walk --catalog"
        }
        (Catalog(UseCatalog), ErrorKind::Unpaired { .. }) => {
            "give one catalog of each directory in OLD and in NEW"
        }
        (Catalog(UseCatalog), ErrorKind::NotAllParts) => {
            "give a directory with the parts of one walk"
        }
        (ReadArchive | Restore, ErrorKind::MissingParts(_)) => {
            "give a directory with all parts of one dump"
        }
        (_, ErrorKind::MissingParts(_)) => {
            "wait until all parts are written, or walk again; --resume keeps parts that are finished"
        }
        (Catalog(WriteCatalog), ErrorKind::OtherRun) => OLD_PARTS,
        (Catalog(WriteCatalog), ErrorKind::InParts) => {
            "make one catalog of the parts with fathom query --compact, and update that"
        }
        (Catalog(UseCatalog), ErrorKind::OnlyRank { .. }) => "give the directory with all parts",
        (Catalog(UseCatalog), ErrorKind::OnlyShard(_)) => {
            "compare it with the same shard of another walk"
        }
        (UseBase, ErrorKind::OnlyRank { .. }) => {
            "give the directory with all parts, or make a full dump"
        }
        (UseBase, ErrorKind::OnlyShard(_)) => {
            "give the directory with all shards, or make a full dump"
        }
        (Catalog(UseCatalog), ErrorKind::OnlyListed) => "write one with fathom walk --catalog",
        (
            Catalog(UseCatalog),
            ErrorKind::OtherFileSystem { .. } | ErrorKind::OtherDirectory { .. },
        ) => "give that directory, or write a new catalog",
        (Catalog(UseCatalog), ErrorKind::OtherNameForExcludes { .. }) => {
            "give DIR by the same path"
        }
        (OpenArchive, ErrorKind::OtherOwner { .. } | ErrorKind::OthersMayWrite { .. }) => {
            "fathom restore takes it by its name, if you trust everybody who may have written it"
        }
        (OpenState | ReadRecords, ErrorKind::OtherOwner { .. }) => {
            "run fathom as that user, or chown it; list, verify and restore also take the archives by name"
        }
        (_, ErrorKind::OtherOwner { .. }) => "use one of your own, or run fathom as that user",
        (_, ErrorKind::OthersMayWrite { .. }) => {
            "chmod go-w, once nobody else can have written what is in it"
        }
        (UseBase, _) => "make a full dump",
        (_, ErrorKind::NewerCatalog { .. }) => "use a newer fathom, or write a new catalog",
        (_, ErrorKind::NotParquet | ErrorKind::NotCatalog) => {
            "give a file that --catalog has written"
        }
        (_, ErrorKind::StaleChecksum) => {
            "remove checksum and checksums from its metadata fathom.catalog, or make a full dump"
        }
        (_, ErrorKind::UnknownCodec(_)) => "write it again with zstd, Snappy, gzip or LZ4_RAW",
        (ReadRecords, ErrorKind::TooLong { .. }) => {
            "find out what has written it: each dump takes a line of 500 bytes to 4 MiB"
        }
        (_, ErrorKind::TooLong { .. } | ErrorKind::LargeRowGroup { .. }) => {
            "write it again with smaller row groups"
        }
        (_, ErrorKind::NoColumn { .. } | ErrorKind::OtherType { .. }) => {
            "write it again with all columns of the original, in their types"
        }
        // Do not suggest a new catalog for increments: an increment that is based on a new catalog
        // would miss the changes since the damaged one.
        (_, kind) if kind.is_unusable_catalog() => {
            "write a new catalog; for increments, make a full dump"
        }
        (_, ErrorKind::SeveralRuns { .. }) => {
            "move the parts of each run to a directory of its own"
        }
        (_, ErrorKind::NoCatalogs) => "give a catalog, or a directory with the parts of one",
        (FindDump, _) => {
            "fathom list --state prints the archives; fathom restore takes them by name"
        }
        _ => "",
    }
}

fn of_archive(action: Action, kind: &ErrorKind) -> &'static str {
    use Action::*;
    match (action, kind) {
        (ReadList, ErrorKind::CarriageReturn { .. }) => CRLF,
        (UseList, ErrorKind::NoNames) => "name at least one file or directory, one per line",
        (UseList, ErrorKind::MixedNames { .. }) => {
            "make all names absolute, or all relative to the current directory"
        }
        (UseList, ErrorKind::ParentInName { .. }) => {
            "use an absolute name, or run fathom in the directory above"
        }
        (UseBase, ErrorKind::OtherSources { .. }) => {
            "give SRC by the same path, or make a full dump"
        }
        (OpenArchive, ErrorKind::ArchiveGone { .. }) => {
            "fathom list --state prints the archives; fathom restore takes them by name"
        }
        (WriteArchive, ErrorKind::LocalArchive { .. }) => {
            "write the archive to the store, or use a local --state"
        }
        (_, ErrorKind::LocalArchive { .. }) => {
            "fathom restore takes it by its name; records in a store name objects only"
        }
        (_, ErrorKind::SourceBehindSymlink { .. }) => {
            "give the target of the symlink, or dump it to an archive of its own"
        }
        (UseBase, ErrorKind::SameName(..)) => "dump them to archives of their own",
        (OpenState, ErrorKind::OtherSources { .. }) => {
            "give SRC as before, or a state directory of its own"
        }
        (UseBase, _) => "make a full dump",
        (_, ErrorKind::NoArchives) => "give an archive, or a directory with the parts of one",
        (OpenState, ErrorKind::NotMounted { .. }) => {
            "mount it, or remove its line from /etc/fstab: archives would be written to another file system"
        }
        (CreateState, ErrorKind::NoParent) => {
            "create it if its file system is mounted; mount that first if it is not"
        }
        (OpenState, ErrorKind::StateInUse) => "wait until it ends, or give another directory",
        (ReadRecords, ErrorKind::DamagedRecord { .. }) => {
            "remove that line; fathom restore takes archives by name as well"
        }
        (FindDump, ErrorKind::NoDump) => {
            "give the directory of fathom dump --state, or the archives by name"
        }
        (FindDump, ErrorKind::NoDumpBefore) => "fathom list --state prints all dumps",
        (FindDump, _) => {
            "fathom list --state prints the archives; fathom restore takes them by name"
        }
        (RestoreInto, ErrorKind::NotEmpty { .. }) => {
            "restore into an empty directory, or give --overwrite; --overwrite -n shows first what it would replace and remove"
        }
        (Restore, ErrorKind::BaseMissing { .. }) => {
            "give all archives of the chain; fathom list --state prints them"
        }
        (Restore, ErrorKind::BeforeBase { .. }) => {
            "give the archives in the order in which they were made"
        }
        (Restore, ErrorKind::SameBase { .. }) => "omit the older of the two",
        (Restore, ErrorKind::SecondFullDump { .. }) => {
            "give one full dump and its increments, and restore the other chain into another directory"
        }
        (Restore, ErrorKind::StrippedChain) => {
            "restore without --strip-components into a new directory, and move what is in it"
        }
        (CompareWith, ErrorKind::NoCatalogKept) => {
            "fathom verify ARCHIVE --against DIR compares a full dump; dumps without -o keep their catalogs"
        }
        (Restore, ErrorKind::NotInDump) => {
            "fathom list --state DIR -- '*NAME*' finds files in all dumps"
        }
        (Restore, ErrorKind::NotPlainFile) => "restore it into a directory, with -C",
        (Restore, ErrorKind::OutsideSources { .. }) => "give a path below one of these",
        (Restore, ErrorKind::BadName(_)) => "give the name as fathom list prints it",
        (_, ErrorKind::ReplacesSource) => "give another name",
        (_, ErrorKind::ReplacesBase) => "give each archive a name of its own",
        (_, ErrorKind::SharedFile) => "give each a name of its own",
        (_, ErrorKind::Suffix(BadSuffix::Other)) => {
            "give a name with the suffix of --compress, or with .tar"
        }
        (_, ErrorKind::Suffix(BadSuffix::Unsupported)) => "use .tar, .tar.gz, .tar.xz or .tar.zst",
        (_, ErrorKind::NoSuchPath { is_directory: true }) => "to restore into it, use -C",
        (_, ErrorKind::NoSuchPath { .. }) => {
            "check the name of the archive; fathom list prints the members"
        }
        (_, ErrorKind::NotArchive(what)) => match what {
            NotArchive::Parquet => "give the archive of the same dump",
            NotArchive::Empty
            | NotArchive::Other
            | NotArchive::Compressed(..)
            | NotArchive::Encrypted(..) => "give an archive of fathom dump or tar",
        },
        (_, ErrorKind::DamagedArchive { at: 0, .. }) => {
            "nothing in it can be read: copy the file again, or use another copy"
        }
        (_, ErrorKind::DamagedArchive { .. }) => "fathom verify shows what is damaged",
        (_, ErrorKind::LargeWindow(Compression::Zstd)) => {
            "decompress it with zstd -dc --long=31, and give - as ARCHIVE"
        }
        (_, ErrorKind::LargeWindow(_)) => "decompress it with xz -dc, and give - as ARCHIVE",
        _ => "",
    }
}
