//! ext4 with a journal: the number of transactions that have been committed since it was mounted.
//!
//! Every change to an inode or a directory is part of a transaction. syncfs(2) has the running one
//! committed, if there is one, and waits. As long as nothing is changed there is none, and the
//! number stays. The kernel keeps it for as long as the file system is mounted. Writes to the block
//! device past the file system are not counted; readers of files do not see them either.

use std::fmt;

use walk::MountContext;
use walk::engine::ext4::journal_transactions;

use super::mount::MountInstance;

/// The transactions of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The mount that they are counted for.
    pub mount: MountInstance,
    /// How many there were.
    pub transactions: u64,
}

const TRANSACTIONS: &str = " transactions ";

impl Token {
    pub(super) fn take(context: &MountContext<'_>) -> Option<Token> {
        Some(Token {
            mount: MountInstance::current(context)?,
            transactions: journal_transactions(context.top.meta.dev)?,
        })
    }

    pub(super) fn parse(text: &str) -> Option<Token> {
        let (mount, transactions) = text.split_once(TRANSACTIONS)?;
        Some(Token {
            mount: MountInstance::parse(mount)?,
            transactions: transactions.parse().ok()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{TRANSACTIONS}{}", self.mount, self.transactions)
    }
}
