//! Names the members that were lost in damaged frames of zstd, from the catalog of the dump.

use base::path::or_dot;
use base::{Warning, Warnings};
use catalog::columns::{DIR, NAME, TOP};
use catalog::{Reader, RowColumns};
use walk::Fields;
use walk::entry::joined;

use super::{LostMembers, MOST_WARNINGS};
use crate::dump::member::member_kind;
use crate::error::Result;
use crate::increment::history::History;
use crate::plan::in_archive;
use crate::route::{Region, key};
use crate::warning::WarningKind;

/// The position of a member in a full dump: the index of its SRC, and its sort key.
type Position = (usize, Vec<u8>);

/// A warning for each lost member of a dump. Empty for an increment, whose catalog also has the
/// entries that it did not dump, and without a readable catalog.
pub(super) fn name_lost(history: &History, dump: usize, lost: &[LostMembers]) -> Vec<Warning> {
    let dump = &history.dumps()[dump];
    let mut found = Warnings::default();
    if !lost.is_empty()
        && dump.base.is_none()
        && let Some((_, reader)) = dump.open_catalog(history.state())
    {
        // The damaged frame is reported in any case.
        let _ = find_lost(&reader, lost, |name| {
            found.push(Warning::about(name, WarningKind::Lost), MOST_WARNINGS);
        });
    }
    found.take_all(WarningKind::MoreOfThese)
}

/// Passes the names of the members in the gaps to `emit`.
fn find_lost(reader: &Reader, lost: &[LostMembers], mut emit: impl FnMut(&[u8])) -> Result<()> {
    let roots = reader.about().roots.iter();
    let prefixes: Vec<&[u8]> = roots.map(|root| in_archive(&root.path)).collect();
    let position = |name: &[u8]| -> Position {
        let key = key(name);
        let above = prefixes.iter().enumerate();
        let above = above.filter(|(_, prefix)| Region::tree(prefix).has(&key));
        let nearest = above.max_by_key(|(_, prefix)| prefix.len());
        (nearest.map_or(0, |(top, _)| top), key)
    };
    let gaps = lost.iter().map(|gap| {
        let before = gap.before.as_deref().map(position);
        (position(&gap.after), before)
    });
    let gaps: Vec<(Position, Option<Position>)> = gaps.collect();
    for group in 0..reader.groups() {
        let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        let (tops, columns) = (reader.read(TOP, group)?, RowColumns::new(reader, group));
        let metas = columns.metas(Fields::all())?;
        for row in 0..reader.rows(group) {
            let top = tops[row] as usize;
            let prefix = prefixes.get(top).copied().unwrap_or_default();
            let path = joined(prefix, &joined(&dirs[row], &names[row]));
            let place = (top, key(&path));
            let is_lost = gaps.iter().any(|(after, before)| {
                place > *after && before.as_ref().is_none_or(|before| place < *before)
            });
            if !is_lost {
                continue;
            }
            let meta = metas(row);
            // An entry without inode number could not be read by the dump; a socket has no member.
            if meta.ino != 0 && member_kind(meta.kind()).is_some() {
                emit(or_dot(&path));
            }
        }
    }
    Ok(())
}
