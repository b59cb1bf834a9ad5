//! The metadata of a changed entry: the fields that differ from the catalog, and old and new values
//! of the most important ones.

use walk::entry::Time;
use walk::{FileType, Meta};

base::named! {
    /// A field of the metadata of an entry, with the name that it has in the JSON of `fathom walk`.
    #[repr(u8)]
    MetadataField {
        /// The inode number: a different file has the path.
        Inode "ino",
        /// The type of the file.
        Type "type",
        /// The permission bits.
        Mode "mode",
        /// The id of the owner.
        Owner "uid",
        /// The id of the group.
        Group "gid",
        /// The number of hard links.
        Links "nlink",
        /// The size in bytes.
        Size "size",
        /// The time of the last modification of the contents.
        ModifyTime "mtime",
        /// The time of the last change of the inode, which also changes with extended attributes,
        /// ACLs and names.
        ChangeTime "ctime",
    }
}

/// Values of an entry before or after a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MetadataValues {
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
}

/// How the metadata of an entry has changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MetadataChange {
    pub old: MetadataValues,
    pub new: MetadataValues,
    /// A bit for each differing [`MetadataField`], `1 << field as u16`.
    pub bits: u16,
}

impl MetadataChange {
    /// The fields that differ. None differs if the entry may have changed in the clock tick in which
    /// the catalog was written.
    pub fn fields(&self) -> impl Iterator<Item = MetadataField> {
        let bits = self.bits;
        let all = MetadataField::ALL.into_iter();
        all.filter(move |field| bits & (1 << *field as u16) != 0)
    }
}

/// The metadata of an entry that is compared field by field.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparedMeta {
    values: MetadataValues,
    ino: u64,
    nlink: u32,
    mtime: Time,
    ctime: Time,
}

impl ComparedMeta {
    /// With `is_by_name`, for a comparison with a different directory, whose inodes have other
    /// numbers, links and ctimes.
    pub(super) fn new(meta: &Meta, is_by_name: bool) -> ComparedMeta {
        let (ino, nlink, ctime) = match is_by_name {
            true => Default::default(),
            false => (meta.ino, meta.nlink, meta.ctime),
        };
        ComparedMeta {
            values: MetadataValues {
                mode: meta.mode,
                uid: meta.uid,
                gid: meta.gid,
                size: meta.size,
            },
            ino,
            nlink,
            mtime: meta.mtime,
            ctime,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.values.size
    }

    /// The change from an old entry to this one.
    pub(super) fn since(&self, old: &ComparedMeta) -> MetadataChange {
        let (before, after) = (&old.values, &self.values);
        let permissions = |values: &MetadataValues| values.mode & 0o7777;
        let kind = |values: &MetadataValues| FileType::from_mode(values.mode);
        let mut bits = 0;
        for field in MetadataField::ALL {
            let differs = match field {
                MetadataField::Inode => old.ino != self.ino,
                MetadataField::Type => kind(before) != kind(after),
                MetadataField::Mode => permissions(before) != permissions(after),
                MetadataField::Owner => before.uid != after.uid,
                MetadataField::Group => before.gid != after.gid,
                MetadataField::Links => old.nlink != self.nlink,
                MetadataField::Size => before.size != after.size,
                MetadataField::ModifyTime => old.mtime != self.mtime,
                MetadataField::ChangeTime => old.ctime != self.ctime,
            };
            bits |= u16::from(differs) << field as u16;
        }
        MetadataChange {
            old: *before,
            new: *after,
            bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_fields_are_named() {
        let old = Meta {
            ino: 7,
            mode: 0o100_644,
            nlink: 1,
            size: 5,
            ..Meta::default()
        };
        let names = |new: Meta| -> Vec<&str> {
            let change = ComparedMeta::new(&new, false).since(&ComparedMeta::new(&old, false));
            change.fields().map(MetadataField::name).collect()
        };
        let later = Time::new(1, 0);
        assert!(names(old).is_empty());
        let setuid = Meta {
            mode: 0o104_755,
            ctime: later,
            ..old
        };
        assert_eq!(names(setuid), ["mode", "ctime"]);
        let other = Meta {
            ino: 8,
            mode: 0o120_777,
            uid: 1,
            gid: 2,
            nlink: 2,
            size: 6,
            mtime: later,
            ctime: later,
            ..old
        };
        let all: Vec<&str> = MetadataField::ALL.map(MetadataField::name).to_vec();
        assert_eq!(names(other), all);
        let change = ComparedMeta::new(&setuid, false).since(&ComparedMeta::new(&old, false));
        assert_eq!((change.old.mode, change.new.mode), (0o100_644, 0o104_755));
    }
}
