//! Totals of entries by owner, extension, directory, age and so on: a sink.
//!
//! A file with several names counts once, in the group with the smallest key, so that neither the
//! order of the entries nor the number of threads matters.

mod links;

use std::borrow::Cow;
use std::cmp::Ordering;

use foldhash::HashMap;
use gate::sync::Mutex;

use crate::entry::{Dir, Entry, FileType, Meta, Time, joined};
use crate::predicate::base_name;
use crate::predicate::glob::fold;
use crate::predicate::test::TimeField;
use crate::sink::{Fields, Sink, Worker};
use crate::trail::{KeptPath, PathTree};
pub use links::LinkedFile;
use links::{LinkPass, Links};

/// The property by which entries are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupBy {
    /// User id.
    Owner,
    /// Group id.
    Group,
    /// Extension: the text after the last dot of the name, if something precedes the dot. Case is
    /// ignored.
    Ext,
    /// File type.
    Type,
    /// Directory, at most this many levels below DIR.
    Dir(u32),
    /// Age: the [bucket](AGES) of the time between this file time and the given one.
    Age(TimeField, Time),
    /// Size in bytes, rounded down to a power of four.
    Size,
    /// Number of hard links.
    Links,
}

/// The buckets of [`GroupBy::Age`]: name, and maximum age in seconds. The index of a bucket is its
/// key.
pub const AGES: [(&str, u64); 6] = [
    ("day", 86_400),
    ("week", 7 * 86_400),
    ("month", 30 * 86_400),
    ("quarter", 91 * 86_400),
    ("year", 365 * 86_400),
    ("older", u64::MAX),
];

/// Identifies a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A user id, group id, number of links, index in [`AGES`], size in bytes, or number of a file
    /// type ([`type_of_key`]).
    Number(u64),
    /// An extension, or a path.
    Name(Box<[u8]>),
}

/// The [`Key`] of a group; a name refers to a [`PathTree`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum KeptKey {
    Number(u64),
    Name(KeptPath),
}

impl KeptKey {
    fn compare(self, other: KeptKey, names: &PathTree) -> Ordering {
        match (self, other) {
            (KeptKey::Number(a), KeptKey::Number(b)) => a.cmp(&b),
            (KeptKey::Name(a), KeptKey::Name(b)) => names.compare(a, b),
            (KeptKey::Number(_), KeptKey::Name(_)) => Ordering::Less,
            (KeptKey::Name(_), KeptKey::Number(_)) => Ordering::Greater,
        }
    }

    fn moved(self, moved: impl Fn(KeptPath) -> KeptPath) -> KeptKey {
        match self {
            KeptKey::Name(name) => KeptKey::Name(moved(name)),
            number => number,
        }
    }
}

/// The totals of a group. The sums have 128 bits, so that differences of sums beyond 2^64-1 are
/// right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupSums {
    /// Number of entries.
    pub entries: u64,
    /// Apparent size in bytes.
    pub bytes: u128,
    /// Allocated space in bytes.
    pub allocated: u128,
}

impl GroupSums {
    /// The totals of a group with one entry.
    #[inline]
    pub fn from_entry(bytes: u64, blocks: u64) -> GroupSums {
        GroupSums {
            entries: 1,
            bytes: bytes.into(),
            allocated: u128::from(blocks) * 512,
        }
    }

    fn from_meta(meta: &Meta) -> GroupSums {
        GroupSums::from_entry(meta.size, meta.blocks)
    }

    /// Adds the totals of other entries.
    #[inline]
    pub fn add(&mut self, other: GroupSums) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.allocated += other.allocated;
    }
}

/// How much the totals of a group grew; negative if they shrank. Differences saturate at 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Growth {
    /// Number of entries.
    pub entries: i64,
    /// Apparent size in bytes.
    pub bytes: i64,
    /// Allocated space in bytes.
    pub allocated: i64,
}

impl Growth {
    fn new(old: GroupSums, new: GroupSums) -> Growth {
        let grown = |old: u128, new: u128| {
            let more = new as i128 - old as i128;
            more.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        };
        Growth {
            entries: grown(old.entries.into(), new.entries.into()),
            bytes: grown(old.bytes, new.bytes),
            allocated: grown(old.allocated, new.allocated),
        }
    }
}

