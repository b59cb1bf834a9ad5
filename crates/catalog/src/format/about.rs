//! The description of a catalog: the JSON value of the key `fathom.catalog` in the Parquet
//! metadata.

use ondisk::pax::ArchiveId;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use walk::entry::Time;
use walk::{Digest, Filter, Shard, Tags};

use super::footer;
use super::inode_sums::InodeSumsPlace;
use super::sums::Sums;
use crate::error::ErrorKind;
use crate::part::Part;
use crate::since::GoneMount;
use crate::stored;
use crate::tick::before_a_tick;

/// Key of the description in the Parquet file metadata.
pub(crate) const KEY: &str = "fathom.catalog";

/// The format version that is written, and the newest that can be read.
const VERSION: u64 = 1;

/// The part of a data set that a catalog contains, if several processes have divided the entries.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShardOfRun {
    /// Number of the part, from 0.
    pub number: u32,
    /// Number of parts in the data set.
    pub of: u32,
    /// Name of the run, if any. Parts of different runs do not form a data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Whether the ranks of an MPI job divided the entries during the walk. Otherwise a hash of the
    /// path assigns each entry to a part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_ranks: bool,
}

impl ShardOfRun {
    /// The shard of the tree, regardless of the run; `None` if ranks divided the entries.
    pub fn shard(&self) -> Option<Shard> {
        let &ShardOfRun { number, of, .. } = self;
        (!self.by_ranks).then_some(Shard { number, of })
    }

    /// The error for a catalog that has only the entries found by one rank of several: such a
    /// catalog cannot be compared with a tree or with a different part. `None` for a shard, which
    /// can be compared with the same shard.
    pub fn refusal(&self) -> Option<ErrorKind> {
        let &ShardOfRun { number, of, .. } = self;
        (self.by_ranks && of > 1).then_some(ErrorKind::OnlyRank { number, of })
    }

    /// File name of the part's archive, in the directory of the dump.
    pub fn archive_name(&self, suffix: &str) -> String {
        format!("part-{}-of-{}{suffix}", self.number, self.of)
    }

    /// File name of the catalog, in the directory of the data set.
    pub fn file_name(&self) -> String {
        format!("part-{}-of-{}.parquet", self.number, self.of)
    }
}

/// Which entries the walk excluded.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// Whether the walk excluded the contents of directories with a CACHEDIR.TAG.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_caches: bool,
    /// Names of tag files: the walk excluded the contents of directories that have such a file.
    #[serde(flatten, with = "stored::exclude_if_present")]
    pub exclude_if_present: Vec<Vec<u8>>,
    /// Exclude patterns, as given.
    #[serde(flatten, with = "stored::excludes")]
    pub excludes: Vec<Vec<u8>>,
    /// Whether the walk read only the names in a list (`--files-from`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files_from: bool,
    /// Maximum depth of the walk; `None` for no limit.
    pub max_depth: Option<u32>,
    /// Whether the walk stayed on the file system of DIR (`-x`).
    pub one_file_system: bool,
    /// The part of the tree that was walked; `None` for the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardOfRun>,
}

impl Options {
    /// The options without the name of the run.
    pub(crate) fn without_run(&self) -> Options {
        let shard = self.shard.clone();
        Options {
            shard: shard.map(|shard| ShardOfRun { run: None, ..shard }),
            ..self.clone()
        }
    }

    /// A filter that excludes the same entries as the walk that wrote the catalog.
    pub fn filter(&self) -> Filter {
        let tags = Tags::new(self.exclude_caches, &self.exclude_if_present);
        Filter::new(&self.excludes, self.max_depth)
            .with_tags(tags)
            .with_shard(self.shard.as_ref().and_then(ShardOfRun::shard))
    }
}

/// The restic snapshot of the tree that a catalog describes. Fields are sorted by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotRecord {
    /// Hash of the metadata of the directories above the catalog's entries; empty in older
    /// catalogs.
    #[serde(default)]
    pub above: String,
    /// Hash of all data, except the entries, on which the trees of the snapshot depend.
    pub context: String,
    /// Index files of the repository, as prefixes of their names.
    pub indexes: Vec<String>,
    /// The id of the repository.
    pub repository: String,
    /// The id of the snapshot's tree in the repository.
    pub tree: String,
}

/// A directory described by a catalog; for a dump, a SRC.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Root {
    /// Absolute path, if known.
    #[serde(flatten, with = "stored::absolute")]
    pub absolute: Option<Vec<u8>>,
    /// Path as given: patterns with a slash match paths that begin with it.
    #[serde(flatten, with = "stored::path")]
    pub path: Vec<u8>,
}

