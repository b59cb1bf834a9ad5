//! Orders the archives of a restore by their ids and those of their bases.
//!
//! An increment must follow its base, with no other increment of the same base in between. Archives
//! without ids (of other programs, or older versions) stay in the given order, and so does a stream
//! until it is opened.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use catalog::missing_parts;
use gate::file::read_full_at;
use gate::fs::Open;
use gate::long::open_long;
use ondisk::Time;
use ondisk::pax::{ArchiveId, Base, Lineage};

use super::report::Note;
use crate::error::{Action, Error, ErrorKind, Result};
use crate::input::{ArchiveOrigin, Input, is_regular};

/// The archives of a restore.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    pub(super) archives: Vec<Vec<u8>>,
    /// Origin headers of each archive, where known.
    origins: Vec<ArchiveOrigin>,
    pub(super) notes: Vec<Note>,
    /// Whether an earlier run may have restored the base of the first archive.
    may_continue: bool,
}

/// One archive, or all parts of one dump.
#[derive(Clone, Debug)]
struct DumpArchive {
    archives: Vec<usize>,
    lineage: Option<Lineage>,
    /// ctime of the SRC, which orders dumps without other changes.
    changed: Option<Time>,
}

/// Whether two archives are readable and identical, byte by byte.
fn has_same_bytes(one: &[u8], other: &[u8]) -> bool {
    let open = |path: &[u8]| open_long(path, Open::NONBLOCK).ok();
    let Some((one, other)) = open(one).zip(open(other)) else {
        return false;
    };
    let [mut a, mut b] = [vec![0; 1 << 16], vec![0; 1 << 16]];
    let mut at = 0;
    loop {
        let (Ok(n), Ok(m)) = (
            read_full_at(&one, at, &mut a),
            read_full_at(&other, at, &mut b),
        ) else {
            return false;
        };
        if n != m || a[..n] != b[..n] {
            return false;
        }
        if n == 0 {
            return true;
        }
        at += n as u64;
    }
}

/// The parts of one dump by many ranks.
struct DumpParts {
    /// Index of the dump among all dumps.
    dump: usize,
    /// Part number and number of parts, for each part.
    numbers: BTreeSet<(u32, u32)>,
}

impl DumpArchive {
    /// Whether nothing has changed since the base, so that further increments may be based on
    /// either.
    fn is_idle(&self) -> bool {
        matches!(self.lineage, Some(Lineage { id, base: Base::Archive(base) }) if id == base)
    }
}

/// Why a dump cannot be restored at its place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Problem {
    /// No archive has the id of the dump's base.
    NoBase,
    /// The base of the dump comes later.
    Early { base: usize },
    /// Another dump with the same base comes earlier.
    SameBase { base: usize, other: usize },
}

impl Sequence {
    /// Takes archives in the given order. `may_continue`: an earlier run may have restored the base
    /// of the first archive.
    pub(super) fn new(archives: &[Vec<u8>], may_continue: bool) -> Sequence {
        Sequence {
            archives: archives.to_vec(),
            origins: vec![ArchiveOrigin::default(); archives.len()],
            notes: Vec::new(),
            may_continue,
        }
    }

    /// Adds the origin headers of a stream.
    ///
    /// # Errors
    /// The stream is not the next archive of the chain.
    pub(super) fn add_origin(&mut self, archive: usize, origin: ArchiveOrigin) -> Result<()> {
        self.origins[archive] = origin;
        let dumps = self.dumps()?;
        let order: Vec<usize> = (0..dumps.len()).collect();
        let checked = check(&dumps, &order, self.may_continue);
        checked.map_err(|(at, problem)| self.refusal(&dumps, &order, at, problem))
    }

