//! The flags that select entries, the same for `walk`, `changed` and `query`.

mod limit;
mod perm;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use archive::Owners;
use clap::Args;
use clap::builder::TypedValueParser;
use regex::bytes::{Regex, RegexBuilder};
use show::name::printable;
use walk::predicate::Predicates;
use walk::predicate::glob::Glob;
use walk::predicate::test::{
    IdTest, NumberTest, PermTest, Sign, SizeTest, TimeField, TimeTest, Types,
};
use walk::{FileType, Moment};

use crate::args::output::GroupField;
use crate::args::values::{named, number};
use crate::date::Zone;
use crate::error::Error;
use limit::TimeLimit;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Predicates (all must hold)")]
pub(crate) struct PredicateArgs {
    /// Match names by GLOB, as find -name does
    ///
    /// If the option is repeated, one of the GLOBs must match. The same applies to --iname,
    /// --regex, --ext and --type. In names, * and ? match a leading dot, too.
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    name: Vec<OsString>,
    /// Match names by GLOB, ignoring case
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    iname: Vec<OsString>,
    /// Match paths by a regular expression, anywhere in the path
    ///
    /// The path begins with DIR as given. The syntax is that of ripgrep and fd; (?i) ignores case.
    #[arg(long, value_name = "RE", allow_hyphen_values = true, value_parser = regex)]
    regex: Vec<Regex>,
    /// Match names by extension, ignoring case, as fd -e does
    #[arg(long, value_name = "EXT", allow_hyphen_values = true)]
    ext: Vec<OsString>,
    /// Match entries by type
    ///
    /// Several types are alternatives: --type f,d or --type f --type d. With e, only empty entries match; --type e,f matches empty
    /// files.
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = file_type())]
    kind: Vec<TypeArg>,
    /// Match sizes: +N more, -N less than N units, rounded up
    ///
    /// Units are c (bytes), k or K, M, G, T (powers of 1024); without a unit, N counts blocks of 512
    /// bytes. As in find, the size is rounded up to whole units first: -1M matches only empty files.
    #[arg(long, value_name = "[+-]N[UNIT]", allow_hyphen_values = true, value_parser = size)]
    size: Vec<SizeTest>,
    /// Match files modified after TIME, or within a duration
    ///
    /// If the option is repeated, all of its TIMEs must match. The same applies to --changed-before,
    /// --size, --owner, --perm and --links.
    ///
    /// TIME is a duration such as 30min, 12h, 2d or 4w; today or yesterday, from 00:00; a date in
    /// local time (TZ): 2026-11-20 or '2026-11-20 03:00'; a date with its offset from UTC: 2026-11-20T03:00:00Z or
    /// 2026-11-20T03:00:00+01:00; or @SECONDS since 1970.
    #[arg(long, value_name = "TIME", value_parser = limit::parse)]
    changed_within: Vec<TimeLimit>,
    /// Match files modified before TIME, or longer ago than a duration
    #[arg(long, value_name = "TIME", value_parser = limit::parse)]
    changed_before: Vec<TimeLimit>,
    /// Use this time for --changed-within, --changed-before and ages [default: mtime]
    #[arg(long, value_name = "FIELD", value_parser = time())]
    time: Option<TimeField>,
    /// Match files of USER and GROUP (names or numbers); ! negates
    ///
    /// For example, root, :staff, '!root', '!root:!staff' or 1000:100. Names are looked up in
    /// /etc/passwd and /etc/group.
    #[arg(long, value_name = "USER[:GROUP]", value_parser = owner)]
    owner: Vec<OwnerArg>,
    /// Match permissions: MODE exactly, -MODE all bits, /MODE any bit
    ///
    /// MODE is octal or symbolic, as in find: 644, -4000, /222, -u+x,g+x.
    #[arg(long, value_name = "[-/]MODE", allow_hyphen_values = true, value_parser = perm::parse)]
    perm: Vec<PermTest>,
    /// Match numbers of hard links: +N more, -N less
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true, value_parser = links)]
    links: Vec<NumberTest>,
    /// Match entries at least N levels deep; DIR is level 0
    #[arg(long, value_name = "N", value_parser = number(0..=u32::MAX))]
    min_depth: Option<u32>,
}

/// A type that find, fd and ls have a letter for; `None` for `e`, which stands for empty entries.
type TypeArg = Option<FileType>;