impl Root {
    /// Describes an existing directory by its path, as given.
    pub(super) fn new(dir: &[u8]) -> Root {
        Root {
            path: dir.to_vec(),
            absolute: mounts::root::absolute(dir),
        }
    }
}

/// The description of a catalog. Fields are sorted by their stored names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// For a part of a dump by several ranks: [`Sums::above`](super::Sums::above) of its rows, in
    /// hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<String>,
    /// Id of the archive written with the catalog; for a dump without changes, the id of the base's
    /// archive.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "stored::text"
    )]
    pub archive: Option<ArchiveId>,
    /// CRC-32 of each column chunk, by row group; empty in older catalogs.
    #[serde(default)]
    pub checksums: Vec<Vec<u32>>,
    /// Whether the walk skipped no entry.
    pub complete: bool,
    /// The digest over all entries.
    pub digest: String,
    /// Number of rows.
    pub entries: u64,
    /// End of the walk.
    #[serde(with = "stored::StoredTime")]
    pub finished: Time,
    /// Mounts that had disappeared before the dump.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone_mounts: Vec<GoneMount>,
    /// Location of the sums over inodes in the file; `None` if the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode_sums: Option<InodeSumsPlace>,
    /// Which entries the walk excluded.
    pub options: Options,
    /// The file systems of the tree.
    pub parts: Vec<Part>,
    /// Number of rows with a ctime at or after [`About::at_rest_before`]: these entries may change
    /// again without a new ctime.
    pub racy: u64,
    /// The DIR of a walk, or each SRC of a dump. The column `top` has indexes into this list.
    pub roots: Vec<Root>,
    /// The restic snapshot that contains exactly the entries of the catalog, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRecord>,
    /// Beginning of the walk.
    #[serde(with = "stored::StoredTime")]
    pub started: Time,
}

/// [`About`] as stored, with version and checksum.
#[derive(Serialize)]
struct StoredAbout<'a> {
    checksum: &'static str,
    #[serde(flatten)]
    about: &'a About,
    version: u64,
}

impl About {
    /// The beginning of the walk minus a [tick](crate::tick::TICK) of the file system's clock. An
    /// entry with an earlier ctime was not changing while it was read.
    pub fn at_rest_before(&self) -> Time {
        before_a_tick(self.started)
    }

    /// The sums over the rows, for a part of a dump.
    pub(super) fn sums(&self) -> Option<Sums> {
        let above = u64::from_str_radix(self.above.as_ref()?, 16).ok()?;
        let digest = self.digest()?;
        Some(Sums { digest, above })
    }

    /// The parsed digest; `None` if its text is damaged.
    pub(super) fn digest(&self) -> Option<Digest> {
        let own = u128::from_str_radix(&self.digest, 16).ok()?;
        Some(Digest::from_halves([own as u64, (own >> 64) as u64]))
    }

    /// DIRs and options, which all parts of a run have in common; `None` for a catalog that is no
    /// part.
    pub(crate) fn run(&self) -> Option<(Vec<&[u8]>, Options)> {
        let part = self.options.shard.clone()?;
        let roots = self.roots.iter().map(|root| &root.path[..]).collect();
        let options = Options {
            shard: Some(ShardOfRun { number: 0, ..part }),
            ..self.options.clone()
        };
        Some((roots, options))
    }

    /// The description as a key-value pair of the Parquet metadata.
    pub(super) fn to_pair(&self) -> KeyValue {
        KeyValue::new(KEY.to_owned(), self.to_json())
    }

