//! Mount points in every format.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ondisk::mnttab::escape;
use ondisk::{Dev, split_options};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entry, printable};
use show::table::{Align, Table, TableStyle, Tone};
use show::units::size;

/// What lies beneath a mount point.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Beneath {
    /// Files that are no directories.
    pub files: u64,
    /// Bytes in plain files.
    pub bytes: u64,
}

/// A mount point; what is not known or was not asked for is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Id of the mount, as in /proc/self/mountinfo.
    pub id: Option<u64>,
    /// Id of the mount that it is on.
    pub parent: Option<u64>,
    /// Its absolute name.
    pub target: &'a [u8],
    /// The device or other source.
    pub source: Option<&'a [u8]>,
    /// Type of the file system.
    pub fstype: Option<&'a [u8]>,
    /// Device number.
    pub dev: Dev,
    /// The part of the file system that is mounted.
    pub fsroot: Option<&'a [u8]>,
    /// Options, comma-separated, with the kernel's escapes.
    pub options: Option<&'a [u8]>,
    /// `dir` or `file`.
    pub kind: Option<&'static str>,
    /// `leaf` or `internal`.
    pub class: &'static str,
    /// Whether no path reaches it.
    pub hidden: bool,
    /// The machine behind it.
    pub server: Option<&'a str>,
    /// Whether it answers.
    pub verdict: Option<&'static str>,
    /// What lies beneath it.
    pub beneath: Option<Beneath>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("parent", &self.parent)?;
        entry(&mut map, "target", Some(self.target))?;
        entry(&mut map, "source", self.source)?;
        entry(&mut map, "fstype", self.fstype)?;
        map.serialize_entry("dev", &self.dev.to_string())?;
        entry(&mut map, "fsroot", self.fsroot)?;
        let options: Option<Vec<Vec<u8>>> = self.options.map(|all| split_options(all).collect());
        let lossy: Option<Vec<_>> = options.as_ref().map(|all| {
            all.iter()
                .map(|option| String::from_utf8_lossy(option))
                .collect()
        });
        map.serialize_entry("options", &lossy)?;
        if let Some(options) = &options
            && options
                .iter()
                .any(|option| std::str::from_utf8(option).is_err())
        {
            let exact: Vec<String> = options
                .iter()
                .map(|option| STANDARD.encode(option))
                .collect();
            map.serialize_entry("options_b64", &exact)?;
        }
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("class", self.class)?;
        map.serialize_entry("hidden", &self.hidden)?;
        map.serialize_entry("server", &self.server)?;
        map.serialize_entry("verdict", &self.verdict)?;
        map.serialize_entry("beneath", &self.beneath)?;
        map.end()
    }
}

/// A place where the file system changes and the table says nothing.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its absolute name.
    pub path: Vec<u8>,
    /// `subvolume`, `snapshot`, `automount` or `device`.
    pub kind: &'static str,
    /// Its device number.
    pub dev: Dev,
}

impl Serialize for Boundary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("dev", &self.dev.to_string())?;
        map.end()
    }
}

/// Whether a path was a mount point, as `--assert` asked.
#[derive(Clone, Debug)]
pub struct Asserted {
    /// The path as it was given.
    pub path: Vec<u8>,
    /// Whether it is one.
    pub mountpoint: bool,
}

impl Serialize for Asserted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("mountpoint", &self.mountpoint)?;
        map.end()
    }
}

/// How much was searched.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Search {
    /// Directories read.
    pub directories: u64,
    /// Entries seen.
    pub entries: u64,
    /// Directories that need not be read.
    pub pruned: u64,
}

/// Mount points, from whatever holds them.
pub trait Rows {
    /// How many there are.
    fn len(&self) -> usize;
    /// One of them.
    fn row(&self, at: usize) -> Row<'_>;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All of them in turn.
pub fn all(rows: &dyn Rows) -> impl Iterator<Item = Row<'_>> + Clone {
    (0..rows.len()).map(|at| rows.row(at))
}

struct List<'a>(&'a dyn Rows);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(all(self.0))
    }
}

