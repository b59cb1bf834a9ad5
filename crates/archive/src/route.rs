//! Plans which parts of an archive to read for a few members, by the archive's index.
//!
//! The index lists a few members, and members are sorted by name, so it bounds where a name can be.
//! The index is only a hint: a member found at an indexed offset must have the indexed name, and
//! names must be in order. Otherwise the archive is read from its beginning
//! ([`ReadAction::Wrong`]).

use std::collections::VecDeque;

use base::path::components;
use ondisk::members::IndexReader;

/// The name of a member to read, alone or with everything below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Region {
    /// The name with NULs instead of slashes, so that it sorts directly before all names below it.
    key: Vec<u8>,
    with_below: bool,
}

impl Region {
    /// A region of a name and everything below it.
    pub(crate) fn tree(name: &[u8]) -> Region {
        Region {
            key: key(name),
            with_below: true,
        }
    }

    pub(crate) fn single(name: &[u8]) -> Region {
        Region {
            key: key(name),
            with_below: false,
        }
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        match key.strip_prefix(&self.key[..]) {
            Some([]) => true,
            Some([first, ..]) => self.with_below && (*first == 0 || self.key.is_empty()),
            None => false,
        }
    }

    /// Whether a name sorts after all names of the region.
    fn is_before(&self, key: &[u8]) -> bool {
        key > &self.key[..] && !self.has(key)
    }
}

/// Converts a name to its sort key: normalized (no `./`, no `//`), with NULs instead of slashes.
pub(crate) fn key(name: &[u8]) -> Vec<u8> {
    components(name).collect::<Vec<_>>().join(&0)
}

/// A part of the archive that may have members of a region.
#[derive(Debug)]
struct ReadRange {
    /// Offset and sort key of the first member in the range.
    from: u64,
    first: Vec<u8>,
    to: u64,
    region: usize,
}

/// A member listed in the index.
struct KnownMember {
    at: u64,
    key: Vec<u8>,
    begins_order: bool,
}

/// The parts of an archive to read, and the progress through them.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// Offset of the first member of the archive; `None` without members. Not 0 in a part of a run,
    /// which begins with a global header.
    pub(crate) begins_at: Option<u64>,
    regions: Vec<Region>,
    visits: VecDeque<ReadRange>,
    /// Offset and key of the last member read.
    last: Option<(u64, Vec<u8>)>,
    /// Whether the next member must be an indexed one, because the reader has just seeked.
    pub(crate) is_after_jump: bool,
    /// Ranges of offsets of consecutive members that were delivered.
    delivered: Vec<(u64, u64)>,
    is_delivering: bool,
    is_sequential: bool,
}

/// What the reader does with a member.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum ReadAction {
    Deliver,
    Pass,
    /// Skip the member, and seek to this offset, where a member begins.
    Jump(u64),
    /// Stop: no wanted member can follow.
    End,
    /// Restart from the beginning, because the index is wrong.
    Wrong,
}

impl Route {
    /// Plans the parts of an archive to read for some names and directories (`Region`); `None` if
    /// the index is damaged, or belongs to a different archive.
    pub(crate) fn plan(index: &[u8], mut regions: Vec<Region>, archive_len: u64) -> Option<Route> {
        regions.sort_unstable();
        regions.dedup();
        let mut reader = IndexReader::new(index)?;
        if reader.archive_len != archive_len {
            return None;
        }
        let mut visits = ReadRanges {
            all: Vec::new(),
            latest: vec![None; regions.len()],
            source: Vec::new(),
            regions: &regions,
        };
        let (mut begins_at, mut last) = (None, None::<KnownMember>);
        while let Some(member) = reader.next() {
            let known = KnownMember {
                at: member.at,
                key: key(member.name),
                begins_order: member.begins_order,
            };
            match last.take() {
                None => begins_at = Some(known.at),
                Some(last) if last.at < known.at => {
                    let next = (!known.begins_order).then_some(&known.key[..]);
                    if next.is_some_and(|next| next <= &last.key[..]) {
                        return None;
                    }
                    visits.add(&last, known.at, next);
                }
                _ => return None,
            }
            last = Some(known);
        }
        if !reader.is_over() {
            return None;
        }
        // An increment of unchanged single files has no members.
        if let Some(last) = last {
            if last.at >= archive_len {
                return None;
            }
            visits.add(&last, archive_len, None);
        }
        let mut visits = visits.all;
        visits.sort_by_key(|visit| (visit.from, visit.region));
        Some(Route {
            is_after_jump: !visits.is_empty(),
            begins_at,
            visits: visits.into(),
            regions,
            ..Route::default()
        })
    }

