//! Gathers by the catalog of the dump before: where a file system tells what has been written since
//! (btrfs, XFS), only that is looked at, and all else is as the rows have it that there are of it.

use crate::attribution::{self, Function};
use ondisk::Dev;
use walk::{Diagnostics, Entry, Meta, MountContext, Sink, mounts_around, open_top};

use super::Base;
use crate::catalog::{Fault, Options, Reader};
use crate::changed::index::each_group;
use crate::changed::written::{self, Differing, Since, give};
use crate::gather::{Answer, Gather, Gathered, Question, of_directory};
use crate::rows::Gathering;

/// What came of it.
pub(crate) enum Regathered<'a> {
    /// Nothing has been written.
    Nothing(Answer),
    /// All that there is.
    All(Box<(Gathering<'a>, Answer)>),
}

impl Base {
    /// Gathers so; `None` where that cannot be done, or another way was asked for.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn regather<'a>(
        &self,
        question: &Question,
        options: &Options,
        desk: &'a Diagnostics,
    ) -> Result<Option<Regathered<'a>>, Fault> {
        let about = self.reader.about();
        let Some(by) =
            written::by(about).filter(|_| question.gather.is_none() && about.options == *options)
        else {
            return Ok(None);
        };
        attribution::set_phase(Function::Information);
        let Some(gathering) = of_directory(question, desk) else {
            return Ok(None);
        };
        let source = &question.sources[0];
        let Ok(top) = open_top(source, 0) else {
            return Ok(None);
        };
        let mounts = mounts_around(Some(&top));
        let ground = MountContext::of(&top, top.mount(&mounts));
        // Here the token is taken that the next dump goes by: before anything is looked at.
        gathering.begin(&ground, by);
        let Some(since) = Since::of(&self.reader, &top, &mounts)? else {
            return Ok(None);
        };
        let answer = |why| {
            let fstype = ground.mount.map(|mount| mount.content.fstype.clone());
            let gathered = Gathered {
                path: source.clone(),
                fstype,
                gather: Gather::Batched,
                engine: by,
                why,
            };
            Answer {
                parts: vec![gathered],
            }
        };
        if let Some(why) = since.nothing() {
            return Ok(Some(Regathered::Nothing(answer(why.to_owned()))));
        }
        let Some(differing) = since.differing(&self.reader)? else {
            return Ok(None);
        };
        hand_over(
            &self.reader,
            &differing,
            source,
            (top.meta.dev, top.meta.mount),
            &gathering,
        )?;
        differing.hand_over(source, &gathering);
        let answer = answer(format!(
            "{}, and the rest is as the catalog says",
            differing.why
        ));
        Ok(Some(Regathered::All(Box::new((gathering, answer)))))
    }
}

/// Hands over what the rows of a catalog say but for those that differ. What mount that is on, they
/// do not say, nor what number its device has today.
fn hand_over(
    reader: &Reader,
    differing: &Differing,
    root: &[u8],
    (dev, mount): (Dev, u64),
    to: &Gathering<'_>,
) -> Result<(), Fault> {
    let read = |group: usize| {
        let (dirs, names) = (reader.names(group, "dir")?, reader.names(group, "name")?);
        let meta = reader.metas(group)?;
        let first = reader.first(group);
        let Differing { places, atimes, .. } = differing;
        let mut stale = places[places.partition_point(|&place| place < first)..]
            .iter()
            .peekable();
        let mut worker = to.worker();
        let (mut at, mut entries) = (0, Vec::new());
        while at < names.len() {
            let dir = &dirs[at];
            entries.clear();
            while at < names.len() && &dirs[at] == dir {
                if stale.next_if_eq(&&(first + at as u32)).is_none() {
                    let meta = meta(at);
                    let atime = atimes.get(&meta.ino).copied().unwrap_or(meta.atime);
                    entries.push(Entry {
                        name: &names[at],
                        meta: Meta {
                            dev,
                            mount,
                            atime,
                            ..meta
                        },
                    });
                }
                at += 1;
            }
            give(&mut *worker, root, dir, &entries);
        }
        Ok(())
    };
    each_group(reader, read, |_, ()| {})
}