/// The sort order of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum GroupOrder {
    Key,
    /// Largest number of entries first; `Bytes` and `Allocated` likewise.
    Entries,
    Bytes,
    Allocated,
}

/// The sink that computes the totals of groups.
pub struct Groups {
    by: GroupBy,
    sums: Mutex<GroupCollector>,
    links: Links<KeptKey, GroupSums>,
    link_names: Mutex<PathTree>,
    pass: Mutex<LinkPass>,
}

#[derive(Default)]
struct GroupCollector {
    sums: HashMap<KeptKey, GroupSums>,
    names: PathTree,
}

impl GroupCollector {
    fn add(&mut self, key: KeptKey, sums: GroupSums) {
        self.sums.entry(key).or_default().add(sums);
    }

    fn merge(&mut self, names: PathTree, groups: impl Iterator<Item = (KeptKey, GroupSums)>) {
        let moved = self.names.append(names);
        groups.for_each(|(key, sums)| self.add(key.moved(&moved), sums));
    }

    fn total(&self) -> GroupSums {
        let mut total = GroupSums::default();
        self.sums.values().for_each(|sums| total.add(*sums));
        total
    }
}

/// Groups, sorted. Names are kept as a tree of path components, to save memory.
#[derive(Debug)]
pub struct SortedGroups<S> {
    groups: Vec<(KeptKey, S)>,
    total: S,
    names: PathTree,
}

impl<S: Copy> SortedGroups<S> {
    fn new<N: Ord>(
        groups: impl Iterator<Item = (KeptKey, S)>,
        total: S,
        names: PathTree,
        (order, top): (GroupOrder, Option<usize>),
        totals: impl Fn(&S) -> [N; 3],
    ) -> SortedGroups<S> {
        let mut groups: Vec<_> = groups.collect();
        groups.sort_unstable_by(|(a, x), (b, y)| {
            let ([x_entries, x_bytes, x_allocated], [entries, bytes, allocated]) =
                (totals(x), totals(y));
            let by_sums = match order {
                GroupOrder::Key => Ordering::Equal,
                GroupOrder::Entries => entries.cmp(&x_entries),
                GroupOrder::Bytes => bytes.cmp(&x_bytes),
                GroupOrder::Allocated => (allocated, bytes).cmp(&(x_allocated, x_bytes)),
            };
            by_sums.then_with(|| a.compare(*b, &names))
        });
        groups.truncate(top.unwrap_or(usize::MAX));
        SortedGroups {
            groups,
            total,
            names,
        }
    }

    /// Whether there are no groups in the result.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The totals of all groups, including those that `top` omitted. Each file counts once.
    pub fn total(&self) -> S {
        self.total
    }

    /// The totals of each group, in order.
    pub fn sums(&self) -> impl Iterator<Item = S> {
        self.groups.iter().map(|(_, sums)| *sums)
    }

    /// Key and totals of each group, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, S)> {
        self.groups.iter().map(|(key, sums)| match *key {
            KeptKey::Number(number) => (Key::Number(number), *sums),
            KeptKey::Name(name) => (Key::Name(self.names.path(name).into()), *sums),
        })
    }
}

impl Groups {
    /// A sink without entries, for this property.
    pub fn new(by: GroupBy) -> Groups {
        Groups {
            by,
            sums: Mutex::default(),
            links: Links::new(),
            link_names: Mutex::default(),
            pass: Mutex::new(LinkPass::First),
        }
    }