/// The result of `fathom mounts`.
#[derive(Clone)]
pub struct Mounts<'a> {
    /// The directory asked about; `None` for `--assert`.
    pub root: Option<&'a [u8]>,
    /// The method.
    pub by: &'static str,
    /// Why this one.
    pub why: &'a str,
    /// Whether nothing is lacking.
    pub complete: bool,
    /// The mount points.
    pub mounts: &'a dyn Rows,
    /// Boundaries that are no mount points, when asked for.
    pub boundaries: Option<&'a [Boundary]>,
    /// How much was searched, when anything was.
    pub search: Option<Search>,
    /// The comparison of methods, when asked for.
    pub compare: Option<&'a crate::compare::Comparison<'a>>,
    /// What `--assert` found.
    pub asserted: Option<&'a [Asserted]>,
}

impl<'a> Mounts<'a> {
    /// A result in which nothing more was asked for.
    pub fn of(by: &'static str, why: &'a str, complete: bool, mounts: &'a dyn Rows) -> Mounts<'a> {
        Mounts {
            root: None,
            by,
            why,
            complete,
            mounts,
            boundaries: None,
            search: None,
            compare: None,
            asserted: None,
        }
    }
}

impl Serialize for Mounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", self.root)?;
        map.serialize_entry("by", self.by)?;
        map.serialize_entry("why", self.why)?;
        map.serialize_entry("complete", &self.complete)?;
        map.serialize_entry("mounts", &List(self.mounts))?;
        map.serialize_entry("boundaries", &self.boundaries)?;
        map.serialize_entry("search", &self.search)?;
        map.serialize_entry("compare", &self.compare)?;
        map.serialize_entry("asserted", &self.asserted)?;
        map.end()
    }
}

/// The table of mount points: a list in the order in which they were made, or a tree in the order
/// of their names. Columns that say nothing are left out. The text is given to `put` piece by
/// piece.
pub fn table(rows: &dyn Rows, style: TableStyle, put: &mut dyn FnMut(&str)) {
    if rows.is_empty() {
        return;
    }
    let order: Vec<usize> = if style.tree {
        by_name(rows)
    } else {
        (0..rows.len()).collect()
    };
    let limbs = if style.tree {
        limbs(rows, &order)
    } else {
        Vec::new()
    };
    let has = Has::of(rows);
    type Cell = for<'a> fn(&Row<'a>) -> Cow<'a, str>;
    let columns: [(bool, &str, Align, Cell); 10] = [
        (true, "TARGET", Align::Left, |row| printable(row.target)),
        (has.verdict, "ANSWERS", Align::Left, |row| {
            row.verdict.unwrap_or("-").into()
        }),
        (has.beneath, "FILES", Align::Right, |row| {
            row.beneath
                .map_or("-".into(), |b| b.files.to_string().into())
        }),
        (has.beneath, "BENEATH", Align::Right, |row| {
            row.beneath.map_or("-".into(), |b| size(b.bytes).into())
        }),
        (has.server, "SERVER", Align::Left, |row| {
            cell(row.server.map(str::as_bytes))
        }),
        (has.source, "SOURCE", Align::Left, source),
        (has.fstype, "FSTYPE", Align::Left, |row| cell(row.fstype)),
        (!has.fstype, "DEV", Align::Left, |row| {
            row.dev.to_string().into()
        }),
        (has.state, "STATE", Align::Left, state),
        (has.fstype, "OPTIONS", Align::Left, |row| cell(row.options)),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let heads: Vec<(&str, Align)> = shown().map(|&(_, name, align, _)| (name, align)).collect();
    let mut table = Table::new(&heads, rows.len());
    for (at, row) in order.iter().map(|&at| (at, rows.row(at))) {
        let limb = limbs.get(at).map_or("", String::as_str);
        let cells = shown()
            .enumerate()
            .map(|(column, (_, _, _, cell))| match column {
                0 if !limb.is_empty() => format!("{limb}{}", cell(&row)).into(),
                _ => cell(&row),
            });
        table.row(cells, tone(&row));
    }
    table.write(style.width, style.color, put);
}

/// What is known of any of them: columns that say nothing are left out.
#[derive(Default)]
pub struct Has {
    /// A verdict.
    pub verdict: bool,
    /// What lies beneath.
    pub beneath: bool,
    /// A server.
    pub server: bool,
    /// A source.
    pub source: bool,
    /// A type.
    pub fstype: bool,
    /// A state.
    pub state: bool,
}