    /// Sorts the archives in the order in which they were made, by the headers of those that can be
    /// read twice.
    ///
    /// # Errors
    /// There is no such order: an archive is missing, or the archives belong to several chains.
    pub(super) fn arrange(&mut self) -> Result<()> {
        for (archive, origin) in self.archives.iter().zip(&mut self.origins) {
            let input = is_regular(archive).then(|| Input::open(archive));
            // Errors are reported later, when the archive is restored.
            let known = input.and_then(|input| input.ok()?.origin().ok());
            *origin = known.unwrap_or_default();
        }
        self.drop_repeated();
        let dumps = self.dumps()?;
        self.check_full_dumps(&dumps)?;
        let given: Vec<usize> = (0..dumps.len()).collect();
        if check(&dumps, &given, self.may_continue).is_ok() {
            return Ok(());
        }
        let order = sort(&dumps).unwrap_or(given);
        check(&dumps, &order, self.may_continue)
            .map_err(|(at, problem)| self.refusal(&dumps, &order, at, problem))?;
        let order = order.into_iter().flat_map(|dump| &dumps[dump].archives);
        let order: Vec<usize> = order.copied().collect();
        self.archives = order.iter().map(|&at| self.archives[at].clone()).collect();
        self.origins = order.iter().map(|&at| self.origins[at].clone()).collect();
        self.notes.push(Note::Reordered(self.archives.clone()));
        Ok(())
    }

    /// Drops archives identical to an earlier one, because renames cannot be applied twice.
    fn drop_repeated(&mut self) {
        let mut first: HashMap<ArchiveId, usize> = HashMap::new();
        let mut is_kept = vec![true; self.archives.len()];
        for (at, origin) in self.origins.iter().enumerate() {
            let Some(Lineage { id, base }) = origin.lineage.filter(|_| origin.part.is_none())
            else {
                continue;
            };
            let earlier = *first.entry(id).or_insert(at);
            let same = self.origins[earlier].lineage.map(|lineage| lineage.base);
            // Equal ids are not enough: the archives may differ in files that could not be read.
            let is_same = || has_same_bytes(&self.archives[earlier], &self.archives[at]);
            if earlier != at && same == Some(base) && base != Base::Archive(id) && is_same() {
                is_kept[at] = false;
                let (name, same) = (&self.archives[at], &self.archives[earlier]);
                self.notes.push(Note::Repeated(name.clone(), same.clone()));
            }
        }
        let mut kept = is_kept.iter();
        self.archives.retain(|_| *kept.next().unwrap_or(&true));
        let mut kept = is_kept.iter();
        self.origins.retain(|_| *kept.next().unwrap_or(&true));
    }

    /// Groups the parts of each dump.
    fn dumps(&self) -> Result<Vec<DumpArchive>> {
        let mut dumps: Vec<DumpArchive> = Vec::new();
        let mut runs: BTreeMap<(&str, u32), DumpParts> = BTreeMap::new();
        for (at, origin) in self.origins.iter().enumerate() {
            let dump = DumpArchive {
                archives: vec![at],
                lineage: origin.lineage,
                changed: origin.changed,
            };
            let Some(part) = &origin.part else {
                dumps.push(dump);
                continue;
            };
            let known = runs.get_mut(&(&part.run[..], part.of));
            let Some(DumpParts { dump: nth, numbers }) = known else {
                let numbers = BTreeSet::from([(part.number, part.of)]);
                let nth = dumps.len();
                runs.insert((&part.run, part.of), DumpParts { dump: nth, numbers });
                dumps.push(dump);
                continue;
            };
            let run = &mut dumps[*nth];
            run.archives.push(at);
            if numbers.insert((part.number, part.of)) {
                run.lineage = run.lineage.zip(origin.lineage).map(|(sum, own)| Lineage {
                    id: sum.id.plus(own.id),
                    ..sum
                });
            }
        }
        let is_increment = |dump: &DumpArchive| is_increment(dump.lineage);
        if let Some((first, missing)) = runs
            .values()
            .find_map(|run| Some((dumps[run.dump].archives[0], missing_parts(&run.numbers)?)))
            && dumps.iter().any(is_increment)
        {
            return Err(self.error(first, catalog::ErrorKind::MissingParts(missing).into()));
        }
        Ok(dumps)
    }