    /// Adds entries in several passes: `read` must pass all entries to adders each time that it is
    /// called. If more than `most` files have several names, `read` is called again for one share
    /// of these files after the other, so that memory is bounded.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn add_in_passes<E>(
        &self,
        most: usize,
        mut read: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        self.links.set_most(most);
        read()?;
        let shares = self.end_pass();
        for nth in 0..shares {
            *self.pass.lock() = LinkPass::Share { nth, of: shares };
            read()?;
            self.end_pass();
        }
        *self.pass.lock() = LinkPass::First;
        Ok(())
    }

    /// Adds the files with several names that this pass has counted to their groups. Returns how
    /// many passes must follow.
    fn end_pass(&self) -> u64 {
        let names = std::mem::take(&mut *self.link_names.lock());
        match self.links.take(*self.pass.lock()) {
            Ok(files) => {
                self.sums.lock().merge(names, files);
                0
            }
            Err(shares) => shares,
        }
    }

    /// The property by which entries are grouped.
    pub fn by(&self) -> GroupBy {
        self.by
    }

    /// An adder for one thread that has only the keys of entries, without the rest of their
    /// metadata.
    pub fn adder(&self) -> Adder<'_> {
        Adder {
            to: self,
            pass: *self.pass.lock(),
            sums: GroupCollector::default(),
        }
    }

    /// Sorts the groups, ties by key; with `top`, keeps only that many.
    pub fn into_sorted(self, order: GroupOrder, top: Option<usize>) -> SortedGroups<GroupSums> {
        let collected = self.into_collected();
        let total = collected.total();
        let GroupCollector { sums, names } = collected;
        SortedGroups::new(sums.into_iter(), total, names, (order, top), |sums| {
            [sums.entries.into(), sums.bytes, sums.allocated]
        })
    }

    /// The groups whose totals differ from `before`, sorted by growth, largest first.
    pub fn into_growth(
        self,
        before: Groups,
        order: GroupOrder,
        top: Option<usize>,
    ) -> SortedGroups<Growth> {
        let [old, new] = [before, self].map(Groups::into_collected);
        let total = Growth::new(old.total(), new.total());
        let mut names = new.names;
        let moved = names.append(old.names);
        let mut pairs: HashMap<KeptKey, [GroupSums; 2]> = HashMap::default();
        for (key, sums) in old.sums {
            pairs.entry(key.moved(&moved)).or_default()[0] = sums;
        }
        for (key, sums) in new.sums {
            pairs.entry(key).or_default()[1] = sums;
        }
        let changed = pairs.into_iter().filter(|(_, [old, new])| old != new);
        let growth = changed.map(|(key, [old, new])| (key, Growth::new(old, new)));
        SortedGroups::new(growth, total, names, (order, top), |growth| {
            [growth.entries, growth.bytes, growth.allocated]
        })
    }

    fn into_collected(self) -> GroupCollector {
        self.end_pass();
        self.sums.into_inner()
    }
}

impl Sink for Groups {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self.adder())
    }

    fn wants_paths(&self) -> bool {
        matches!(self.by, GroupBy::Dir(_))
    }

    fn fields(&self) -> Fields {
        let key = match self.by {
            GroupBy::Owner => Fields::UID,
            GroupBy::Group => Fields::GID,
            GroupBy::Age(TimeField::Mtime, _) => Fields::MTIME,
            GroupBy::Age(TimeField::Ctime, _) => Fields::CTIME,
            GroupBy::Age(TimeField::Atime, _) => Fields::ATIME,
            GroupBy::Age(TimeField::Btime, _) => Fields::BTIME,
            GroupBy::Ext | GroupBy::Type | GroupBy::Dir(_) | GroupBy::Size | GroupBy::Links => {
                Fields::empty()
            }
        };
        let names = match self.by {
            GroupBy::Ext | GroupBy::Dir(_) => Fields::NAME,
            _ => Fields::empty(),
        };
        key | names
            | Fields::MODE
            | Fields::NLINK
            | Fields::SIZE
            | Fields::BLOCKS
            | Fields::LINKED_INODE
    }
}

/// Adds entries to groups, for one thread. The groups get the sums when the adder is dropped.
pub struct Adder<'a> {
    to: &'a Groups,
    pass: LinkPass,
    sums: GroupCollector,
}

impl Worker for Adder<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let by = self.to.by;
        if let GroupBy::Dir(depth) = by {
            return self.take_by_directory(depth, dir, entries);
        }
        if by == GroupBy::Ext {
            for entry in entries {
                let name = match entry.name {
                    b"" => base_name(dir.path),
                    name => name,
                };
                self.add_entry(&extension(name), &entry.meta);
            }
            return;
        }
        let rows = entries.iter().map(|Entry { meta, .. }| {
            let file = is_linked(meta).then_some((meta.dev, meta.ino));
            (number(by, meta), file, GroupSums::from_meta(meta))
        });
        self.add_numbers(rows);
    }
}