impl Has {
    /// Looks at all rows.
    pub fn of(rows: &dyn Rows) -> Has {
        let mut has = Has::default();
        for row in all(rows) {
            has.verdict |= row.verdict.is_some();
            has.beneath |= row.beneath.is_some();
            has.server |= row.server.is_some();
            has.source |= row.source.is_some();
            has.fstype |= row.fstype.is_some();
            has.state |= row.hidden || row.kind == Some("file");
        }
        has
    }
}

/// How its row looks.
pub fn tone(row: &Row<'_>) -> Tone {
    match row.verdict {
        Some(verdict) if verdict != "ok" && verdict != "hidden" => Tone::Bad,
        _ if row.hidden => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// The order of the names: what lies in a directory comes right after it; at one name, the mount
/// that people see there.
pub fn by_name(rows: &dyn Rows) -> Vec<usize> {
    let mut order: Vec<(&[u8], bool, usize)> = all(rows)
        .enumerate()
        .map(|(at, row)| (row.target, row.hidden, at))
        .collect();
    let key = |b: u8| if b == b'/' { 0 } else { b };
    order.sort_by(|a, b| {
        let differ = a.0.iter().zip(b.0).find(|(a, b)| a != b);
        let names = differ.map_or(a.0.len().cmp(&b.0.len()), |(&a, &b)| key(a).cmp(&key(b)));
        names.then(a.1.cmp(&b.1))
    });
    order.into_iter().map(|(_, _, at)| at).collect()
}

/// A name, or a dash for none.
pub fn cell(name: Option<&[u8]>) -> Cow<'_, str> {
    name.map_or("-".into(), printable)
}

/// What is special about it.
pub fn state<'a>(row: &Row<'a>) -> Cow<'a, str> {
    match (row.hidden, row.kind) {
        (true, Some("file")) => "hidden,file".into(),
        (true, _) => "hidden".into(),
        (false, Some("file")) => "file".into(),
        (false, _) => "".into(),
    }
}

/// The source as findmnt writes it: with the part that is mounted in brackets, unless that is all.
pub fn source<'a>(row: &Row<'a>) -> Cow<'a, str> {
    match row.fsroot {
        None | Some(b"/" | b"") => cell(row.source),
        Some(part) => format!("{}[{}]", cell(row.source), printable(part)).into(),
    }
}

/// The lines before each name that make a tree of the list.
pub fn limbs(rows: &dyn Rows, order: &[usize]) -> Vec<String> {
    /// Deeper than this, the lines would leave no room for the names.
    const DEEPEST: usize = 12;
    let mut above: Vec<usize> = Vec::new();
    let mut depths = vec![0usize; rows.len()];
    for &at in order {
        while above
            .last()
            .is_some_and(|&top| !contains(rows.row(top).target, rows.row(at).target))
        {
            above.pop();
        }
        depths[at] = above.len();
        above.push(at);
    }
    // From the last to the first: whether at each depth a sibling is still to come.
    let mut more: Vec<bool> = Vec::new();
    let mut limbs = vec![String::new(); rows.len()];
    for &at in order.iter().rev() {
        let depth = depths[at];
        more.resize(depth.max(more.len()), false);
        if depth > 0 {
            let upper = more[..depth - 1]
                .iter()
                .take(DEEPEST)
                .map(|&more| if more { "│ " } else { "  " });
            limbs[at] = upper.collect();
            limbs[at].push_str(if more[depth - 1] { "├─" } else { "└─" });
            more[depth - 1] = true;
        }
        more.truncate(depth);
    }
    limbs
}

