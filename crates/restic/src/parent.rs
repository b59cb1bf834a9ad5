//! Reads the trees of the last snapshot, to find unchanged files and directories.

use std::cell::RefCell;
use std::collections::HashMap;

use gate::fs::Time;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::value::RawValue;
use walk::Meta;
use zstd::bulk::Decompressor;

use crate::id::Id;
use crate::index::Index;
use crate::node::type_name;
use crate::repository::RepositoryFiles;
use crate::repository_file::{BlobKind, RepositoryFile};
use crate::seal::Cipher;
use crate::snapshot_file::SnapshotFile;
use crate::text::write_name;
use crate::times::{Times, file_time, is_same_time};

thread_local! {
    /// A decompressor, reused because creating a zstd context costs as much as reading a tree.
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

/// Reads trees of a repository.
pub(crate) struct TreeReader<'a> {
    pub(crate) repository: &'a RepositoryFiles,
    pub(crate) cipher: &'a Cipher,
    pub(crate) index: &'a Index,
}

/// A tree: its nodes by name, quoted as in the JSON.
#[derive(Default)]
pub(crate) struct OldTree(HashMap<String, OldNode>);

/// A node of a tree of the last snapshot.
pub(crate) struct OldNode {
    kind: String,
    size: u64,
    mtime: String,
    ctime: String,
    /// The blobs of a file.
    pub(crate) contents: Vec<Id>,
    /// The tree of a directory.
    pub(crate) tree: Option<Id>,
    /// The JSON of a directory's node, and of its extended attributes.
    json: Option<(Box<str>, Box<str>)>,
}

#[derive(Deserialize)]
struct TreeJson<'a> {
    #[serde(borrow)]
    nodes: Option<Vec<&'a RawValue>>,
}

/// The fields of a node that are compared.
#[derive(Deserialize)]
struct Fields<'a> {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    mtime: String,
    #[serde(default)]
    ctime: String,
    #[serde(default)]
    content: Option<Vec<Id>>,
    #[serde(default)]
    subtree: Option<Id>,
    #[serde(borrow, default)]
    extended_attributes: Option<&'a RawValue>,
}

/// The minimum ctime of files that may have changed since a snapshot began. The kernel's clock for
/// file times has steps of up to 10 ms.
pub(crate) fn changed_since(snapshot: &SnapshotFile) -> Time {
    const STEP: SignedDuration = SignedDuration::from_millis(20);
    let summary = snapshot.summary.as_ref();
    // The user can set the time of a snapshot, so prefer the time of its start.
    let begun = summary.map_or(snapshot.time, |summary| summary.backup_start);
    file_time(begun.at.checked_sub(STEP).unwrap_or(begun.at))
}

/// The longest tree that is read, in bytes: a directory with some millions of files. The length is that which the index claims.
const LARGEST_TREE: u32 = 1 << 30;

impl TreeReader<'_> {
    /// Reads a tree. `None` if the index does not have it, or it is unusable.
    pub(crate) fn read(&self, id: Id) -> Option<OldTree> {
        OldTree::parse(&self.json(id)?)
    }

    fn json(&self, id: Id) -> Option<Vec<u8>> {
        let (pack, place) = self.index.tree(&id)?;
        let range = (place.offset.into(), place.length as usize);
        let kind = RepositoryFile::Pack(BlobKind::Tree);
        let sealed = self.repository.read_range(kind, &pack, range);
        let mut sealed = self.repository.keep_failure(sealed)?;
        let bytes = self.cipher.open(&mut sealed)?;
        match place.plain {
            0 => Some(bytes.to_vec()),
            plain if plain > LARGEST_TREE => None,
            plain => DECOMPRESSOR.with_borrow_mut(|it| it.decompress(bytes, plain as usize).ok()),
        }
    }
}

impl OldTree {
    fn parse(json: &[u8]) -> Option<OldTree> {
        let nodes = serde_json::from_slice::<TreeJson<'_>>(json).ok()?.nodes;
        let nodes = nodes.unwrap_or_default().into_iter();
        nodes
            .map(OldNode::parse)
            .collect::<Option<_>>()
            .map(OldTree)
    }

