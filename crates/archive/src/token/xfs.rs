//! XFS: the head of its log.
//!
//! Every change to an inode or a directory is logged. syncfs(2) has what is held back written to
//! the log, and waits, so that the head has moved on past it. The head is the number of a cycle and
//! of a block in it, which only grow while the file system is mounted. It also moves within a
//! minute after the last change, when XFS covers its log.

use std::fmt;

use walk::MountContext;
use walk::engine::bulkstat::log_head_lsn;

use super::mount::MountInstance;

/// The head of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The mount during which it only grows.
    pub mount: MountInstance,
    /// `CYCLE:BLOCK`.
    pub head: String,
}

const HEAD: &str = " log head ";

impl Token {
    pub(super) fn take(context: &MountContext<'_>) -> Option<Token> {
        Some(Token {
            mount: MountInstance::current(context)?,
            head: log_head_lsn(context.top.meta.dev)?,
        })
    }

    pub(super) fn parse(text: &str) -> Option<Token> {
        let (mount, head) = text.split_once(HEAD)?;
        Some(Token {
            mount: MountInstance::parse(mount)?,
            head: head.to_owned(),
        })
    }

    /// The file system has been mounted all the time since.
    pub(crate) fn is_of_mount(&self, context: &MountContext<'_>) -> bool {
        self.mount.is_current(context)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{HEAD}{}", self.mount, self.head)
    }
}