    /// Refuses two full dumps of one tree among increments: the second would not remove files
    /// deleted before it was made.
    fn check_full_dumps(&self, dumps: &[DumpArchive]) -> Result<()> {
        if !dumps.iter().any(|dump| is_increment(dump.lineage)) {
            return Ok(());
        }
        let mut trees: HashMap<&[u8], usize> = HashMap::new();
        for dump in dumps {
            let at = dump.archives[0];
            if !matches!(
                dump.lineage,
                Some(Lineage {
                    base: Base::Nothing,
                    ..
                })
            ) {
                continue;
            }
            if let Some(first) = trees.insert(&self.origins[at].first, at) {
                let first = self.archives[first].clone();
                return Err(self.error(at, ErrorKind::SecondFullDump { first }));
            }
        }
        Ok(())
    }

    fn error(&self, archive: usize, kind: ErrorKind) -> Error {
        Error::new(Action::Restore, &self.archives[archive], kind)
    }

    /// The last dump of the same tree before a place in the order, or else the dump directly
    /// before.
    fn previous(&self, dumps: &[DumpArchive], order: &[usize], at: usize) -> Option<usize> {
        let first = |dump: usize| &self.origins[dumps[dump].archives[0]].first;
        let mut before = order[..at].iter().rev();
        let same = before
            .clone()
            .find(|&&other| first(other) == first(order[at]));
        same.or_else(|| before.next()).copied()
    }

    /// The error for a dump that cannot be restored at its place in the order.
    fn refusal(
        &self,
        dumps: &[DumpArchive],
        order: &[usize],
        at: usize,
        problem: Problem,
    ) -> Error {
        let name = |dump: usize| self.archives[dumps[dump].archives[0]].clone();
        let kind = match problem {
            Problem::NoBase => ErrorKind::BaseMissing {
                previous: self.previous(dumps, order, at).map(name),
            },
            Problem::Early { base } => ErrorKind::BeforeBase { base: name(base) },
            Problem::SameBase { base, other } => ErrorKind::SameBase {
                base: name(base),
                other: name(other),
            },
        };
        self.error(dumps[order[at]].archives[0], kind)
    }
}

fn is_increment(lineage: Option<Lineage>) -> bool {
    lineage.is_some_and(|lineage| lineage.base != Base::Nothing)
}

/// For each id, the index of its dump: that of the base, if a dump without changes has the same id.
fn providers(dumps: &[DumpArchive]) -> HashMap<ArchiveId, usize> {
    let mut providers = HashMap::new();
    for is_idle in [false, true] {
        for (nth, dump) in dumps.iter().enumerate() {
            if let Some(lineage) = dump.lineage.filter(|_| dump.is_idle() == is_idle) {
                providers.entry(lineage.id).or_insert(nth);
            }
        }
    }
    providers
}

/// Checks that each dump follows its base. The error includes the place in the order.
fn check(
    dumps: &[DumpArchive],
    order: &[usize],
    may_continue: bool,
) -> std::result::Result<(), (usize, Problem)> {
    let providers = providers(dumps);
    // The first dump that is, as far as known, a full dump.
    let beginning = dumps.iter().position(|dump| !is_increment(dump.lineage));
    let may_continue = may_continue && beginning.is_none();
    // Ids of dumps that the next increment can follow, each with whether all dumps since are known;
    // and the increment that followed each base.
    let mut heads: Vec<(ArchiveId, bool)> = Vec::new();
    let mut followers: HashMap<ArchiveId, usize> = HashMap::new();
    let mut idle: HashMap<ArchiveId, usize> = HashMap::new();
    let mut has_unknown = false;
    for (at, &nth) in order.iter().enumerate() {
        let Some(Lineage { id, base }) = dumps[nth].lineage else {
            has_unknown = true;
            heads.iter_mut().for_each(|(_, is_last)| *is_last = false);
            continue;
        };
        if let Base::Archive(base) = base {
            let head = heads.iter().position(|(head, _)| *head == base);
            let provider = providers.get(&base).copied().filter(|&it| it != nth);
            let is_first = !heads.iter().any(|(_, is_last)| *is_last);
            match (head, provider, followers.get(&base)) {
                (Some(head), ..) => {
                    heads.swap_remove(head);
                    if id != base {
                        followers.insert(base, nth);
                    } else if let Some(base) = idle.insert(id, nth)
                        && dumps[nth].changed < dumps[base].changed
                    {
                        return Err((at, Problem::Early { base }));
                    }
                }
                (None, Some(base), Some(&other)) => {
                    return Err((at, Problem::SameBase { base, other }));
                }
                (None, Some(base), None) => return Err((at, Problem::Early { base })),
                // The base may be a tree restored by an earlier run, or an archive without an id.
                (None, None, _) if is_first && (has_unknown || may_continue) => {}
                (None, None, _) => return Err((at, Problem::NoBase)),
            }
        }
        match (base, beginning) {
            // An increment with an unknown base must follow an archive without an id, or a tree
            // restored before.
            (Base::Unknown, Some(base)) if at == 0 => return Err((at, Problem::Early { base })),
            (Base::Unknown, None) if at == 0 && !may_continue => {
                return Err((at, Problem::NoBase));
            }
            _ => heads.push((id, true)),
        }
    }
    Ok(())
}