    fn to_json(&self) -> String {
        let stored = StoredAbout {
            checksum: footer::ZEROS,
            about: self,
            version: VERSION,
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Parses a description.
    ///
    /// # Errors
    /// The text is damaged, or of a newer version.
    pub(crate) fn from_json(text: &str) -> Result<About, ErrorKind> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let damaged = |_| ErrorKind::DamagedCatalog;
        let Versioned { version } = serde_json::from_str(text).map_err(damaged)?;
        match version {
            0 => Err(ErrorKind::DamagedCatalog),
            1..=VERSION => serde_json::from_str(text).map_err(damaged),
            _ => Err(ErrorKind::NewerCatalog {
                version,
                known: VERSION,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use ondisk::Dev;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stored_values_are_read_back(
            root in proptest::collection::vec(any::<u8>(), 0..20),
            fstype in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..8)),
            (sec, nsec, entries, magic) in any::<(i64, u32, u64, u64)>(),
            (uuid, major, max_depth) in any::<(Option<[u8; 16]>, u32, Option<u32>)>(),
            excludes in any::<Vec<Vec<u8>>>(),
            tags in proptest::collection::vec(any::<String>(), 0..3),
            (transactions, has_token) in any::<(u64, bool)>(),
            checksums in any::<Vec<Vec<u32>>>(),
            snapshot in proptest::option::of(any::<(String, Vec<String>)>()),
        ) {
            let token = has_token.then(|| format!("ext4 boot b mount 1 transactions {transactions}").parse().unwrap());
            let dev = Dev::new(major, 1);
            let part = Part { top: major, path: root.clone(), fstype, magic, uuid, dev, token, mount_point: Some(b"/\xff".to_vec()), ..Part::default() };
            let about = About {
                roots: vec![Root { path: root, absolute: None }, Root { path: Vec::new(), absolute: Some(b"/\xff".to_vec()) }],
                started: Time { sec, nsec },
                entries,
                options: Options {
                    excludes,
                    exclude_if_present: tags.into_iter().map(String::into_bytes).collect(),
                    max_depth,
                    one_file_system: true,
                    ..Options::default()
                },
                parts: vec![part.clone(), part],
                checksums,
                gone_mounts: vec![GoneMount { entries, mount_point: Some(b"/\xff".to_vec()), path: b"\xff".to_vec() }],
                snapshot: snapshot.map(|(tree, indexes)| SnapshotRecord { tree, indexes, ..SnapshotRecord::default() }),
                ..About::default()
            };
            prop_assert_eq!(About::from_json(&about.to_json()).ok(), Some(about));
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            let _ = About::from_json(&text);
        }
    }

    /// A description with a value in every field, for tests.
    fn full() -> About {
        let part = Part {
            top: 1,
            path: b"mnt".to_vec(),
            fstype: Some(b"ext4".to_vec()),
            source: Some(b"/dev/\xff".to_vec()),
            fsroot: Some(b"/".to_vec()),
            magic: 0xef53,
            fsid: [7, 8],
            uuid: Some([3; 16]),
            dev: Dev::new(8, 1),
            ino: 2,
            mount_point: None,
            engine: Some("ext4".to_owned()),
            token: "ext4 boot b mount 1 transactions 2".parse().ok(),
            subvolume: None,
        };
        About {
            roots: vec![Root {
                path: b"s\xff".to_vec(),
                absolute: Some(b"/s\xff".to_vec()),
            }],
            started: Time::new(-1, 2),
            finished: Time::new(3, 4),
            entries: 5,
            racy: 6,
            digest: "0123456789abcdef".to_owned(),
            complete: true,
            options: Options {
                excludes: vec![b"*.o".to_vec()],
                max_depth: Some(9),
                one_file_system: true,
                ..Options::default()
            },
            parts: vec![part, Part::default()],
            checksums: vec![vec![1, 2], vec![]],
            snapshot: None,
            inode_sums: None,
            above: None,
            archive: None,
            gone_mounts: Vec::new(),
        }
    }

    #[test]
    fn stored_form_is_that_of_version_1() {
        let golden = concat!(
            r#"{"checksum":"00000000","checksums":[[1,2],[]],"complete":true,"#,
            r#""digest":"0123456789abcdef","entries":5,"finished":{"nsec":4,"sec":3},"#,
            r#""options":{"excludes":["*.o"],"max_depth":9,"one_file_system":true},"parts":[{"#,
            r#""dev":"8:1","engine":"ext4","fsid":[7,8],"fsroot":"/","fstype":"ext4","ino":2,"#,
            r#""magic":61267,"path":"mnt","source":"/dev/�","source_b64":"L2Rldi//","#,
            r#""token":"ext4 boot b mount 1 transactions 2","top":1,"uuid":"03030303030303030303030303030303"},{"#,
            r#""dev":"0:0","engine":null,"fsid":[0,0],"fsroot":null,"fstype":null,"ino":0,"#,
            r#""magic":0,"path":"","source":null,"token":null,"top":0,"uuid":null}],"racy":6,"#,
            r#""roots":[{"absolute":"/s�","absolute_b64":"L3P/","path":"s�","path_b64":"c/8="}],"#,
            r#""started":{"nsec":2,"sec":-1},"version":1}"#,
        );
        assert_eq!(full().to_json(), golden);
        assert_eq!(About::from_json(golden).ok(), Some(full()));
    }

    #[test]
    fn newer_versions_are_recognized() {
        let text = About::default()
            .to_json()
            .replace("\"version\":1", "\"version\":2");
        let error = About::from_json(&text);
        let is_newer = |e: &_| {
            matches!(
                e,
                ErrorKind::NewerCatalog {
                    version: 2,
                    known: 1
                }
            )
        };
        assert!(error.as_ref().is_err_and(is_newer), "{error:?}");
        let error = About::from_json("{}");
        assert!(matches!(error, Err(ErrorKind::DamagedCatalog)), "{error:?}");
    }
}
