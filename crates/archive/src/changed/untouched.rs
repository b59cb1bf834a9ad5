//! The verdict by tokens: nothing can have changed, so that nothing need be walked.

use gate::fs::Open;
use gate::long::open_long;
use mounts::path::below;
use ondisk::Mount;
use walk::entry::joined;
use walk::{EngineKind, MountContext, Top};

use crate::catalog::About;
use crate::token;

/// The engine that a token stands in for, which must be one that `fits`, and why nothing can have
/// changed; `None` when that cannot be said.
///
/// It can be when every part of the tree has a token, and the same one as when the catalog was
/// made, and no mount has come. (One that has gone is a part without its token.) Whatever the
/// catalog has entries of without a part that was walked, as a mount that was not entered, has no
/// token.
pub(crate) fn untouched(
    about: &About,
    tops: &[Top],
    mounts: &[Mount],
    fits: impl Fn(EngineKind) -> bool,
) -> Option<(EngineKind, String)> {
    let tokens: Vec<&str> = about
        .parts
        .iter()
        .map(|part| part.token.as_deref())
        .collect::<Option<_>>()?;
    let engines: Vec<EngineKind> = tokens
        .iter()
        .map(|token| token::engine(token))
        .collect::<Option<_>>()?;
    if !engines.iter().all(|&by| fits(by)) {
        return None;
    }
    for (number, top) in (0..).zip(tops) {
        let is_known = |name: &&[u8]| {
            about
                .parts
                .iter()
                .any(|part| part.top == number && part.path == *name)
        };
        if !mounted_below(top, mounts)?.iter().all(is_known) {
            return None;
        }
    }
    for (part, recorded) in about.parts.iter().zip(&tokens) {
        let path = joined(&tops.get(part.top as usize)?.path, &part.path);
        let fd = open_long(&path, Open::DIRECTORY | Open::NONBLOCK).ok()?;
        let begins = Top::of(fd, path, 0, 0).ok()?;
        let ground = MountContext::of(&begins, None);
        if begins.meta.ino != part.ino
            || !token::take(&ground).is_some_and(|now| token::is_same(&now, recorded))
        {
            return None;
        }
    }
    let first = engines.first()?;
    let what = match first {
        EngineKind::Btrfs => "the generation of the subvolume",
        EngineKind::Ext4 => "the number of transactions that the journal has committed",
        _ => "the head of the log",
    };
    Some((
        *first,
        format!("{what} is as it was when the catalog was made, so nothing can have changed"),
    ))
}

/// The names below a directory at which something is mounted; `None` where that is not known.
pub(super) fn mounted_below<'a>(top: &Top, mounts: &'a [Mount]) -> Option<Vec<&'a [u8]>> {
    let absolute = mounts::root::name_of(&top.fd).ok()?;
    // A table that does not know of this mount knows nothing of those below.
    top.mount(mounts)?;
    let names = mounts
        .iter()
        .filter_map(|mount| below(&absolute, mount.target.as_deref()?));
    Some(names.filter(|name| !name.is_empty()).collect())
}
