//! The blobs of a repository, from its index files.

use std::collections::HashSet;

use gate::Errno;
use gate::sync::Mutex;
use serde::Deserialize;

use crate::error::{Action, Error};
use crate::id::{Id, IdMap, IdSet};
use crate::repository::RepositoryFiles;
use crate::repository_file::{BlobKind, RepositoryFile};
use crate::seal::Cipher;

/// The index of a repository's blobs.
#[derive(Default)]
pub(crate) struct Index {
    data: IdSet,
    trees: IdMap<BlobLocation>,
    packs: Vec<Id>,
    /// The total stored sizes of data and of trees.
    sizes: [u64; 2],
}

/// The location of a blob in a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlobLocation {
    pack: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The length before compression; 0 if the blob is not compressed.
    pub(crate) plain: u32,
}

/// An index file. Packs that rustic has marked for removal are in a separate field.
#[derive(Deserialize)]
struct IndexFile {
    #[serde(default)]
    packs: Vec<Pack>,
}

#[derive(Deserialize)]
struct Pack {
    id: Id,
    blobs: Vec<Blob>,
}

#[derive(Deserialize)]
struct Blob {
    id: Id,
    #[serde(rename = "type")]
    kind: BlobKind,
    offset: u32,
    length: u32,
    #[serde(default)]
    uncompressed_length: Option<u32>,
}

impl Index {
    /// Reads all index files.
    ///
    /// # Errors
    /// If an index file cannot be read, or is damaged.
    pub(crate) fn read(repository: &RepositoryFiles, cipher: &Cipher) -> Result<Index, Error> {
        let index = Mutex::new(Index::default());
        repository.read_all(RepositoryFile::Index, |id, sealed| {
            let json = cipher.open_file(&mut sealed?);
            let parsed = json.and_then(|json| serde_json::from_slice::<IndexFile>(&json).ok());
            let damaged = || {
                let path = RepositoryFile::Index.path(&id);
                repository.error_at(Action::UseIndex, &path, Errno::EBADMSG.into())
            };
            let packs = parsed.ok_or_else(damaged)?.packs;
            index.lock().add(packs);
            Ok(())
        })?;
        let index = index.into_inner();
        if let Some(cache) = repository.cache() {
            cache.retain(RepositoryFile::Pack(BlobKind::Tree), index.tree_packs());
        }
        Ok(index)
    }

    fn add(&mut self, packs: Vec<Pack>) {
        let blobs = packs.iter().map(|pack| pack.blobs.len());
        self.data.reserve(blobs.sum());
        for Pack { id, blobs } in packs {
            let pack = self.packs.len() as u32;
            self.packs.push(id);
            for blob in blobs {
                self.sizes[blob.kind as usize] += u64::from(blob.length);
                match blob.kind {
                    BlobKind::Data => drop(self.data.insert(blob.id)),
                    BlobKind::Tree => {
                        let place = BlobLocation {
                            pack,
                            offset: blob.offset,
                            length: blob.length,
                            plain: blob.uncompressed_length.unwrap_or(0),
                        };
                        self.trees.insert(blob.id, place);
                    }
                }
            }
        }
    }

    pub(crate) fn has(&self, kind: BlobKind, id: &Id) -> bool {
        match kind {
            BlobKind::Data => self.data.contains(id),
            BlobKind::Tree => self.trees.contains_key(id),
        }
    }

    /// The pack that contains a tree, and the location in it.
    pub(crate) fn tree(&self, id: &Id) -> Option<(Id, BlobLocation)> {
        let place = *self.trees.get(id)?;
        Some((*self.packs.get(place.pack as usize)?, place))
    }

    /// The packs that contain trees.
    fn tree_packs(&self) -> impl Iterator<Item = Id> {
        let packs: HashSet<u32> = self.trees.values().map(|place| place.pack).collect();
        let packs = packs.into_iter();
        packs.filter_map(|pack| self.packs.get(pack as usize).copied())
    }

    /// The total stored size of all blobs of a kind.
    pub(crate) fn size(&self, kind: BlobKind) -> u64 {
        self.sizes[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_files_are_read() {
        let id = |byte: u8| Id::hash(&[byte]);
        let json = format!(
            r#"{{"supersedes":["{}"],"packs":[
                {{"id":"{}","blobs":[
                    {{"id":"{}","type":"data","offset":0,"length":38}},
                    {{"id":"{}","type":"tree","offset":38,"length":112,"uncompressed_length":511}}]}}],
               "packs_to_delete":[{{"id":"{}","blobs":[{{"id":"{}","type":"data","offset":0,"length":7}}]}}]}}"#,
            id(0),
            id(1),
            id(2),
            id(3),
            id(4),
            id(5)
        );
        let mut index = Index::default();
        index.add(serde_json::from_str::<IndexFile>(&json).unwrap().packs);
        assert!(index.has(BlobKind::Data, &id(2)) && !index.has(BlobKind::Tree, &id(2)));
        assert!(index.has(BlobKind::Tree, &id(3)) && !index.has(BlobKind::Data, &id(3)));
        assert!(!index.has(BlobKind::Data, &id(5)));
        let (pack, place) = index.tree(&id(3)).unwrap();
        assert_eq!(pack, id(1));
        assert_eq!((place.offset, place.length, place.plain), (38, 112, 511));
        assert_eq!(
            (index.size(BlobKind::Data), index.size(BlobKind::Tree)),
            (38, 112)
        );
    }
}