/// Whether a name is, or is below, a directory.
fn contains(dir: &[u8], name: &[u8]) -> bool {
    dir == b"/"
        || name
            .strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The names of visible mount points, each with `end` behind it.
pub fn paths(rows: &dyn Rows, end: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for row in all(rows).filter(|row| !row.hidden) {
        out.extend_from_slice(row.target);
        out.push(end);
    }
    out
}

/// A mount table as /etc/mtab holds it; a parent comes before what is on it.
pub fn mnttab(rows: &dyn Rows) -> Vec<u8> {
    let mut out = Vec::new();
    for row in all(rows) {
        tab_line(
            &mut out,
            row.source,
            row.target,
            row.fstype,
            options(&row),
            b"0 0",
        );
    }
    out
}

fn options<'a>(row: &Row<'a>) -> &'a [u8] {
    row.options
        .filter(|options| !options.is_empty())
        .unwrap_or(b"rw")
}

fn tab_line(
    out: &mut Vec<u8>,
    source: Option<&[u8]>,
    target: &[u8],
    fstype: Option<&[u8]>,
    options: &[u8],
    numbers: &[u8],
) {
    let or = |field: Option<&[u8]>, default: &[u8]| {
        escape(field.filter(|f| !f.is_empty()).unwrap_or(default))
    };
    let fields = [
        or(source, b"none"),
        escape(target),
        or(fstype, b"auto"),
        options.to_vec(),
        numbers.to_vec(),
    ];
    out.extend(fields.join(&b' '));
    out.push(b'\n');
}

/// File systems that the system mounts by itself.
const BY_THE_SYSTEM: [&[u8]; 22] = [
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"cpuset",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nsfs",
    b"proc",
    b"pstore",
    b"rpc_pipefs",
    b"securityfs",
    b"sysfs",
    b"tracefs",
    b"rootfs",
];

/// Options that a bind mount has for itself.
const OF_THE_MOUNT: [&[u8]; 8] = [
    b"ro",
    b"nosuid",
    b"nodev",
    b"noexec",
    b"noatime",
    b"nodiratime",
    b"strictatime",
    b"nosymfollow",
];

/// Lines for /etc/fstab: what the system does not mount by itself; bind mounts as such, with the
/// name that shows the same directory elsewhere, on one of `every` mount there is.
pub fn fstab(rows: &dyn Rows, every: &dyn Rows) -> Vec<u8> {
    let mut out = Vec::new();
    let visible: Vec<Row<'_>> = all(every).filter(|row| !row.hidden).collect();
    for row in &all(rows).filter(|row| !row.hidden).collect::<Vec<_>>() {
        let fstype = row.fstype.unwrap_or(b"auto");
        if BY_THE_SYSTEM.contains(&fstype) {
            continue;
        }
        let part = row.fsroot.unwrap_or(b"/");
        let original = visible
            .iter()
            .take_while(|other| (other.id, other.target) != (row.id, row.target))
            .filter(|other| other.dev == row.dev)
            .find_map(|other| {
                let shown = other.fsroot.unwrap_or(b"/");
                contains(shown, part).then(|| {
                    let rest = if shown == b"/" {
                        part
                    } else {
                        &part[shown.len()..]
                    };
                    let at: &[u8] = if other.target == b"/" {
                        b""
                    } else {
                        other.target
                    };
                    let rest = if rest == b"/" { &b""[..] } else { rest };
                    [at, rest].concat()
                })
            });
        match original {
            Some(original) if fstype != b"btrfs" || part != b"/" && !has_subvolume(row, part) => {
                let original = if original.is_empty() {
                    b"/".to_vec()
                } else {
                    original
                };
                if original.ends_with(b"//deleted") {
                    out.extend(b"# what is mounted here has been removed: ");
                }
                let own = split_options(options(row))
                    .filter(|option| OF_THE_MOUNT.contains(&option.as_slice()));
                let options = own.fold(b"bind".to_vec(), |all, option| [all, option].join(&b','));
                tab_line(
                    &mut out,
                    Some(&original),
                    row.target,
                    Some(b"none"),
                    &options,
                    b"0 0",
                );
            }
            _ => {
                let pass: &[u8] = match (row.target, row.dev.major) {
                    (b"/", _) => b"0 1",
                    (_, 0) => b"0 0",
                    _ => b"0 2",
                };
                tab_line(
                    &mut out,
                    row.source,
                    row.target,
                    Some(fstype),
                    options(row),
                    pass,
                );
            }
        }
    }
    out
}

