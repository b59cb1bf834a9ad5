//! `--format ncdu`: the export format of ncdu, which `ncdu -f` and gdu read. It is nested like the
//! tree, while entries arrive in any order, so the whole tree is kept as text until the end.
//!
//! <https://dev.yorhel.nl/ncdu/jsonfmt>

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use gate::sync::Mutex;
use walk::entry::Time;
use walk::{Dir, DirKey, Entry, Fields, FileType, Meta, Sink, Worker};

use super::lines::escape_json;
use crate::error::Error;
use crate::out::Out;

#[derive(Default)]
struct NcduNode {
    /// The JSON object of the directory; empty until its entry arrives.
    object: Vec<u8>,
    /// The JSON objects of the entries that are not directories, each after a comma.
    files: Vec<u8>,
    directories: Vec<DirKey>,
}

/// A sink that collects the tree.
#[derive(Default)]
pub(super) struct Ncdu {
    nodes: Mutex<HashMap<DirKey, NcduNode>>,
}

impl Ncdu {
    /// Writes the tree from its root, with `now` as the time of the export.
    pub(super) fn write(self, now: Time, out: &Out) -> Result<(), Error> {
        const PIECE: usize = 128 << 10;
        let mut nodes = self.nodes.into_inner();
        let version = env!("CARGO_PKG_VERSION");
        let head = "[1,2,{\"progname\":\"fathom\",\"progver\":\"";
        let timestamp = now.sec.max(0);
        let mut text = format!("{head}{version}\",\"timestamp\":{timestamp}}}").into_bytes();
        // A stack of open directories: for each, the subdirectories that are still to be written.
        let mut open: Vec<Vec<DirKey>> = vec![vec![DirKey::top(0)]];
        while let Some(pending) = open.last_mut() {
            let Some(key) = pending.pop() else {
                open.pop();
                text.extend_from_slice(b"]");
                continue;
            };
            // A directory without an entry was removed during the walk.
            let Some(node) = nodes.remove(&key).filter(|node| !node.object.is_empty()) else {
                continue;
            };
            text.extend_from_slice(b",\n[");
            text.extend_from_slice(&node.object);
            text.extend_from_slice(&node.files);
            open.push(node.directories);
            if text.len() > PIECE {
                out.names(|to| to.write_all(&text))?;
                text.clear();
            }
        }
        text.push(b'\n');
        out.names(|to| to.write_all(&text))
    }
}

impl Sink for Ncdu {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(NcduCollector {
            to: self,
            nodes: HashMap::new(),
        })
    }

    fn fields(&self) -> Fields {
        Fields::NAME
            | Fields::MODE
            | Fields::NLINK
            | Fields::UID
            | Fields::GID
            | Fields::SIZE
            | Fields::BLOCKS
            | Fields::INODE
            | Fields::MTIME
    }

    fn wants_shape(&self) -> bool {
        true
    }
}

struct NcduCollector<'a> {
    to: &'a Ncdu,
    nodes: HashMap<DirKey, NcduNode>,
}

impl NcduCollector<'_> {
    fn add(&mut self, dir: &Dir<'_>, entry: &Entry<'_>, is_selected: bool) {
        let above = dir.key;
        let meta = entry.meta;
        if entry.name.is_empty() {
            let node = self.nodes.entry(above).or_default();
            put_object(&mut node.object, dir.path, &meta, is_selected);
        } else if meta.is_dir() {
            let key = above.below(entry.name);
            self.nodes.entry(above).or_default().directories.push(key);
            let node = self.nodes.entry(key).or_default();
            put_object(&mut node.object, entry.name, &meta, is_selected);
        } else if is_selected {
            let node = self.nodes.entry(above).or_default();
            node.files.extend_from_slice(b",\n");
            put_object(&mut node.files, entry.name, &meta, true);
        }
    }
}

impl Worker for NcduCollector<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        entries.iter().for_each(|entry| self.add(dir, entry, true));
    }

    fn pass_over(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        entries.iter().for_each(|entry| self.add(dir, entry, false));
    }
}

impl Drop for NcduCollector<'_> {
    fn drop(&mut self) {
        let mut all = self.to.nodes.lock();
        for (key, node) in std::mem::take(&mut self.nodes) {
            match all.entry(key) {
                Slot::Vacant(slot) => drop(slot.insert(node)),
                Slot::Occupied(mut slot) => {
                    let known = slot.get_mut();
                    if !node.object.is_empty() {
                        known.object = node.object;
                    }
                    known.files.extend(node.files);
                    known.directories.extend(node.directories);
                }
            }
        }
    }
}

/// Appends the JSON object of an entry. A directory that the predicates do not select gets size 0.
fn put_object(to: &mut Vec<u8>, name: &[u8], meta: &Meta, is_selected: bool) {
    to.extend_from_slice(b"{\"name\":\"");
    escape_json(to, name); // like ncdu, keeps bytes that are not UTF-8
    let dev = u64::from(meta.dev.major) << 20 | u64::from(meta.dev.minor);
    let (size, allocated) = match is_selected {
        true => (meta.size, meta.blocks.saturating_mul(512)),
        false => (0, 0),
    };
    let mut text = format!("\",\"asize\":{size},\"dsize\":{allocated},\"dev\":{dev}");
    if meta.nlink > 1 && !meta.is_dir() {
        text += &format!(
            ",\"ino\":{},\"hlnkc\":true,\"nlink\":{}",
            meta.ino, meta.nlink
        );
    }
    if !matches!(meta.kind(), FileType::Regular | FileType::Directory) {
        text += ",\"notreg\":true";
    }
    // ncdu does not accept user and group ids of 2^31 and more.
    for (field, id) in [("uid", meta.uid), ("gid", meta.gid)] {
        if i32::try_from(id).is_ok() {
            text += &format!(",\"{field}\":{id}");
        }
    }
    text += &format!(",\"mode\":{}", meta.mode);
    // ncdu does not accept negative times.
    if meta.mtime.sec >= 0 {
        text += &format!(",\"mtime\":{}", meta.mtime.sec);
    }
    to.extend_from_slice(text.as_bytes());
    to.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_sizes_and_exact_names() {
        let meta = Meta {
            mode: 0o120_777,
            size: 7,
            blocks: 1,
            nlink: 2,
            ino: 9,
            mtime: Time::new(-1, 0),
            ..Meta::default()
        };
        let mut object = Vec::new();
        put_object(&mut object, b"a\"\n\xff", &meta, true);
        let expected = b"{\"name\":\"a\\\"\\u000a\xff\",\"asize\":7,\"dsize\":512,\"dev\":0,\"ino\":9,\"hlnkc\":true,\
                         \"nlink\":2,\"notreg\":true,\"uid\":0,\"gid\":0,\"mode\":41471}";
        assert_eq!(object, expected);
    }
}