    /// The node with a name.
    pub(crate) fn node(&self, name: &[u8]) -> Option<&OldNode> {
        let mut json = Vec::with_capacity(name.len() + 2);
        json.push(b'"');
        write_name(name, &mut json);
        json.push(b'"');
        match &json[1..json.len() - 1] == name {
            true => self.0.get(std::str::from_utf8(name).ok()?),
            false => self.0.get(&serde_json::from_slice::<String>(&json).ok()?),
        }
    }
}

impl OldNode {
    fn parse(json: &RawValue) -> Option<(String, OldNode)> {
        let fields: Fields<'_> = serde_json::from_str(json.get()).ok()?;
        let is_directory = fields.subtree.is_some();
        let attributes = fields.extended_attributes.map_or("", RawValue::get);
        let node = OldNode {
            kind: fields.kind,
            size: fields.size,
            mtime: fields.mtime,
            ctime: fields.ctime,
            contents: fields.content.unwrap_or_default(),
            tree: fields.subtree,
            json: is_directory.then(|| (json.get().into(), attributes.into())),
        };
        Some((fields.name, node))
    }

    /// Whether type, size, mtime and ctime of an entry match its node, so that its contents are the
    /// same.
    pub(crate) fn is_unchanged(&self, meta: &Meta, times: &mut Times) -> bool {
        let mut is_same = |text: &str, time| {
            let mut now = Vec::with_capacity(40);
            times.write(time, &mut now);
            is_same_time(text, &now)
        };
        let size = if self.kind == "file" { meta.size } else { 0 };
        self.kind == type_name(meta.kind())
            && self.size == size
            && is_same(&self.mtime, meta.mtime)
            && is_same(&self.ctime, meta.ctime)
    }

    /// The JSON of a directory's node, and of its extended attributes.
    pub(crate) fn directory(&self) -> Option<(&str, &str)> {
        self.json
            .as_ref()
            .map(|(json, attributes)| (&**json, &**attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_compared_with_entries() {
        let id = Id::hash(b"");
        let file = format!(
            r#"{{"name":"a\\x01&","type":"file","mode":420,"mtime":"1970-01-01T00:00:01Z","ctime":"1970-01-01T09:00:02+09:00","size":3,"content":["{id}"],"later":[{{}}]}}"#
        );
        let dir = format!(
            r#"{{"name":"d","type":"dir","extended_attributes":[{{"name":"user.a","value":null}}],"content":null,"subtree":"{id}"}}"#
        );
        let tree = OldTree::parse(format!("{{\"nodes\":[{file},{dir}]}}\n").as_bytes()).unwrap();
        let node = tree.node(b"a\x01&").unwrap();
        assert_eq!((&node.contents[..], node.tree), (&[id][..], None));
        let mut times = Times::utc();
        let time = |sec| Time::new(sec, 0);
        let meta = Meta {
            mode: 0o100_644,
            size: 3,
            mtime: time(1),
            ctime: time(2),
            ..Meta::default()
        };
        assert!(node.is_unchanged(&meta, &mut times));
        for other in [
            Meta { size: 4, ..meta },
            Meta {
                mtime: time(2),
                ..meta
            },
            Meta {
                ctime: time(1),
                ..meta
            },
            Meta {
                mode: 0o010_644,
                ..meta
            },
        ] {
            assert!(!node.is_unchanged(&other, &mut times));
        }
        let attributes = r#"[{"name":"user.a","value":null}]"#;
        let node = tree.node(b"d").unwrap();
        assert_eq!(node.directory(), Some((&dir[..], attributes)));
        assert_eq!(node.tree, Some(id));
        assert!(tree.node(b"b").is_none());
    }

    #[test]
    fn other_trees_are_not_used() {
        assert!(OldTree::parse(b"{\"nodes\":null}").is_some());
        for json in [
            "",
            "[]",
            r#"{"nodes":[{}]}"#,
            r#"{"nodes":[{"name":"a","type":"dir","subtree":"x"}]}"#,
        ] {
            assert!(OldTree::parse(json.as_bytes()).is_none(), "{json}");
        }
    }
}