    /// Offset to start at; `None` if the archive cannot have a wanted member.
    pub(crate) fn first_place(&self) -> Option<u64> {
        self.visits.front().map(|visit| visit.from)
    }

    /// Switches to reading from the beginning after a wrong index, without delivering members a
    /// second time.
    pub(crate) fn give_up(&mut self) {
        self.is_sequential = true;
        self.is_after_jump = false;
        self.delivered.sort_unstable();
    }

    /// Continues at an indexed member after damage, or at the next part to read if that is later.
    /// Returns the offset and the name of the member to continue at; `None` if no part is left.
    pub(crate) fn resume_at(&mut self, at: u64, name: &[u8]) -> Option<(u64, Vec<u8>)> {
        self.is_after_jump = false;
        self.is_delivering = false;
        if self.is_sequential {
            return Some((at, name.to_vec()));
        }
        let key = key(name);
        self.visits.retain(|visit| visit.to > at);
        for visit in self.visits.iter_mut().filter(|visit| visit.from < at) {
            visit.from = at;
            visit.first.clone_from(&key);
        }
        let first = self.visits.front()?;
        let name = first.first.iter().map(|&byte| match byte {
            0 => b'/',
            byte => byte,
        });
        Some((first.from, name.collect()))
    }

    /// The treatment of the member at this offset.
    pub(crate) fn next_action(&mut self, at: u64, name: &[u8]) -> ReadAction {
        if self.is_sequential {
            let before = self.delivered.partition_point(|&(first, _)| first <= at);
            let is_known = before > 0 && self.delivered[before - 1].1 >= at;
            return if is_known {
                ReadAction::Pass
            } else {
                ReadAction::Deliver
            };
        }
        let key = key(name);
        let turn = self.action_at(at, &key);
        self.last = Some((at, key));
        self.is_after_jump = matches!(turn, ReadAction::Jump(_));
        let is_delivering = std::mem::replace(&mut self.is_delivering, turn == ReadAction::Deliver);
        match self.delivered.last_mut().filter(|_| is_delivering) {
            Some((_, last)) if self.is_delivering => *last = at,
            _ if self.is_delivering => self.delivered.push((at, at)),
            _ => {}
        }
        turn
    }

    fn action_at(&mut self, at: u64, key: &[u8]) -> ReadAction {
        while let Some(visit) = self.visits.front() {
            let region = &self.regions[visit.region];
            let is_passed = |last: u64| visit.from > last;
            let is_wrong = match &self.last {
                _ if at >= visit.to || at < visit.from => false,
                _ if at == visit.from => key != visit.first,
                // The index is wrong if no member begins at the part's offset, or if names are out
                // of order.
                Some((last, last_key)) => is_passed(*last) || key <= &last_key[..],
                None => true,
            };
            match () {
                () if is_wrong => return ReadAction::Wrong,
                () if at < visit.from => return ReadAction::Jump(visit.from),
                () if at < visit.to && region.has(key) => return ReadAction::Deliver,
                () if at < visit.to && !region.is_before(key) => return ReadAction::Pass,
                () => drop(self.visits.pop_front()),
            }
        }
        ReadAction::End
    }
}

/// Collects the parts to read while the index is parsed.
struct ReadRanges<'a> {
    regions: &'a [Region],
    all: Vec<ReadRange>,
    /// Index of the last part of each region.
    latest: Vec<Option<usize>>,
    /// Key of the current SRC, a prefix of all its names. Empty if the archive does not begin with
    /// a SRC member, as in a dump of a list, which has no common parent directory.
    source: Vec<u8>,
}

