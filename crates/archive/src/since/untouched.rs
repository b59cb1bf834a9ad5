//! Step 1: every file system still has the token that it had when the catalog was made.

use gate::fs::Open;
use gate::long::open_long;
use walk::entry::joined;
use walk::{EngineKind, MountContext, Top};

use super::tree::Tree;
use crate::catalog::About;
use crate::token::Token;

/// The engine that stands for the token, if nothing can have changed; `None` if something may have.
/// Every engine must be one that `accepts` allows.
///
/// Nothing has changed if every part of the tree has a token, and the same one as in the catalog,
/// and nothing else has been mounted. (A mount that is gone is a part without its token, and so is
/// a mount that the walk did not enter.)
pub(super) fn untouched(
    about: &About,
    tree: &Tree,
    accepts: impl Fn(EngineKind) -> bool,
) -> Option<EngineKind> {
    let tokens = about.parts.iter().map(|part| part.token.as_ref());
    let tokens: Vec<&Token> = tokens.collect::<Option<_>>()?;
    if !tokens.iter().all(|token| accepts(token.engine())) {
        return None;
    }
    for (number, top) in (0..).zip(&tree.tops) {
        let is_known = |name: &&[u8]| {
            about
                .parts
                .iter()
                .any(|part| part.top == number && part.path == *name)
        };
        if !tree.mounted_below(top)?.iter().all(is_known) {
            return None;
        }
    }
    for (part, recorded) in about.parts.iter().zip(&tokens) {
        let path = joined(&tree.tops.get(part.top as usize)?.path, &part.path);
        let fd = open_long(&path, Open::DIRECTORY | Open::NONBLOCK).ok()?;
        let begins = Top::new(fd, path, 0, 0).ok()?;
        let ground = MountContext::new(&begins, None);
        let is_same = |now: Token| now.is_same_state(recorded);
        if begins.meta.ino != part.ino || !Token::take(&ground).is_some_and(is_same) {
            return None;
        }
    }
    tokens.first().map(|token| token.engine())
}
