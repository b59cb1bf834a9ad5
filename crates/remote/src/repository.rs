//! The files of a restic repository in a bucket, one object each.

use bytes::Bytes;
use catalog::StoreError;
use catalog::remote::Files;
use object_store::path::Path;

use crate::bucket::{Bucket, parse_key};

/// The configuration of the repository, which is the first file read.
const CONFIG: &str = "config";

/// Maximum length of a configuration.
const LONGEST_CONFIG: u64 = 1 << 20;

/// The objects below a prefix of a bucket.
#[derive(Debug)]
pub(crate) struct ObjectFiles {
    bucket: Bucket,
    prefix: String,
}

impl ObjectFiles {
    pub(crate) fn new(bucket: Bucket, prefix: &str) -> ObjectFiles {
        ObjectFiles {
            bucket,
            prefix: prefix.to_owned(),
        }
    }

    fn key(&self, path: &str) -> String {
        match self.prefix.is_empty() {
            true => path.to_owned(),
            false => format!("{}/{path}", self.prefix),
        }
    }

    fn path(&self, path: &str) -> Result<Path, StoreError> {
        parse_key(&self.key(path))
    }
}

impl Files for ObjectFiles {
    fn read(&self, path: &str, range: Option<(u64, usize)>) -> Result<Bytes, StoreError> {
        if path == CONFIG {
            // Reading the configuration with `tail` takes few repetitions, and also checks that the
            // bucket exists and the credentials are valid.
            return Ok(self.bucket.tail(&self.key(path), LONGEST_CONFIG)?.1);
        }
        let range = range.map(|(offset, len)| offset..offset + len as u64);
        self.bucket.range(&self.path(path)?, None, range).wait()
    }

    fn write(&self, path: &str, content: Vec<Bytes>) -> Result<(), StoreError> {
        self.bucket.overwrite(self.path(path)?, content)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.bucket.remove_anyway(self.path(path)?)
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let listed = self.bucket.list(self.path(dir)?)?;
        let mut objects = listed.objects;
        // Packs are in 256 directories below `data`; no other directory has subdirectories.
        for prefix in listed.common_prefixes {
            objects.extend(self.bucket.list(prefix)?.objects);
        }
        let named = objects
            .iter()
            .filter_map(|it| Some((it.location.filename()?.to_owned(), it.size)));
        Ok(named.collect())
    }
}