impl Adder<'_> {
    /// Adds entries by numeric keys; an entry with several names needs its [`LinkedFile`].
    #[inline]
    pub fn add_numbers(
        &mut self,
        rows: impl Iterator<Item = (u64, Option<LinkedFile>, GroupSums)>,
    ) {
        // Successive entries mostly have the same key.
        let (mut last, mut pending) = (0, GroupSums::default());
        for (number, file, sums) in rows {
            if let Some(file) = file {
                self.add_kept_link(KeptKey::Number(number), file, sums);
                continue;
            }
            if number != last {
                self.flush(last, &mut pending);
                last = number;
            }
            pending.add(sums);
        }
        self.flush(last, &mut pending);
    }

    fn flush(&mut self, number: u64, pending: &mut GroupSums) {
        if pending.entries > 0 && self.pass == LinkPass::First {
            let sums = std::mem::take(pending);
            self.sums.add(KeptKey::Number(number), sums);
        }
    }

    fn add_entry(&mut self, name: &[u8], meta: &Meta) {
        let sums = GroupSums::from_meta(meta);
        match is_linked(meta) {
            true => self.add_link(name, (meta.dev, meta.ino), sums),
            false => self.add_name(name, sums),
        }
    }

    /// Adds entries to the group with this name as key.
    pub fn add_name(&mut self, name: &[u8], sums: GroupSums) {
        if sums.entries > 0 && self.pass == LinkPass::First {
            let key = KeptKey::Name(self.sums.names.add(name));
            self.sums.add(key, sums);
        }
    }

    /// Adds one name of a file that has several names to the group with the key `name`.
    pub fn add_link(&mut self, name: &[u8], file: LinkedFile, sums: GroupSums) {
        let key = KeptKey::Name(self.to.link_names.lock().add(name));
        self.add_kept_link(key, file, sums);
    }

    fn add_kept_link(&mut self, key: KeptKey, file: LinkedFile, sums: GroupSums) {
        let is_less = |key: &KeptKey, other: &KeptKey| {
            key.compare(*other, &self.to.link_names.lock()) == Ordering::Less
        };
        self.to.links.add(self.pass, file, (key, sums), is_less);
    }

    /// Adds a directory to its own group and other entries to the group of their directory, at most
    /// `most` levels below DIR.
    fn take_by_directory(&mut self, most: u32, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let above = ancestor(dir.path, dir.key.depth.saturating_sub(most));
        let mut files = GroupSums::default();
        for entry in entries {
            let meta = &entry.meta;
            if meta.is_dir() && dir.key.depth < most && !entry.name.is_empty() {
                self.add_entry(&joined(dir.path, entry.name), meta);
            } else if is_linked(meta) {
                let file = (meta.dev, meta.ino);
                self.add_link(above, file, GroupSums::from_meta(meta));
            } else {
                files.add(GroupSums::from_meta(meta));
            }
        }
        self.add_name(above, files);
    }
}

impl Drop for Adder<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.sums);
        let mut all = self.to.sums.lock();
        all.merge(own.names, own.sums.into_iter());
    }
}

fn is_linked(meta: &Meta) -> bool {
    meta.nlink > 1 && !meta.is_dir()
}

fn number(by: GroupBy, meta: &Meta) -> u64 {
    match by {
        GroupBy::Owner => meta.uid.into(),
        GroupBy::Group => meta.gid.into(),
        GroupBy::Type => meta.kind() as u64,
        GroupBy::Size => size_bucket(meta.size),
        GroupBy::Links => meta.nlink.into(),
        GroupBy::Age(field, now) => bucket(field.get(meta), now),
        GroupBy::Ext | GroupBy::Dir(_) => 0,
    }
}

/// Rounds a size down to a power of four.
#[inline]
pub fn size_bucket(size: u64) -> u64 {
    size.checked_ilog2().map_or(0, |log| 1 << (log & !1))
}

