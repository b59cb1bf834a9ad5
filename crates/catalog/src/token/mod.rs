//! Tokens: a state of a file system that changes with every change in it. If a file system still
//! has the token of a catalog, nothing has changed, and no walk is needed.
//!
//! A token is taken after syncfs(2) and before any entry is read, so a change during or after the
//! walk leads to a different token. The modules explain why no change can be missed.
//!
//! A catalog stores a token as text ([`Token`]'s `Display` and `FromStr`), so both must stay
//! compatible with all existing catalogs.

use std::fmt;
use std::str::FromStr;

use btrfs::Generation;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{EXT4_SUPER_MAGIC, syncfs};
use gate::xfs::XFS_SUPER_MAGIC;
use mount::MountCounter;
use walk::engine::bulkstat::log_head_lsn;
use walk::engine::ext4::journal_transactions;
use walk::{EngineKind, MountContext};

pub(crate) mod btrfs;
pub(crate) mod mount;

/// The state of a file system, in the form that its type provides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// btrfs: the generation of a subvolume.
    Btrfs(Generation),
    /// ext4: the number of journal transactions.
    Ext4(MountCounter),
    /// XFS: the head of the log.
    Xfs(MountCounter),
}

const TRANSACTIONS: &str = " transactions ";
const LOG_HEAD: &str = " log head ";

impl Token {
    /// Calls syncfs(2), and takes the token of a directory's file system; `None` if the file system
    /// has none.
    pub(crate) fn take(context: &MountContext<'_>) -> Option<Token> {
        let magic = context.statfs.magic;
        if ![BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC].contains(&magic) {
            return None;
        }
        syncfs(&context.top.fd).ok()?;
        let dev = context.top.meta.dev;
        Some(match magic {
            BTRFS_SUPER_MAGIC => Token::Btrfs(Generation::take(context)?),
            EXT4_SUPER_MAGIC => {
                let transactions = journal_transactions(dev)?.to_string();
                Token::Ext4(MountCounter::take(context, transactions)?)
            }
            _ => Token::Xfs(MountCounter::take(context, log_head_lsn(dev)?)?),
        })
    }

    pub(crate) fn is_same_state(&self, other: &Token) -> bool {
        match (self, other) {
            (Token::Btrfs(one), Token::Btrfs(other)) => one.state == other.state,
            _ => self == other,
        }
    }

    /// The engine for this type of file system.
    pub(crate) fn engine(&self) -> EngineKind {
        match self {
            Token::Btrfs(_) => EngineKind::Btrfs,
            Token::Ext4(_) => EngineKind::Ext4,
            Token::Xfs(_) => EngineKind::Bulkstat,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.engine().name())?;
        match self {
            Token::Btrfs(generation) => generation.fmt(f),
            Token::Ext4(counter) => counter.write(TRANSACTIONS, f),
            Token::Xfs(counter) => counter.write(LOG_HEAD, f),
        }
    }
}

/// A token unknown to this version, which proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown token")]
pub struct UnknownToken;

impl FromStr for Token {
    type Err = UnknownToken;

    fn from_str(text: &str) -> Result<Token, UnknownToken> {
        let (engine, token) = text.split_once(' ').ok_or(UnknownToken)?;
        match engine {
            "btrfs" => Generation::parse(token).map(Token::Btrfs),
            "ext4" => MountCounter::parse(token, TRANSACTIONS).map(Token::Ext4),
            "bulkstat" => MountCounter::parse(token, LOG_HEAD).map(Token::Xfs),
            _ => None,
        }
        .ok_or(UnknownToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_token_is_read_back() {
        let boot = "boot 0b2f9a34-7c2e-4a58-8f0e-3d4b2c1a0f9e mount 4294967345";
        let state = "btrfs 00112233445566778899aabbccddeeff tree 257 generation 19 at -5.000000009";
        for text in [
            format!("ext4 {boot} transactions 17"),
            format!("bulkstat {boot} log head 3:1184"),
            format!(
                "{state} on {boot} last 258:1700000000.123456789:-1.000000000 259:0.000000001:2.000000000"
            ),
            format!("{state} on {boot} last"),
            format!("{state} on  last"),
        ] {
            let token: Token = text.parse().unwrap();
            assert_eq!(token.to_string(), text);
            assert!(token.is_same_state(&token));
        }
    }

    #[test]
    fn the_mount_is_not_part_of_the_state_of_a_btrfs() {
        let state = "btrfs 00112233445566778899aabbccddeeff tree 257 generation 19 at 5.000000009";
        let parse = |tail: &str| format!("{state} on {tail}").parse::<Token>().unwrap();
        let here = parse("boot a mount 1 last");
        assert!(here.is_same_state(&parse("boot b mount 2 last 258:1.000000000:2.000000000")));
        let ext4 = |mount: u32| {
            let text = format!("ext4 boot a mount {mount} transactions 1");
            text.parse::<Token>().unwrap()
        };
        assert!(!ext4(1).is_same_state(&ext4(2)) && !ext4(1).is_same_state(&here));
    }

    #[test]
    fn inodes_as_an_older_version_wrote_them_are_ignored() {
        let text =
            "btrfs 0a tree 5 generation 1 at 2.000000003 on boot a mount 1 last 258:4.000000005";
        let Ok(Token::Btrfs(token)) = text.parse() else {
            panic!("{text}");
        };
        assert!(token.last.is_empty() && token.mount.is_some());
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "btrfs",
            "zfs boot a mount 1 transactions 17",
            "ext4 boot a mount 1 transactions",
            "btrfs 00112233445566778899aabbccddeeff tree 257 generation 19",
        ] {
            assert_eq!(text.parse::<Token>(), Err(UnknownToken), "{text}");
        }
    }
}