impl ReadRanges<'_> {
    /// Adds the members between an indexed one and the offset of the next. `next` is the key of the
    /// next, if names are in order up to there.
    fn add(&mut self, first: &KnownMember, to: u64, next: Option<&[u8]>) {
        let from = first.at;
        if first.begins_order {
            self.source.clone_from(&first.key);
        }
        let source = Region {
            key: self.source.clone(),
            with_below: true,
        };
        for (number, region) in self.regions.iter().enumerate() {
            if !source.has(&region.key) && !region.has(&source.key) {
                continue;
            }
            if region.is_before(&first.key) || next.is_some_and(|next| next <= &region.key[..]) {
                continue;
            }
            let latest = self.latest[number].and_then(|at| self.all.get_mut(at));
            // Merge adjacent parts, so that memory does not grow with the size of a directory.
            match latest.filter(|visit| visit.to == from && !first.begins_order) {
                Some(visit) => visit.to = to,
                None => {
                    self.latest[number] = Some(self.all.len());
                    self.all.push(ReadRange {
                        from,
                        first: first.key.clone(),
                        to,
                        region: number,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ondisk::members::{IndexWriter, Indexed};

    use super::*;

    const ARCHIVE: [(&str, bool); 12] = [
        ("s", true),
        ("s/a", false),
        ("s/a/x", false),
        ("s/a/y", false),
        ("s/a-b", false),
        ("s/b", false),
        ("s/b/z", false),
        ("s/c", false),
        ("a", true),
        ("a/b", false),
        ("a/b/c", false),
        ("a/d", false),
    ];

    fn index(every: usize) -> Vec<u8> {
        let mut writer = IndexWriter::default();
        for (number, (name, begins_order)) in ARCHIVE.into_iter().enumerate() {
            if begins_order || number % every == 0 {
                let name = name.as_bytes();
                let at = number as u64 * 512;
                writer.push(Indexed {
                    at,
                    begins_order,
                    name,
                });
            }
        }
        writer.finish(512 * ARCHIVE.len() as u64)
    }

    /// Simulates reading: the members delivered, and the number read.
    fn follow(route: Option<Route>) -> Option<(Vec<&'static str>, usize)> {
        let mut route = route?;
        let (mut found, mut read) = (Vec::new(), 0);
        let mut at = route.first_place();
        while let Some(place) = at {
            let Some((name, _)) = ARCHIVE.get(place as usize / 512) else {
                break;
            };
            read += 1;
            at = match route.next_action(place, name.as_bytes()) {
                ReadAction::Deliver => {
                    found.push(*name);
                    Some(place + 512)
                }
                ReadAction::Pass => Some(place + 512),
                ReadAction::Jump(to) => Some(to),
                ReadAction::End => None,
                ReadAction::Wrong => return None,
            };
        }
        Some((found, read))
    }

    #[test]
    fn every_region_is_found_whatever_is_indexed() {
        let len = 512 * ARCHIVE.len() as u64;
        let names = [
            "s", "s/a", "s/a/y", "s/a-b", "a", "a/b", "nothing", "s/bb", "", "./s//c/",
        ];
        for every in 1..8 {
            let index = index(every);
            for one in names {
                for other in names {
                    let regions = vec![
                        Region::tree(one.as_bytes()),
                        Region::single(other.as_bytes()),
                    ];
                    let expected: Vec<&str> = ARCHIVE
                        .into_iter()
                        .map(|(name, _)| name)
                        .filter(|name| {
                            regions
                                .iter()
                                .any(|region| region.has(&key(name.as_bytes())))
                        })
                        .collect();
                    let (found, read) = follow(Route::plan(&index, regions, len)).unwrap();
                    assert_eq!(found, expected, "{one} {other} {every}");
                    if every == 1 {
                        assert!(read <= expected.len() + 6, "{one} {other}: {read}");
                    }
                }
            }
        }
    }

    /// In the archive of a list of names, the common parent directory is no member.
    #[test]
    fn members_of_an_archive_without_its_source_are_found() {
        let mut writer = IndexWriter::default();
        let members = ARCHIVE.iter().enumerate().skip(1).take(7);
        for (number, (name, begins_order)) in members {
            let (at, name) = (number as u64 * 512, name.as_bytes());
            writer.push(Indexed {
                at,
                begins_order: *begins_order,
                name,
            });
        }
        let len = 512 * 8;
        let index = writer.finish(len);
        for (name, expected) in [
            ("s/a", &["s/a", "s/a/x", "s/a/y"][..]),
            ("s/c", &["s/c"]),
            ("s/bb", &[]),
        ] {
            let route = Route::plan(&index, vec![Region::tree(name.as_bytes())], len).unwrap();
            assert_eq!(route.begins_at, Some(512));
            assert_eq!(follow(Some(route)).unwrap().0, expected, "{name}");
        }
    }

    #[test]
    fn a_wrong_index_is_noticed() {
        let len = 512 * ARCHIVE.len() as u64;
        let regions = || vec![Region::tree(b"s/b"), Region::tree(b"a/b")];
        let index_of = |members: &[(u64, bool, &str)]| {
            let mut writer = IndexWriter::default();
            for &(at, begins_order, name) in members {
                let name = name.as_bytes();
                writer.push(Indexed {
                    at,
                    begins_order,
                    name,
                });
            }
            writer.finish(len)
        };
        let wrong: [&[(u64, bool, &str)]; 6] = [
            &[],
            &[(512, true, "s/a")],
            &[(0, true, "s"), (512, false, "s/b")],
            &[(0, true, "s"), (1024, false, "s/a")],
            &[(0, true, "s"), (600, false, "s/a/x")],
            &[(0, true, "s"), (512, false, "s/a"), (512, false, "s/b")],
        ];
        for members in wrong {
            let route = Route::plan(&index_of(members), regions(), len);
            let route = route.filter(|route| route.begins_at == Some(0));
            assert!(follow(route).is_none(), "{members:?}");
        }
        assert!(Route::plan(&index(1), regions(), len + 512).is_none());
        // The names restart in the middle of the archive, but the index does not say so.
        let unordered = index_of(&[(0, true, "s")]);
        let route = Route::plan(&unordered, vec![Region::tree(b"s/d")], len);
        assert!(follow(route).is_none());
    }

    #[test]
    fn reading_continues_within_the_parts_to_read() {
        let regions = vec![Region::tree(b"s/a"), Region::single(b"a/d")];
        let mut route = Route::plan(&index(1), regions, 512 * ARCHIVE.len() as u64).unwrap();
        assert_eq!(route.next_action(512, b"s/a"), ReadAction::Deliver);
        assert_eq!(
            route.resume_at(1536, b"s/a/y"),
            Some((1536, b"s/a/y".to_vec()))
        );
        assert_eq!(route.next_action(1536, b"s/a/y"), ReadAction::Deliver);
        assert_eq!(
            route.resume_at(2048, b"s/a-b"),
            Some((5632, b"a/d".to_vec()))
        );
        assert_eq!(route.next_action(5632, b"a/d"), ReadAction::Deliver);
        assert_eq!(route.resume_at(6144, b"z"), None);
    }

    #[test]
    fn what_was_delivered_is_not_delivered_again() {
        let index = index(3);
        let mut route = Route::plan(&index, vec![Region::tree(b"s/a")], 6144).unwrap();
        assert_eq!(route.next_action(0, b"s"), ReadAction::Pass);
        assert_eq!(route.next_action(512, b"s/a"), ReadAction::Deliver);
        assert_eq!(route.next_action(1024, b"s/a/x"), ReadAction::Deliver);
        assert_eq!(route.next_action(1536, b"s/a"), ReadAction::Wrong);
        route.give_up();
        for (at, turn) in [
            (0, ReadAction::Deliver),
            (512, ReadAction::Pass),
            (1024, ReadAction::Pass),
            (1536, ReadAction::Deliver),
        ] {
            assert_eq!(route.next_action(at, b"s"), turn, "{at}");
        }
    }
}