/// The index in [`AGES`] of a file time; a file without that time is in the last bucket.
#[inline]
pub fn bucket(time: Option<Time>, now: Time) -> u64 {
    let age = time.map_or(u64::MAX, |time| {
        now.sec.saturating_sub(time.sec).try_into().unwrap_or(0)
    });
    AGES.iter().position(|(_, most)| age <= *most).unwrap_or(0) as u64
}

/// The extension in lower case: the text after the last dot of a name, if something precedes the
/// dot; else empty.
pub fn extension(name: &[u8]) -> Cow<'_, [u8]> {
    let extension = match name.iter().rposition(|&b| b == b'.') {
        Some(at) if at > 0 => &name[at + 1..],
        _ => b"",
    };
    let is_lower = |b: &u8| b.is_ascii() && !b.is_ascii_uppercase();
    if extension.iter().all(is_lower) {
        return Cow::Borrowed(extension);
    }
    // The rule is that of a pattern that ignores case, so that a group has the files that the
    // predicate for its extension selects.
    Cow::Owned(match std::str::from_utf8(extension) {
        Ok(text) => {
            let lower = text.chars().filter_map(|c| char::from_u32(fold(c.into())));
            lower.collect::<String>().into_bytes()
        }
        Err(_) => extension.to_ascii_lowercase(),
    })
}

/// The directory some levels above a path.
pub fn ancestor(path: &[u8], levels: u32) -> &[u8] {
    let mut path = path;
    for _ in 0..levels {
        let slash = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
        // The parent of a name directly below the root is `/`.
        path = &path[..slash.max(usize::from(path.starts_with(b"/")))];
    }
    path
}

