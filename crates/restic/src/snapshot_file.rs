//! The files of snapshots: JSON (`doc/design.rst`, "Snapshots", and `internal/data/snapshot.go`).

use std::collections::BTreeSet;

use gate::sync::Mutex;
use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::repository::RepositoryFiles;
use crate::repository_file::RepositoryFile;
use crate::seal::Cipher;
use crate::times::LocalTime;

/// A snapshot, with the fields of restic and a label of rustic.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotFile {
    pub(crate) time: LocalTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Id>,
    pub(crate) tree: Id,
    pub(crate) paths: BTreeSet<String>,
    #[serde(default)]
    pub(crate) hostname: String,
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) uid: u32,
    #[serde(default)]
    pub(crate) gid: u32,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) tags: BTreeSet<String>,
    #[serde(default)]
    pub(crate) program_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<SnapshotSummary>,
    /// rustic's label, which distinguishes snapshots of the same paths.
    #[serde(default, skip_serializing)]
    pub(crate) label: String,
    /// The id: the name of the file.
    #[serde(skip)]
    pub(crate) id: Id,
}

/// The numbers of files and directories of a snapshot, and the data added to the repository.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are those of restic")]
pub struct SnapshotSummary {
    pub(crate) backup_start: LocalTime,
    pub(crate) backup_end: LocalTime,
    pub files_new: u64,
    pub files_changed: u64,
    pub files_unmodified: u64,
    pub dirs_new: u64,
    pub dirs_changed: u64,
    pub dirs_unmodified: u64,
    pub data_blobs: u64,
    pub tree_blobs: u64,
    /// Number of bytes added to the repository, before compression.
    pub data_added: u64,
    /// Number of bytes added to the repository, as stored.
    pub data_added_packed: u64,
    pub total_files_processed: u64,
    pub total_bytes_processed: u64,
}

impl SnapshotFile {
    /// Whether two snapshots have the same host and paths.
    fn has_sources_of(&self, other: &SnapshotFile) -> bool {
        self.hostname == other.hostname && self.paths == other.paths && self.label == other.label
    }

    /// The last snapshot of the same host and paths. Damaged snapshots are skipped, and so are
    /// unreadable ones, which prevent the new snapshot from being written.
    pub(crate) fn find_last(&self, files: &RepositoryFiles, cipher: &Cipher) -> Option<Self> {
        let last = Mutex::new(None::<SnapshotFile>);
        let read = files.read_all(RepositoryFile::Snapshot, |id, sealed| {
            let json = files.keep_failure(sealed);
            let json = json.and_then(|mut sealed| cipher.open_file(&mut sealed));
            let parsed = json.and_then(|json| serde_json::from_slice::<SnapshotFile>(&json).ok());
            if let Some(found) = parsed.filter(|found| found.has_sources_of(self)) {
                let mut last = last.lock();
                let is_later =
                    |known: &SnapshotFile| (found.time.at, id) > (known.time.at, known.id);
                if last.as_ref().is_none_or(is_later) {
                    *last = Some(SnapshotFile { id, ..found });
                }
            }
            Ok(())
        });
        files.keep_failure(read)?;
        last.into_inner()
    }
}

impl SnapshotSummary {
    /// Adds the files, directories and bytes of another part of the tree.
    pub(crate) fn add(&mut self, other: &SnapshotSummary) {
        self.files_new += other.files_new;
        self.files_changed += other.files_changed;
        self.files_unmodified += other.files_unmodified;
        self.dirs_unmodified += other.dirs_unmodified;
        self.add_bytes(other.total_bytes_processed);
    }

    /// Adds a file's size. Sizes may be arbitrary, so the sum saturates at 2^64-1.
    pub(crate) fn add_bytes(&mut self, more: u64) {
        self.total_bytes_processed = self.total_bytes_processed.saturating_add(more);
    }

    /// The number of directories.
    pub(crate) fn dirs(&self) -> u64 {
        let dirs = self.dirs_new.saturating_add(self.dirs_changed);
        dirs.saturating_add(self.dirs_unmodified)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A snapshot file by restic 0.19.
    fn by_restic() -> Value {
        json!({
            "time": "2024-07-03T11:46:40.120000001+02:00",
            "parent": Id::hash(b"parent").to_string(),
            "tree": Id::hash(b"tree").to_string(),
            "paths": ["/srv"],
            "hostname": "here",
            "username": "me",
            "uid": 1000,
            "gid": 100,
            "excludes": ["*.o"],
            "tags": ["a", "b"],
            "original": Id::hash(b"original").to_string(),
            "program_version": "restic 0.19.1",
            "summary": {
                "backup_start": "2024-07-03T11:46:40.120000001+02:00",
                "backup_end": "2024-07-03T11:46:41+02:00",
                "files_new": 1, "files_changed": 2, "files_unmodified": 3,
                "dirs_new": 4, "dirs_changed": 5, "dirs_unmodified": 6,
                "data_blobs": 7, "tree_blobs": 8, "data_added": 9, "data_added_packed": 10,
                "total_files_processed": 6, "total_bytes_processed": 11,
            },
        })
    }

    #[test]
    fn snapshots_of_restic_are_parsed() {
        let snapshot = serde_json::from_value::<SnapshotFile>(by_restic()).unwrap();
        assert_eq!(snapshot.time.at.as_nanosecond(), 1_720_000_000_120_000_001);
        assert_eq!(snapshot.parent, Some(Id::hash(b"parent")));
        let summary = snapshot.summary.as_ref().unwrap();
        assert_eq!((summary.backup_start, summary.dirs()), (snapshot.time, 15));
        let few =
            json!({"time": "2015-01-02T03:04:05Z", "tree": Id::hash(b"").to_string(), "paths": []});
        let snapshot = serde_json::from_value::<SnapshotFile>(few).unwrap();
        assert!(snapshot.summary.is_none() && snapshot.parent.is_none());
    }

    #[test]
    fn snapshots_are_written_as_by_restic() {
        let snapshot = serde_json::from_value::<SnapshotFile>(by_restic()).unwrap();
        let mut expected = by_restic();
        // fathom does not record these fields.
        for field in ["excludes", "original"] {
            expected.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(serde_json::to_value(&snapshot).unwrap(), expected);
        let none = serde_json::to_value(SnapshotFile::default()).unwrap();
        for field in ["parent", "tags", "summary", "label", "id"] {
            assert!(none.get(field).is_none(), "{field}");
        }
    }

    #[test]
    fn parents_have_the_same_host_paths_and_label() {
        let snapshot = serde_json::from_value::<SnapshotFile>(by_restic()).unwrap();
        assert!(snapshot.has_sources_of(&snapshot));
        for (field, value) in [
            ("hostname", json!("there")),
            ("paths", json!(["/srv", "/var"])),
            ("label", json!("nightly")),
        ] {
            let mut other = by_restic();
            other[field] = value;
            let other = serde_json::from_value::<SnapshotFile>(other).unwrap();
            assert!(!other.has_sources_of(&snapshot), "{field}");
        }
    }
}