const TYPES: &str = "\
f  Plain files
d  Directories
l  Symbolic links
p  Named pipes
s  Sockets
b  Block devices
c  Character devices
e  Empty files and directories";

fn file_type() -> impl TypedValueParser<Value = TypeArg> {
    use FileType::{Block, Char, Directory, Fifo, Regular, Socket, Symlink};
    let [f, d, l, p, s, b, c] = [Regular, Directory, Symlink, Fifo, Socket, Block, Char].map(Some);
    named(TYPES, [f, d, l, p, s, b, c, None])
}

const TIMES: &str = "\
mtime  The last change of the contents
ctime  The last change of the inode
atime  The last access
btime  The creation, where the file system records it";

fn time() -> impl TypedValueParser<Value = TimeField> {
    use TimeField::{Atime, Btime, Ctime, Mtime};
    named(TIMES, [Mtime, Ctime, Atime, Btime])
}

/// The value of `--owner`: a user, a group or both, as names or numbers.
#[derive(Clone, Debug)]
struct OwnerArg {
    user: Option<IdArg>,
    group: Option<IdArg>,
}

#[derive(Clone, Debug)]
struct IdArg {
    name: String,
    negated: bool,
}

impl PredicateArgs {
    /// The timestamp that `--time` selects.
    pub(crate) fn time_field(&self) -> TimeField {
        self.time.unwrap_or(TimeField::Mtime)
    }

    /// Refuses `--time` if nothing uses this time: a user who expects it to select entries would
    /// get all of them.
    pub(crate) fn check_time(&self, group_by: Option<GroupField>) -> Result<(), Error> {
        let has_limit = !(self.changed_within.is_empty() && self.changed_before.is_empty());
        let is_used = has_limit || group_by == Some(GroupField::Age);
        if self.time.is_none() || is_used {
            return Ok(());
        }
        Err(
            Error::new("--time requires --changed-within, --changed-before or --group-by age")
                .with_hint("add one of these, such as --changed-before 60d"),
        )
    }

    /// The predicates of the command line.
    ///
    /// # Errors
    /// A user or group of `--owner` does not exist.
    pub(crate) fn predicates(&self) -> Result<Predicates, Error> {
        let (mut types, mut empty) = (Types::default(), false);
        for kind in &self.kind {
            match kind {
                Some(kind) => types.insert(*kind),
                None => empty = true,
            }
        }
        let globs = |patterns: &[OsString], folds| {
            let patterns = patterns.iter();
            patterns
                .map(|pattern| Glob::new(pattern.as_bytes(), folds))
                .collect()
        };
        let extensions = self.ext.iter();
        let extensions = extensions.map(|ext| Glob::from_extension(ext.as_bytes()));
        let (users, groups) = self.owners()?;
        let now = Moment::now().time();
        let zone: LazyCell<Zone> = LazyCell::new(Zone::local);
        let moment = |limit: &TimeLimit| limit.before(now, &zone);
        Ok(Predicates {
            types,
            empty,
            perms: self.perm.clone(),
            users,
            groups,
            links: self.links.clone(),
            sizes: self.size.clone(),
            time: TimeTest {
                field: self.time_field(),
                after: self.changed_within.iter().map(moment).max(),
                before: self.changed_before.iter().map(moment).min(),
            },
            min_depth: self.min_depth.unwrap_or(0),
            max_depth: None,
            names: globs(&self.name, false),
            inames: globs(&self.iname, true),
            extensions: extensions.collect(),
            paths: self.regex.clone(),
        })
    }

    fn owners(&self) -> Result<(Vec<IdTest>, Vec<IdTest>), Error> {
        if self.owner.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let owners = Owners::default();
        let mut tests = (Vec::new(), Vec::new());
        for OwnerArg { user, group } in &self.owner {
            if let Some(user) = user {
                let id = user.resolve("user", owners.user(user.name.as_bytes()))?;
                tests.0.push(id);
            }
            if let Some(group) = group {
                let id = group.resolve("group", owners.group(group.name.as_bytes()))?;
                tests.1.push(id);
            }
        }
        Ok(tests)
    }
}