/// The file type for its number as a [key](Key::Number).
pub fn type_of_key(number: u64) -> FileType {
    let mut all = FileType::ALL.into_iter();
    all.find(|kind| *kind as u64 == number)
        .unwrap_or(FileType::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DirKey;
    use crate::predicate::glob::Glob;

    #[test]
    fn keys_of_names_and_directories() {
        for (name, ext) in [
            ("a.txt", "txt"),
            (".bashrc", ""),
            ("a.", ""),
            ("a.tar.gz", "gz"),
            ("a.H5", "h5"),
            ("a.JpeG", "jpeg"),
            ("a.\u{c4}A", "\u{e4}a"),
            ("a", ""),
        ] {
            assert_eq!(extension(name.as_bytes()), ext.as_bytes(), "{name}");
            let glob = Glob::from_extension(ext.as_bytes());
            assert!(ext.is_empty() || glob.is_match(name.as_bytes()), "{name}");
        }
        assert_eq!(extension(b"a.\xffX"), &b"\xffx"[..]);
        assert_eq!(ancestor(b"a/b/c", 1), b"a/b");
        assert_eq!(ancestor(b"/b/c", 2), b"/");
        assert_eq!(ancestor(b"a/", 0), b"a/");
    }

    #[test]
    fn sizes_and_ages_have_buckets() {
        let size = |size| {
            let meta = Meta {
                size,
                ..Meta::default()
            };
            number(GroupBy::Size, &meta)
        };
        assert_eq!(
            [0, 1, 3, 4, 15, 16, u64::MAX].map(size),
            [0, 1, 1, 4, 4, 16, 1 << 62]
        );
        let now = Time::new(1 << 40, 0);
        let age = |age: i64| {
            let sec = now.sec - age;
            bucket(Some(Time::new(sec, 0)), now)
        };
        assert_eq!([-5, 86_400, 86_401, 31_536_001].map(age), [0, 0, 1, 5]);
        assert_eq!(bucket(None, now), 5);
    }

    #[test]
    fn growth_is_the_difference_of_totals() {
        let groups = |sizes: &[(&'static str, u64)]| {
            let groups = Groups::new(GroupBy::Ext);
            let dir = Dir {
                path: b"x",
                key: DirKey::default(),
            };
            for (name, size) in sizes {
                let meta = Meta {
                    size: *size,
                    ..Meta::default()
                };
                let name = name.as_bytes();
                groups.worker().take(&dir, &[Entry { name, meta }]);
            }
            groups
        };
        let old = groups(&[("a.x", 5), ("b.y", 9), ("c.same", 1)]);
        let new = groups(&[("a.x", 2), ("d.x", 1), ("e.z", 4), ("c.same", 1)]);
        let growth = new.into_growth(old, GroupOrder::Bytes, None);
        let flat = growth.iter().map(|(key, it)| (key, it.entries, it.bytes));
        let key = |name: &str| Key::Name(name.as_bytes().into());
        let expected = [(key("z"), 1, 4), (key("x"), 1, -2), (key("y"), -1, -9)];
        assert_eq!(flat.collect::<Vec<_>>(), expected);
        assert_eq!((growth.total().entries, growth.total().bytes), (1, -7));
    }

    #[test]
    fn growth_is_exact_where_the_totals_have_more_than_64_bits() {
        let most = i64::MAX as u64;
        let groups = |files: u64, size| {
            let groups = Groups::new(GroupBy::Type);
            let sums = (0..files).map(|_| (0, None, GroupSums::from_entry(size, size)));
            groups.adder().add_numbers(sums);
            groups
        };
        let growth = |old, new: Groups| {
            let growth = new.into_growth(old, GroupOrder::Bytes, None);
            growth.sums().map(|sums| sums.bytes).collect::<Vec<_>>()
        };
        assert_eq!(growth(groups(3, most), groups(2, most)), [-i64::MAX]);
        assert_eq!(growth(groups(2, most), groups(3, most)), [i64::MAX]);
        assert_eq!(growth(groups(4, most), groups(4, most - 1)), [-4]);
        assert_eq!(growth(groups(3, most), groups(0, most)), [i64::MIN]);
    }

    #[test]
    fn a_file_with_several_names_counts_in_the_least_group() {
        let entry = |name, nlink| Entry {
            name,
            meta: Meta {
                ino: 7,
                nlink,
                size: 5,
                mode: 0o100_644,
                ..Meta::default()
            },
        };
        let groups = Groups::new(GroupBy::Ext);
        let dir = Dir {
            path: b"x",
            key: DirKey::default(),
        };
        groups
            .worker()
            .take(&dir, &[entry(b"a.z", 2), entry(b"b.c", 1)]);
        groups.worker().take(&dir, &[entry(b"a.b", 2)]);
        let sums = GroupSums {
            entries: 1,
            bytes: 5,
            allocated: 0,
        };
        let key = |name: &[u8]| (Key::Name(name.into()), sums);
        assert_eq!(
            groups
                .into_sorted(GroupOrder::Bytes, None)
                .iter()
                .collect::<Vec<_>>(),
            [key(b"b"), key(b"c")]
        );
    }

    #[test]
    fn many_files_with_several_names_are_counted_in_shares() {
        const FILES: u64 = 1000;
        let dir = Dir {
            path: b"x",
            key: DirKey::default(),
        };
        let entry = |name, ino, nlink| Entry {
            name,
            meta: Meta {
                ino,
                nlink,
                size: ino,
                mode: 0o100_644,
                ..Meta::default()
            },
        };
        let count = |most| {
            let groups = Groups::new(GroupBy::Ext);
            let mut passes = 0;
            let read = || {
                passes += 1;
                let mut adder = groups.adder();
                for ino in 0..FILES {
                    let names: [&[u8]; 3] = [b"a.z", b"b.y", b"c.x"];
                    let linked = names.iter().take(1 + ino as usize % 3);
                    adder.take(&dir, &[entry(b"d.y", FILES + ino, 1)]);
                    linked.for_each(|name| adder.take(&dir, &[entry(name, ino, 3)]));
                }
                Ok::<_, ()>(())
            };
            groups.add_in_passes(most, read).unwrap();
            let sorted = groups.into_sorted(GroupOrder::Key, None);
            (passes, sorted.iter().collect::<Vec<_>>())
        };
        let (passes, expected) = count(usize::MAX);
        assert_eq!(passes, 1);
        let entries = expected.iter().map(|(_, sums)| sums.entries);
        assert_eq!(entries.collect::<Vec<_>>(), [333, 1333, 334]);
        for most in [1, 7, 100, 999] {
            let (passes, sums) = count(most);
            assert!(passes > 1, "{most}");
            assert_eq!(sums, expected, "{most}");
        }
        assert_eq!(count(1000), (1, expected));
    }
}