/// Sorts dumps so that each follows its base; `None` if the place of some is unknown.
fn sort(dumps: &[DumpArchive]) -> Option<Vec<usize>> {
    let known = dumps.iter().position(|dump| dump.lineage.is_some())?;
    if dumps[known..].iter().any(|dump| dump.lineage.is_none()) {
        return None;
    }
    let providers = providers(dumps);
    let base_of = |nth: usize| match dumps[nth].lineage?.base {
        Base::Archive(base) => providers.get(&base).copied().filter(|&it| it != nth),
        Base::Nothing | Base::Unknown => None,
    };
    let mut next: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut first: Vec<usize> = Vec::new();
    for nth in known..dumps.len() {
        match base_of(nth) {
            Some(base) => next.entry(base).or_default().push(nth),
            None => first.push(nth),
        }
    }
    // A dump whose base is missing is placed after all full dumps.
    first.sort_by_key(
        |&nth| match dumps[nth].lineage.map(|lineage| lineage.base) {
            None | Some(Base::Nothing) => 0,
            Some(Base::Unknown) => 1,
            Some(Base::Archive(_)) => 2,
        },
    );
    first.reverse();
    let mut order: Vec<usize> = (0..known).collect();
    while let Some(nth) = first.pop() {
        order.push(nth);
        let mut following = next.remove(&nth).unwrap_or_default();
        following.sort_by_key(|&nth| match dumps[nth].is_idle() {
            true => (0, dumps[nth].changed),
            false => (1, None),
        });
        first.extend(following.into_iter().rev());
    }
    // Fewer dumps are sorted only if bases form a cycle, which no dump produces.
    (order.len() == dumps.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Denotes an unknown base in these tests.
    const UNKNOWN: u128 = 99;

    /// Test dumps as pairs of id and base id; 0 for none.
    fn dumps(all: &[(u128, u128)]) -> Vec<DumpArchive> {
        let dump = |(nth, &(id, base)): (usize, &(u128, u128))| DumpArchive {
            archives: vec![nth],
            lineage: (id > 0).then_some(Lineage {
                id: ArchiveId(id),
                base: match base {
                    0 => Base::Nothing,
                    UNKNOWN => Base::Unknown,
                    base => Base::Archive(ArchiveId(base)),
                },
            }),
            changed: None,
        };
        all.iter().enumerate().map(dump).collect()
    }

    /// The ids in restore order, or the place and the problem.
    fn arranged(all: &[(u128, u128)]) -> std::result::Result<Vec<u128>, (usize, Problem)> {
        let dumps = dumps(all);
        let given: Vec<usize> = (0..dumps.len()).collect();
        let order = match check(&dumps, &given, true) {
            Ok(()) => given,
            Err(_) => sort(&dumps).unwrap_or(given),
        };
        check(&dumps, &order, true)?;
        Ok(order.into_iter().map(|nth| all[nth].0).collect())
    }

    #[test]
    fn every_order_of_a_chain_is_put_right() {
        let chain = [(1, 0), (2, 1), (3, 2), (4, 3)];
        for order in 0..256_usize {
            let places = [order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6];
            let places_once: BTreeSet<usize> = places.into_iter().collect();
            if places_once.len() == 4 {
                let given = places.map(|at| chain[at]);
                assert_eq!(arranged(&given), Ok(vec![1, 2, 3, 4]), "{given:?}");
            }
        }
        // Interleaved chains of two trees.
        let both = [(1, 0), (11, 0), (2, 1), (12, 11), (3, 2)];
        assert_eq!(arranged(&both), Ok(vec![1, 11, 2, 12, 3]));
        assert_eq!(
            arranged(&[(2, 1), (12, 11), (1, 0), (11, 0)]),
            Ok(vec![1, 2, 11, 12])
        );
        // Increments over a tree restored before.
        assert_eq!(arranged(&[(4, 3), (3, 2)]), Ok(vec![3, 4]));
    }

    #[test]
    fn missing_archives_are_noticed() {
        let missing = |at| Err((at, Problem::NoBase));
        assert_eq!(arranged(&[(1, 0), (3, 2)]), missing(1));
        assert_eq!(arranged(&[(4, 3), (1, 0), (2, 1)]), missing(2));
        assert_eq!(arranged(&[(5, 4), (4, 3), (2, 1), (1, 0)]), missing(2));
        assert_eq!(arranged(&[(2, 1), (5, 4)]), missing(1));
        assert_eq!(arranged(&[(1, 0), (0, 0), (2, 1), (4, 3)]), missing(3));
    }

    #[test]
    fn dumps_of_the_same_base_are_refused() {
        let refused = Err((2, Problem::SameBase { base: 0, other: 1 }));
        assert_eq!(arranged(&[(1, 0), (2, 1), (3, 1)]), refused);
        let refused = Err((3, Problem::SameBase { base: 1, other: 0 }));
        assert_eq!(arranged(&[(2, 1), (1, 0), (4, 2), (3, 1)]), refused);
    }

    #[test]
    fn dumps_in_which_nothing_has_changed_need_not_be_there() {
        let idle = [(1, 0), (1, 1), (2, 1), (2, 2), (3, 2)];
        assert_eq!(arranged(&idle), Ok(vec![1, 1, 2, 2, 3]));
        assert_eq!(arranged(&[(1, 0), (2, 1), (3, 2)]), Ok(vec![1, 2, 3]));
        assert_eq!(arranged(&[(2, 1), (1, 1), (1, 0)]), Ok(vec![1, 1, 2]));
        assert_eq!(arranged(&[(1, 1), (2, 1)]), Ok(vec![1, 2]));
        assert_eq!(
            arranged(&[(1, 0), (3, 2), (2, 2)]),
            Err((1, Problem::NoBase))
        );
    }

    #[test]
    fn archives_without_ids_keep_their_place() {
        assert_eq!(arranged(&[(0, 0), (0, 0)]), Ok(vec![0, 0]));
        assert_eq!(arranged(&[(0, 0), (3, 2), (2, 1)]), Ok(vec![0, 2, 3]));
        // The archive without an id may be the missing base.
        assert_eq!(arranged(&[(1, 0), (0, 0), (3, 2)]), Ok(vec![1, 0, 3]));
        assert_eq!(arranged(&[(1, 0), (0, 0), (2, 1)]), Ok(vec![1, 0, 2]));
        let early = Err((0, Problem::Early { base: 1 }));
        assert_eq!(arranged(&[(3, 2), (2, 1), (0, 0)]), early);
    }

    #[test]
    fn what_is_based_on_something_without_an_id_comes_after_it() {
        assert_eq!(arranged(&[(2, UNKNOWN), (3, 2), (1, 0)]), Ok(vec![1, 2, 3]));
        assert_eq!(arranged(&[(0, 0), (3, 2), (2, UNKNOWN)]), Ok(vec![0, 2, 3]));
        assert_eq!(arranged(&[(3, 2), (2, UNKNOWN)]), Ok(vec![2, 3]));
        let early = Err((0, Problem::Early { base: 1 }));
        assert_eq!(arranged(&[(2, UNKNOWN), (0, 0)]), early);
    }

    #[test]
    fn circles_are_refused() {
        assert!(arranged(&[(1, 2), (2, 1)]).is_err());
        assert!(arranged(&[(9, 0), (1, 2), (2, 1)]).is_err());
    }
}