impl IdArg {
    /// A test for a user or group. The id is `by_name`, if the name exists; otherwise the name must
    /// be a number.
    fn resolve(&self, kind: &str, by_name: Option<u32>) -> Result<IdTest, Error> {
        let (name, negated) = (&self.name, self.negated);
        let id = by_name.or_else(|| name.parse().ok()).ok_or_else(|| {
            let name = printable(name.as_bytes());
            Error::new(format!("the {kind} '{name}' of --owner does not exist")).with_hint(
                "check the name in /etc/passwd or /etc/group, or give the number (id prints it)",
            )
        })?;
        Ok(IdTest { id, negated })
    }
}

/// A regular expression in which a dot matches a newline, too, as in fd.
fn regex(text: &str) -> Result<Regex, BadRegex> {
    let regex = RegexBuilder::new(text).dot_matches_new_line(true).build();
    regex.map_err(BadRegex)
}

/// An invalid regular expression. The message is the last line of the regex crate's message, whose
/// other lines show the position of the error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.to_string().lines().last().unwrap_or_default().trim_start_matches("error: "))]
struct BadRegex(regex::Error);

/// Splits the sign off a number: `+` means greater than, `-` less than.
fn signed(text: &str) -> (Sign, &str) {
    match text.as_bytes() {
        [b'+', ..] => (Sign::Greater, &text[1..]),
        [b'-', ..] => (Sign::Less, &text[1..]),
        _ => (Sign::Equal, text),
    }
}

fn size(text: &str) -> Result<SizeTest, &'static str> {
    const FORM: &str = "use +N, -N or N with a unit: c (bytes), k, M, G or T, such as +10M; \
                        without a unit, N counts blocks of 512 bytes";
    let (sign, rest) = signed(text);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = rest.split_at(digits);
    let unit = match unit {
        "" | "b" => 512,
        "c" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(FORM),
    };
    let number = number.parse().map_err(|_| FORM)?;
    let units = NumberTest { sign, number };
    Ok(SizeTest { units, unit })
}

fn links(text: &str) -> Result<NumberTest, &'static str> {
    let (sign, number) = signed(text);
    let number = Some(number).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number = number.and_then(|number| number.parse().ok());
    let number = number.ok_or("use a number of links: 2, +1 (more than one) or -2 (fewer)")?;
    Ok(NumberTest { sign, number })
}

fn owner(text: &str) -> Result<OwnerArg, &'static str> {
    const FORM: &str = "use USER, USER:GROUP or :GROUP, such as root, '!root' or 1000:100";
    let id = |text: &str| {
        let name = text.strip_prefix('!').unwrap_or(text);
        match (name, text) {
            ("", "") => Ok(None),
            ("", _) => Err(FORM),
            (name, _) => Ok(Some(IdArg {
                name: name.to_owned(),
                negated: text.starts_with('!'),
            })),
        }
    };
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let (user, group) = (id(user)?, id(group)?);
    match (&user, &group) {
        (None, None) => Err(FORM),
        _ => Ok(OwnerArg { user, group }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_sign_and_a_unit() {
        let test = |sign, number, unit| {
            let units = NumberTest { sign, number };
            Ok(SizeTest { units, unit })
        };
        assert_eq!(size("+1M"), test(Sign::Greater, 1, 1 << 20));
        assert_eq!(size("-3"), test(Sign::Less, 3, 512));
        assert_eq!(size("0c"), test(Sign::Equal, 0, 1));
        assert_eq!(size("2T"), test(Sign::Equal, 2, 1 << 40));
        for bad in [
            "",
            "+",
            "1X",
            "1MB",
            "1.5M",
            "++1",
            "+-1",
            "99999999999999999999",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_links() {
        let test = |sign, number| Ok(NumberTest { sign, number });
        assert_eq!(links("+1"), test(Sign::Greater, 1));
        assert_eq!(links("2"), test(Sign::Equal, 2));
        for bad in ["", "-", "x", "+-2", "1k"] {
            assert!(links(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn owners_are_users_and_groups() {
        let parts = |text| {
            let OwnerArg { user, group } = owner(text).unwrap();
            [user, group].map(|id| id.map(|id| (id.name, id.negated)))
        };
        let id = |name: &str, negated| Some((name.to_owned(), negated));
        assert_eq!(parts("root"), [id("root", false), None]);
        assert_eq!(parts("!a:!b"), [id("a", true), id("b", true)]);
        assert_eq!(parts(":7"), [None, id("7", false)]);
        for bad in ["", ":", "!", "a:!"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }
}