/// Whether a btrfs mount's own options name the part that is mounted: then it is a subvolume and no
/// bind mount.
fn has_subvolume(row: &Row<'_>, part: &[u8]) -> bool {
    split_options(options(row)).any(|option| option.strip_prefix(b"subvol=") == Some(part))
}

/// The mount points that a backup should keep out of: a line each, as a pattern that tar, restic
/// and borg take for the name and nothing else. A newline in a name, which no such file can hold,
/// is written `?`. A slow mount is not among them: it can be backed up.
pub fn exclude(rows: &dyn Rows) -> Vec<u8> {
    let mut out = Vec::new();
    for row in all(rows).filter(|row| {
        row.verdict
            .is_some_and(|v| matches!(v, "hung" | "stale" | "denied"))
    }) {
        for (at, &byte) in row.target.iter().enumerate() {
            match byte {
                // restic takes `$` for a variable, and cuts blanks off the ends.
                b'*' | b'?' | b'[' | b'$' => out.extend([b'[', byte, b']']),
                b' ' | b'\t' if at + 1 == row.target.len() => out.extend([b'[', byte, b']']),
                b'\\' => out.extend(b"[\\\\]"),
                b'\n' => out.push(b'?'),
                _ => out.push(byte),
            }
        }
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<const N: usize> Rows for [Row<'_>; N] {
        fn len(&self) -> usize {
            N
        }
        fn row(&self, at: usize) -> Row<'_> {
            self[at]
        }
    }

    /// A mount point with nothing odd about it.
    fn row<'a>(target: &'a str, fstype: &'a str) -> Row<'a> {
        Row {
            id: None,
            parent: None,
            target: target.as_bytes(),
            source: Some(b"/dev/x"),
            fstype: Some(fstype.as_bytes()),
            dev: Dev { major: 8, minor: 1 },
            fsroot: Some(b"/"),
            options: Some(b"rw"),
            kind: Some("dir"),
            class: "leaf",
            hidden: false,
            server: None,
            verdict: None,
            beneath: None,
        }
    }

    #[test]
    fn the_tree_is_drawn() {
        let rows = ["/", "/a", "/a/b", "/a/b", "/c"].map(|t| row(t, "ext4"));
        let mut text = String::new();
        table(
            &rows,
            TableStyle {
                tree: true,
                ..TableStyle::default()
            },
            &mut |piece| text.push_str(piece),
        );
        let names: Vec<&str> = text
            .lines()
            .skip(1)
            .map(|line| line.split(" /dev").next().unwrap().trim_end())
            .collect();
        assert_eq!(names, ["/", "├─/a", "│ └─/a/b", "│   └─/a/b", "└─/c"]);
    }

    #[test]
    fn odd_names_in_tab_files() {
        let mut odd = row("/a b\n\\#", "ext4");
        odd.source = None;
        assert_eq!(
            mnttab(&[odd]),
            b"none /a\\040b\\012\\134\\043 ext4 rw 0 0\n"
        );
    }

    #[test]
    fn a_bind_mount_in_fstab_names_its_original() {
        let mut bind = row("/jail/etc", "ext4");
        bind.fsroot = Some(b"/srv/etc");
        let rows = [row("/", "ext4"), bind, row("/proc", "proc")];
        let text = String::from_utf8(fstab(&rows, &rows)).unwrap();
        assert_eq!(
            text,
            "/dev/x / ext4 rw 0 1\n/srv/etc /jail/etc none bind 0 0\n"
        );
    }

    #[test]
    fn patterns_match_nothing_else() {
        let mut bad = row("/m[1]*\\$x ", "nfs");
        bad.verdict = Some("hung");
        let mut slow = row("/slow", "nfs");
        slow.verdict = Some("slow");
        assert_eq!(
            exclude(&[bad, row("/ok", "nfs"), slow]),
            b"/m[[]1][*][\\\\][$]x[ ]\n"
        );
    }

    #[test]
    fn a_name_that_is_no_utf8_is_given_exactly_too() {
        let mut odd = row("/", "ext4");
        odd.target = b"/\xff";
        let json: serde_json::Value = serde_json::to_value(odd).unwrap();
        assert_eq!(
            (json["target"].as_str(), json["target_b64"].as_str()),
            (Some("/\u{fffd}"), Some("L/8="))
        );
    }
}
